package lsp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/lsp"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Without a language server the answer comes from a search.
func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	base, err := os.MkdirTemp("", "lsp")
	must(err)
	defer os.RemoveAll(base)
	base, err = filepath.EvalSymlinks(base)
	must(err)
	src := filepath.Join(base, "src")
	must(os.Mkdir(src, 0o755))
	must(os.WriteFile(filepath.Join(src, "greet.go"), []byte("package a\n\nfunc Greet() {}\n"), 0o644))
	must(os.WriteFile(filepath.Join(src, "use.go"), []byte("package a\n\nfunc use() { Greet() }\n"), 0o644))

	p, err := lsp.Definition().Open(ctx, part.Host{Config: lsp.Defaults()})
	must(err)
	defer p.Close()
	ask := p.Groups[0].Tools[0]

	// What the request path does with it.
	backend, err := sandbox.NewBackend(sandbox.Options{
		Runtime: filepath.Join(base, "run"), Roots: func() []string { return []string{src} },
	})
	must(err)
	defer backend.Close()
	box, err := backend.Box(ctx, "s1", "strict", guard.Settings{})
	must(err)
	defer box.Close()
	in := tool.In{Session: "s1", Dir: src, Roots: []string{src}, Args: json.RawMessage(
		`{"operation": "goToDefinition", "file_path": "use.go", "line": 2, "character": 13}`,
	)}
	in.Judged, err = ask.Uses(ctx, in)
	must(err)
	out, err := ask.Run(ctx, in, box)
	must(err)
	fmt.Println(out.Text)
	// Output: greet.go:3:func Greet() {}
}
