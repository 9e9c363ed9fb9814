package worktree_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
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

	git := worktree.Git{Box: box{}, Host: part.Host{Hooked: func(part.Event) bool { return false }}}
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
	// 1 files are not committed <nil>
	// removed with work in it: false
	// removed with discard: true
}

// box runs git without a cage, which is that of package sandbox.
type box struct{ sandbox.Box }

func (box) Open(_ context.Context, use guard.PathUse, flag int) (*os.File, error) {
	return os.OpenFile(use.Path, flag, 0)
}

func (box) Start(ctx context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	c := command(ctx, s.Dir, s.Argv)
	c.Stdout, c.Stderr = s.Stdout, s.Stderr
	return proc{c: c}, c.Start()
}

// command reads no configuration of the user's.
func command(ctx context.Context, dir string, argv []string) *exec.Cmd {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C"}
	return c
}

type proc struct {
	sandbox.Proc
	c *exec.Cmd
}

func (p proc) Wait() (sandbox.Exit, error) {
	err := p.c.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		err = nil
	}
	return sandbox.Exit{Code: p.c.ProcessState.ExitCode()}, err
}
