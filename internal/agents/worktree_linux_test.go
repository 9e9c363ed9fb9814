package agents

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// inRepository is a run in a repository with a commit, which git is run in on the host.
func inRepository(t *testing.T) (r *run, git func(args ...string)) {
	t.Helper()
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := needs.Program(t, "git")
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C"}
	git = func(args ...string) {
		t.Helper()
		cmd := exec.Command(program, append([]string{"-C", repo, "-c", "user.name=a", "-c", "user.email=a@b.example"}, args...)...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "first")
	w, f := newWorld()
	w.up.Dir = repo
	f.host.Hooked = func(part.Event) bool { return false }
	in := tool.In{Account: "a", Session: "up", By: &tool.Identity{}, Dir: repo, Roots: []string{repo}}
	return &run{f: f, config: f.config.Load(), in: in, box: &toolstest.HostBox{Env: env}, parent: w.up}, git
}

// TestABranchThatStaysIsNoWorktree: the answer does not name a directory that is gone.
func TestABranchThatStaysIsNoWorktree(t *testing.T) {
	r, git := inRepository(t)
	var err error
	if r.tree, err = r.newWorktree(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	// Somebody changes the branch at the same time, so it cannot be deleted.
	if err := os.WriteFile(filepath.Join(r.in.Dir, ".git/refs/heads/worktree-ann.lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	left, err := r.settle(t.Context())
	if _, gone := os.Lstat(r.tree.Path); !errors.Is(gone, os.ErrNotExist) {
		t.Fatalf("the worktree: %v", gone)
	}
	if left == nil || *left != (kept{Branch: "worktree-ann"}) || err == nil ||
		left.String() != "\n[Worktree removed, its branch is still there: worktree-ann]" {
		t.Errorf("left %v, %v", left, err)
	}
	git("rev-parse", "-q", "--verify", "refs/heads/worktree-ann")
}

// TestACallThatIsCancelledLeavesNoWorktree: while the session of the agent was made.
func TestACallThatIsCancelledLeavesNoWorktree(t *testing.T) {
	r, _ := inRepository(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.f.host.NewSession = func(context.Context, tool.Session) (tool.Session, error) {
		cancel()
		return tool.Session{}, ctx.Err()
	}
	worktree, name := "worktree", "ann"
	r.args.Isolation, r.args.Name = &worktree, &name
	err := r.prepare(ctx)
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "git") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(r.in.Dir, ".worktrees")); err != nil || len(left) != 1 {
		t.Errorf("beside .gitignore there is %v, %v", left, err)
	}
}
