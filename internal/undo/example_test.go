package undo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/undo"
	"github.com/sandboxd/sandboxd/sandbox"
)

func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	base, err := os.MkdirTemp("", "undo")
	must(err)
	defer os.RemoveAll(base)
	base, err = filepath.EvalSymlinks(base)
	must(err)
	work := filepath.Join(base, "work")
	notes := filepath.Join(work, "notes")
	must(os.Mkdir(work, 0o755))
	must(os.WriteFile(notes, []byte("mine"), 0o644))

	d := undo.Definition()
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, d.Schema)
	must(err)
	defer db.Close()
	p, err := d.Open(ctx, part.Host{
		DB: db, Dir: filepath.Join(base, "undo"), Free: func() int64 { return 1 << 30 }, Config: d.Config(),
		Log: slog.New(slog.DiscardHandler),
	})
	must(err)
	defer p.Close()
	backend, err := sandbox.NewBackend(sandbox.Options{
		Runtime: filepath.Join(base, "run"), Roots: func() []string { return []string{work} },
	})
	must(err)
	defer backend.Close()
	box, err := backend.Box(ctx, "s1", "strict", guard.Settings{AllowedWritePaths: []string{work}})
	must(err)
	defer box.Close()

	// call is what the request path does: the journal keeps what a call is about to change.
	call := func(id string, do func(context.Context) error) *tool.Call {
		c := tool.NewCall(tool.Request{Account: "a", Session: "s1"})
		c.ID, c.Session = id, tool.Session{ID: "s1", Account: "a", Dir: work}
		c.Spec = tool.Spec{Name: "Write", Class: tool.ClassWrite}
		kept, err := p.Journal.Keep(ctx, c)
		must(err)
		must(do(kept))
		must(p.Journal.Collect(kept, c))
		return c
	}
	c := call("call_1", func(ctx context.Context) error {
		return sandbox.WriteFile(ctx, box, guard.PathUse{Path: notes, Op: guard.Write}, []byte("the agent's"), 0o644)
	})
	fmt.Println(c.Changes.List[0].Kind, c.Changes.List[0].Path, "kept:", c.Changes.Undo.Kept)

	call("call_2", func(ctx context.Context) error { // which call_3 could undo
		back := p.Groups[0].Tools[0]
		in := tool.In{CallID: "call_2", Account: "a", Session: "s1", Dir: work, Args: json.RawMessage(`{}`)}
		if in.Judged, err = back.Uses(ctx, in); err != nil {
			return err
		}
		out, err := back.Run(ctx, in, box)
		fmt.Println(out.Text)
		return err
	})
	text, err := os.ReadFile(notes)
	fmt.Println(string(text), err)
	// Output:
	// modify notes kept: true
	// undid call call_1 (Write)
	// restored notes
	// mine <nil>
}
