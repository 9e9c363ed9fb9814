package worktree_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/internal/worktree"
	"github.com/sandboxd/sandboxd/sandbox"
)

func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	repo, err := os.MkdirTemp("", "worktree")
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

	git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
	t, err := git.New(ctx, repo, []string{repo}, "try")
	must(err)
	lies, err := filepath.Rel(repo, t.Path)
	fmt.Println(lies, t.Branch, err)

	must(os.WriteFile(filepath.Join(t.Dir, "notes"), nil, 0o644))
	fmt.Println(git.Changed(ctx, t))
	fmt.Println("removed with work in it:", git.Remove(ctx, t, false) == nil)
	fmt.Println("removed with discard:", git.Remove(ctx, t, true) == nil)
	// Output:
	// .worktrees/try worktree-try <nil>
	// files not committed: 1 <nil>
	// removed with work in it: false
	// removed with discard: true
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
