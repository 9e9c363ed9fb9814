package worktree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/worktree"
)

// TestANameIsNoPath: a name below that of another worktree made git ignore the new files there, so that Remove without
// discard deleted them.
func TestANameIsNoPath(t *testing.T) {
	repo, _ := repository(t)
	git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
	tree, err := git.New(t.Context(), repo, []string{repo}, "try")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := git.New(t.Context(), repo, []string{repo}, "try/sub"); err == nil {
		t.Error("there is a worktree try/sub")
	}
	work := filepath.Join(tree.Path, "work")
	if err := os.WriteFile(work, []byte("of hours"), 0o644); err != nil {
		t.Fatal(err)
	}
	if what, err := git.Changed(t.Context(), tree); err != nil || what == "" {
		t.Errorf("with a new file, what would be lost is %q, %v", what, err)
	}
	if err := git.Remove(t.Context(), tree, false); err == nil {
		t.Error("the worktree is removed with the new file")
	}
	if _, err := os.Lstat(work); err != nil {
		t.Error(err)
	}
}

// TestWhatANameMayBe: any other name is refused before git or a shell runs, and nothing is made.
func TestWhatANameMayBe(t *testing.T) {
	repo, _ := repository(t)
	git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
	for _, name := range []string{
		"", ".", "..", "...", "/", "a/b", "../a", "a/../..", "a\\b", "-a", "--force", "_a", "a b", "a.b", "a.lock", "@",
		"@{-1}", "a@{1}", "a^", "a~1", "a:b", "a*", "a?", "a[", "a\n", "a\x00", "é", "\xff", strings.Repeat("a", 101),
	} {
		_, err := git.New(t.Context(), repo, []string{repo}, name)
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != "invalid_arguments" || !strings.Contains(e.Msg, "not a name of a worktree") ||
			!strings.Contains(e.Hint, "letters, digits, - and _") {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if made, err := os.ReadDir(repo); err != nil || len(made) != 1 {
		t.Errorf("in the repository, beside .git: %v, %v", made, err)
	}
	for _, name := range []string{"a", "7", "HEAD", "a-_b", strings.Repeat("a", 100)} {
		path, branch, err := worktree.Place(repo, []string{repo}, name)
		if err != nil || path != filepath.Join(repo, ".worktrees", name) || branch != "worktree-"+name {
			t.Errorf("%q: got %q, %q, %v", name, path, branch, err)
		}
		if _, err := git.New(t.Context(), repo, []string{repo}, name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
