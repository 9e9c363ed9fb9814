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

// TestFiltersOfTheRepositoryRun: in a worktree, too, a file is what the filters of the repository make of it.
func TestFiltersOfTheRepositoryRun(t *testing.T) {
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"f": "abc\n", ".gitattributes": "f filter=loud\n"} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"config", "filter.loud.smudge", "tr a-z A-Z"},
		{"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "-m", "first"},
	} {
		if err := command(t.Context(), repo, append([]string{"git"}, args...)).Run(); err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
	}
	git := worktree.Git{Box: box{}, Host: part.Host{Hooked: func(part.Event) bool { return false }}}
	tree, err := git.New(t.Context(), repo, []string{repo}, "try")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(tree.Path, "f")); err != nil || string(got) != "ABC\n" {
		t.Errorf("got %q, %v", got, err)
	}
	// What git refuses is said in git's words.
	if err := os.WriteFile(filepath.Join(tree.Path, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err = git.Remove(t.Context(), tree, false)
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "git_failed" ||
		!strings.HasPrefix(e.Msg, "git said: fatal: ") || !strings.Contains(e.Msg, "modified or untracked files") {
		t.Errorf("a worktree with a new file is removed: %v", err)
	}
}

// TestNoHookOfTheRepositoryRuns, and no program that watches its files.
func TestNoHookOfTheRepositoryRuns(t *testing.T) {
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	run := func(args ...string) {
		t.Helper()
		if err := command(t.Context(), repo, append([]string{"git"}, args...)).Run(); err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
	}
	run("init", "-q")
	run("-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "--allow-empty", "-m", "first")
	hook := filepath.Join(repo, ".git/hooks/any")
	if err := errors.Join(os.MkdirAll(filepath.Dir(hook), 0o755),
		os.WriteFile(hook, []byte("#!/bin/sh\necho \"$0\" >> "+ran+"\n"), 0o755),
		os.Symlink(hook, filepath.Join(repo, ".git/hooks/post-checkout")),
		os.Symlink(hook, filepath.Join(repo, ".git/hooks/reference-transaction"))); err != nil {
		t.Fatal(err)
	}
	run("config", "core.fsmonitor", hook)
	git := worktree.Git{Box: box{}, Host: part.Host{Hooked: func(part.Event) bool { return false }}}
	tree, err := git.New(t.Context(), repo, []string{repo}, "try")
	if err != nil {
		t.Fatal(err)
	}
	if what, err := git.Changed(t.Context(), tree); err != nil || what != "" {
		t.Errorf("changed: %q, %v", what, err)
	}
	if err := git.Remove(t.Context(), tree, false); err != nil {
		t.Error(err)
	}
	if did, err := os.ReadFile(ran); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there ran\n%s", did)
	}
}
