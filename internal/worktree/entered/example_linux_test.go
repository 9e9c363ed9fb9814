package entered_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/internal/worktree/entered"
	"github.com/sandboxd/sandboxd/sandbox"
)

func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	repo, err := os.MkdirTemp("", "entered")
	must(err)
	defer os.RemoveAll(repo)
	repo, err = filepath.EvalSymlinks(repo)
	must(err)
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "--allow-empty", "-m", "first"},
	} {
		must(command(ctx, repo, append([]string{"git"}, args...)).Run())
	}

	d := entered.Definition()
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, d.Schema, sessions.Schema())
	must(err)
	defer db.Close()
	kept := sessions.New(db, sessions.Options{})
	_, err = kept.Create(ctx, tool.Session{ID: "s1", Account: "a", Dir: repo, Mode: tool.ModeAuto})
	must(err)
	p, err := d.Open(ctx, part.Host{DB: db, Sessions: kept, Hooked: func(part.Event) bool { return false }})
	must(err)

	dir := repo // of the session; the request path stores where a call leads
	call := func(t tool.Tool, args string) {
		in := tool.In{Account: "a", Session: "s1", Dir: dir, Roots: []string{repo}, Args: json.RawMessage(args)}
		out, err := t.Run(ctx, in, box())
		if out.Dir != "" {
			dir = out.Dir
		}
		said := out.Text
		if err != nil {
			said = err.Error()
		}
		fmt.Println(strings.ReplaceAll(said, repo, "/repo"))
	}
	enter, exit := p.Groups[0].Tools[0], p.Groups[0].Tools[1]
	call(enter, `{"name": "try"}`)
	must(os.WriteFile(filepath.Join(dir, "notes"), nil, 0o644))
	call(exit, `{"id": "worktree_1"}`)
	call(exit, `{"id": "worktree_1", "discard_changes": true}`)
	fmt.Println("back:", dir == repo)
	// Output:
	// Worktree created: worktree_1 at /repo/.worktrees/try (branch: worktree-try)
	// worktree_1 at /repo/.worktrees/try (branch: worktree-try) was not removed: files not committed: 1
	// Worktree removed: worktree_1
	// back: true
}

// box runs git on the host, without a cage.
func box() sandbox.Box { return &toolstest.HostBox{Env: env()} }

// env has no configuration of the user's.
func env() []string { return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C"} }

func command(ctx context.Context, dir string, argv []string) *exec.Cmd {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Env = dir, env()
	return c
}
