package vars_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

func Example() {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, vars.Schema())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	s := vars.New(db, vars.Options{Log: slog.New(slog.DiscardHandler)})
	text, typ := "good morning", vars.TypeUser
	_, created, err := s.Put(ctx, "s1", "greeting", vars.Change{Value: &text, Type: &typ}, tool.OriginPerson)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("created:", created)
	args, origins, err := s.Resolve(ctx, "s1", []byte(`{"command":"echo $VAR_REF{{greeting:0:4}}"}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(args), origins.Args)
	// Output:
	// created: true
	// {"command":"echo good"} map[command:[model person]]
}
