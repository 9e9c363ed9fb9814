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
	git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
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

// repository makes a repository with a commit, and returns git in a directory.
func repository(t *testing.T) (repo string, run func(dir string, args ...string)) {
	t.Helper()
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run = func(dir string, args ...string) {
		t.Helper()
		argv := append([]string{"git", "-c", "user.name=a", "-c", "user.email=a@b.example"}, args...)
		if err := command(t.Context(), dir, argv).Run(); err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
	}
	run(repo, "init", "-q")
	run(repo, "commit", "-q", "--allow-empty", "-m", "first")
	return repo, run
}

// TestNoHookOfTheRepositoryRuns, and no program that watches its files.
func TestNoHookOfTheRepositoryRuns(t *testing.T) {
	repo, run := repository(t)
	ran := filepath.Join(t.TempDir(), "ran")
	hook := filepath.Join(repo, ".git/hooks/any")
	if err := errors.Join(os.MkdirAll(filepath.Dir(hook), 0o755),
		os.WriteFile(hook, []byte("#!/bin/sh\necho \"$0\" >> "+ran+"\n"), 0o755),
		os.Symlink(hook, filepath.Join(repo, ".git/hooks/post-checkout")),
		os.Symlink(hook, filepath.Join(repo, ".git/hooks/reference-transaction"))); err != nil {
		t.Fatal(err)
	}
	run(repo, "config", "core.fsmonitor", hook)
	git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
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

// TestABranchWithNewCommitsIsKept: the worktree goes, and the error names the branch.
func TestABranchWithNewCommitsIsKept(t *testing.T) {
	repo, run := repository(t)
	git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
	tree, err := git.New(t.Context(), repo, []string{repo}, "try")
	if err != nil {
		t.Fatal(err)
	}
	run(tree.Path, "commit", "-q", "--allow-empty", "-m", "second")
	if err := git.Remove(t.Context(), tree, false); err == nil || !strings.Contains(err.Error(), "its branch worktree-try is not") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(tree.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the worktree: %v", err)
	}
	run(repo, "rev-parse", "-q", "--verify", "refs/heads/worktree-try")
}

// TestAWorktreeOutsideOfTheWorkspaceIsRefused: a link of the repository led there. Nothing of it stays.
func TestAWorktreeOutsideOfTheWorkspaceIsRefused(t *testing.T) {
	repo, run := repository(t)
	outside := t.TempDir()
	trees := filepath.Join(repo, ".worktrees")
	if err := errors.Join(os.Mkdir(trees, 0o755), os.Symlink(outside, filepath.Join(trees, "try"))); err != nil {
		t.Fatal(err)
	}
	git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
	_, err := git.New(t.Context(), repo, []string{repo}, "try")
	if err == nil || !strings.Contains(err.Error(), "is outside of the workspace") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(outside); err == nil && len(left) > 0 {
		t.Errorf("there is %v", left)
	}
	run(repo, "branch", "worktree-try") // it is free
}

// TestABranchThatIsGoneIsNoError: the agent has renamed or deleted it, without commits of its own.
func TestABranchThatIsGoneIsNoError(t *testing.T) {
	for name, does := range map[string][][]string{
		"renamed":            {{"branch", "-m", "other"}},
		"renamed to a below": {{"checkout", "-q", "--detach"}, {"branch", "-m", "worktree-try", "worktree-try/b"}},
		"deleted":            {{"checkout", "-q", "--detach"}, {"branch", "-D", "worktree-try"}},
	} {
		for _, discard := range []bool{false, true} {
			repo, run := repository(t)
			git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
			tree, err := git.New(t.Context(), repo, []string{repo}, "try")
			if err != nil {
				t.Fatal(err)
			}
			for _, words := range does {
				run(tree.Path, words...)
			}
			if what, err := git.Changed(t.Context(), tree); what != "" || err != nil {
				t.Errorf("%s: changed is %q, %v", name, what, err)
			}
			if err := git.Remove(t.Context(), tree, discard); err != nil {
				t.Errorf("%s, discard %t: %v", name, discard, err)
			}
		}
	}
}

// TestABranchThatLeadsToAnotherOneGoesAlone: the agent has made a symbolic reference of it.
func TestABranchThatLeadsToAnotherOneGoesAlone(t *testing.T) {
	repo, run := repository(t)
	git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
	tree, err := git.New(t.Context(), repo, []string{repo}, "try")
	if err != nil {
		t.Fatal(err)
	}
	run(tree.Path, "branch", "precious")
	run(tree.Path, "symbolic-ref", "refs/heads/worktree-try", "refs/heads/precious")
	if err := git.Remove(t.Context(), tree, false); err != nil {
		t.Error(err)
	}
	run(repo, "rev-parse", "--verify", "refs/heads/precious")
	list := []string{"git", "for-each-ref", "--format=%(refname)", "refs/heads/worktree-*"}
	if out, err := command(t.Context(), repo, list).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("its own is still there: %s%v", out, err)
	}
}

// TestAWorktreeThatFailsLeavesNoBranch: its name is free again. A branch that was there before stays.
func TestAWorktreeThatFailsLeavesNoBranch(t *testing.T) {
	repo, run := repository(t)
	git := worktree.Git{Box: box(), Host: part.Host{Hooked: func(part.Event) bool { return false }}}
	there := filepath.Join(repo, ".worktrees/try/file")
	if err := errors.Join(os.MkdirAll(filepath.Dir(there), 0o755), os.WriteFile(there, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, try := range []string{"first", "second"} {
		_, err := git.New(t.Context(), repo, []string{repo}, "try")
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != worktree.Exists || !strings.Contains(e.Msg, there[:len(there)-5]) {
			t.Errorf("%s: got %v", try, err)
		}
	}
	if err := os.RemoveAll(filepath.Dir(there)); err != nil {
		t.Fatal(err)
	}
	if _, err := git.New(t.Context(), repo, []string{repo}, "try"); err != nil {
		t.Errorf("the name is taken: %v", err)
	}
	run(repo, "branch", "worktree-mine")
	_, err := git.New(t.Context(), repo, []string{repo}, "mine")
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != worktree.Exists {
		t.Errorf("a branch that is there: got %v", err)
	}
	run(repo, "rev-parse", "-q", "--verify", "refs/heads/worktree-mine")
}
