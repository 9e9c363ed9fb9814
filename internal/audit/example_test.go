package audit_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	ctx := context.Background()
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)
	keys, err := os.MkdirTemp("", "keys")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(keys)
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, audit.Schema())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	opts := audit.Options{Dir: state, KeyFile: filepath.Join(keys, "audit.key")}
	mirror := audit.NewMirror(db)
	record, err := audit.Open(ctx, opts, mirror)
	if err != nil {
		log.Fatal(err)
	}
	call := tool.NewCall(tool.Request{Account: "a1", Session: "s1", Tool: "Bash"})
	if err := record.Begin(ctx, call); err != nil { // nil: the call may run
		log.Fatal(err)
	}
	if err := record.End(ctx, call); err != nil { // an error: the result must be withheld
		log.Fatal(err)
	}
	if err := record.Close(); err != nil {
		log.Fatal(err)
	}

	verify := func() {
		rep, err := audit.Verify(ctx, opts, mirror)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("lines:", rep.Lines, "bad:", rep.Bad != nil)
	}
	verify()
	if err := os.Truncate(opts.Path(), 10); err != nil {
		log.Fatal(err)
	}
	verify()
	// Output:
	// lines: 3 bad: false
	// lines: 0 bad: true
}
