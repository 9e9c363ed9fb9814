package kept_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/store"
)

func Example() {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, kept.Schema())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	pins, server := kept.New(db, db), kept.Server{Account: "me", Config: "0123", Name: "files"}
	read := kept.Tool{Name: "read", Text: []byte(`{"name":"read"}`)}
	for _, offered := range [][]kept.Tool{
		{read},
		{read, {Name: "write", Text: []byte(`{"name":"write"}`)}},
		{{Name: "read", Text: []byte(`{"name":"read","title":"other"}`)}},
	} {
		states, err := pins.Compare(ctx, server, offered, true)
		if err != nil {
			log.Fatal(err)
		}
		for _, t := range offered {
			fmt.Printf("%s: %q\n", t.Name, states[t.Name].Why)
		}
	}
	// Output:
	// read: "as pinned"
	// read: "as pinned"
	// write: "new"
	// read: "changed"
}
