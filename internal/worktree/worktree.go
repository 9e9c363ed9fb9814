// Package worktree makes and removes git worktrees for agents. It runs git in the sandbox of a
// call.
//
//	git := worktree.Git{Box: box, Host: host, Session: session} // the box of the call
//	t, err := git.New(ctx, dir, roots, "try") // .worktrees/try, on the branch worktree-try
//	what, err := git.Changed(ctx, t)          // what would be lost; "": nothing
//	err = git.Remove(ctx, t, false)           // an error if work would be lost
//
// The name of a worktree has at most 100 letters, digits, - and _, all of ASCII, and begins with a
// letter or a digit. [Place] and [Git.New] refuse any other one (invalid_arguments): a name with a
// slash would lie in another worktree, and git takes some for an option or a revision.
//
// [Git.New] begins with the last commit. If the name is taken, its error is worktree_exists.
// [Git.Remove] removes the worktree with its branch. Call [Git.Changed] before it: only that finds
// commits that are on no branch. [Git.Usable] tells whether a session may go on in a directory, and
// [Tree.For] where its permission rules count from in a worktree.
//
// Guaranteed: the hooks of the repository do not run. Hooks of sandboxd (worktreeCreate) may refuse a
// worktree. Remove without discard refuses if git finds changed or new files, also if they came
// after Changed. If the branch has new commits, or cannot be deleted, it removes the worktree, keeps
// the branch, and returns a [*BranchError]; a branch that is gone already is no error. A directory that
// was put in the place of a worktree, or a link to one, is not removed and not emptied
// (worktree_replaced).
//
// Files that git ignores are removed without a warning. What git prints comes from the repository:
// it is bounded, and a directory outside of the workspace is refused. Filters that the
// configuration of the repository names run as they do for any git of the session, in its sandbox.
//
// After an error of New, the worktree that it had made is removed again. Other codes of errors are
// no_repository, hook_blocked and git_failed, which has what git said.
//
// A new command of git is run by the method git, not by run: only git turns off the hooks of the
// repository. Nothing here judges: only a call that was judged may come here. The tests run git on the
// host, in the box of package toolstest.
package worktree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Git runs git in a box.
type Git struct {
	Box     sandbox.Box
	Host    part.Host
	Session tool.Session // whose hooks hear of worktrees
}

// Tree is one worktree.
type Tree struct {
	Repo   string `json:"repo"` // git directory that all worktrees of the repository share
	Path   string `json:"path"`
	Dir    string `json:"dir"` // to work in: Path, or the directory in it that the repository was entered by
	Branch string `json:"branch"`
	Base   string `json:"base"` // the commit that it began with
	// Inode is that of Path when it was made; 0 in trees of earlier versions. The number of a device may be
	// another one after a restart of the machine.
	Inode uint64 `json:"inode,omitempty"`
}

// For returns the directory of t that stands for a base: the first of bases that contains dir, the directory that t was
// made from. Without one it returns t.Path.
func (t Tree) For(dir string, bases ...string) string {
	for _, base := range bases {
		if base == "" || !guard.Within(dir, base) {
			continue
		}
		rel, err := filepath.Rel(base, dir)
		if err != nil {
			break
		}
		at := t.Dir
		for ; rel != "."; rel = filepath.Dir(rel) { // up as far as dir is below base
			if filepath.Base(at) != filepath.Base(rel) {
				return t.Path
			}
			at = filepath.Dir(at)
		}
		if guard.Within(at, t.Path) {
			return at
		}
		break
	}
	return t.Path
}

// treesDir is where worktrees lie, in the workspace. It ignores itself for git.
const treesDir = ".worktrees"

// The bounds of one run of git.
const (
	maxGit  = 1 << 20 // bytes that it may say
	gitTime = 2 * time.Minute
)

// plain is what the name of a worktree may be. The limit is above the 64 characters of an agent's name and of
// EnterWorktree, because a number is appended to the name of an agent.
var plain = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// Place returns where a worktree with a name lies, for a session in dir, and its branch.
func Place(dir string, roots []string, name string) (path, branch string, err error) {
	if !plain().MatchString(name) {
		return "", "", &tool.Error{
			Code: "invalid_arguments", Msg: fmt.Sprintf("%.80q is not a name of a worktree", name),
			Hint: "a name has at most 100 letters, digits, - and _, and begins with a letter or a digit",
		}
	}
	root := slices.IndexFunc(roots, func(root string) bool { return guard.Within(dir, root) })
	if root < 0 {
		return "", "", fmt.Errorf("%q is in no workspace", dir)
	}
	return filepath.Join(roots[root], treesDir, name), "worktree-" + name, nil
}

// Exists is the code of the error of a name that is taken.
const Exists = "worktree_exists"

// New makes a worktree of the last commit of the repository that dir is in.
func (g Git) New(ctx context.Context, dir string, roots []string, name string) (Tree, error) {
	var t Tree
	path, branch, err := Place(dir, roots, name)
	if err != nil {
		return t, err
	}
	said, err := g.git(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir", "--show-prefix", "HEAD")
	lines := strings.Split(said, "\n")
	if err != nil || len(lines) != 3 {
		return t, &tool.Error{
			Code: "no_repository", Msg: "there is no git repository with a commit here to make a worktree of",
			Hint: "work where you are, or commit something first",
		}
	}
	prefix := lines[1]
	t = Tree{Repo: lines[0], Base: lines[2], Path: path, Branch: branch}
	// The repository may hold a link of this name, or a file. noclobber opens nothing that is there.
	const ignored = `set -C; [ ! -L "$1" ] && mkdir -p -- "$1" &&
		{ [ -e "$1/.gitignore" ] || printf '*\n' > "$1/.gitignore"; }`
	trees := filepath.Dir(t.Path)
	if _, err := g.run(ctx, filepath.Dir(trees), "/bin/sh", "-c", ignored, "sh", trees); err != nil {
		return t, fmt.Errorf("make %q, which must be a directory and no link: %w", trees, err)
	}
	// worktree add -b would not tell whether it made the branch before it failed.
	if _, err := g.git(ctx, t.Repo, "branch", "-q", t.Branch, t.Base); err != nil {
		return t, notMade(err)
	}
	if _, err := g.git(ctx, t.Repo, "worktree", "add", "-q", t.Path, t.Branch); err != nil {
		return t, errors.Join(notMade(err), g.dropBranch(context.WithoutCancel(ctx), t, false))
	}
	// Where it is in fact: a link may lie on the way.
	at, err := g.git(ctx, t.Path, "rev-parse", "--show-toplevel")
	if err == nil && !slices.ContainsFunc(roots, func(root string) bool { return guard.Within(at, root) }) {
		err = fmt.Errorf("%q is outside of the workspace", at)
	}
	if err == nil {
		t.Path, t.Dir = at, at
		t.Inode, err = g.inode(ctx, t)
	}
	if err == nil {
		if _, cannot := g.git(ctx, at, "cat-file", "-e", "HEAD:"+prefix); cannot == nil {
			t.Dir = filepath.Join(at, prefix) // it may hold nothing that is committed
		}
		err = g.made(ctx, t)
	}
	if err != nil {
		ctx = context.WithoutCancel(ctx)
		return t, errors.Join(err, g.remove(ctx, t, true), g.dropBranch(ctx, t, true))
	}
	return t, nil
}

func notMade(err error) error {
	if strings.Contains(err.Error(), "already exists") {
		return &tool.Error{Code: Exists, Msg: err.Error(), Hint: "choose another name"}
	}
	return fmt.Errorf("make a worktree: %w", err)
}

// made asks the hooks of a worktree that was made.
func (g Git) made(ctx context.Context, t Tree) error {
	if !g.Host.Hooked(part.WorktreeCreate) {
		return nil
	}
	said, err := g.Host.Fire(ctx, part.Happening{Event: part.WorktreeCreate, Session: g.Session, Path: t.Path})
	if err == nil && said.Block {
		err = &tool.Error{Code: "hook_blocked", Msg: cmp.Or(said.Reason, "the worktree was blocked by a hook")}
	}
	return err
}

// Changed says what would be lost with a worktree; "" if nothing would.
func (g Git) Changed(ctx context.Context, t Tree) (string, error) {
	if err := g.same(ctx, t); err != nil {
		return "", err
	}
	status, err := g.git(ctx, t.Path, "status", "--porcelain", "--ignored=no")
	if err != nil {
		return "", err
	}
	if status != "" {
		return fmt.Sprintf("files not committed: %d", strings.Count(status, "\n")+1), nil
	}
	heads, err := g.git(ctx, t.Path, "for-each-ref", "--format=%(objectname)", "refs/heads/"+t.Branch)
	if err != nil {
		return "", err
	}
	head, err := g.git(ctx, t.Path, "rev-parse", "HEAD")
	if err == nil && (head != t.Base || heads != "" && heads != t.Base) {
		return "it has commits of its own", nil
	}
	return "", err
}

// BranchError is that a worktree is removed, and its branch is not.
type BranchError struct {
	Branch string
	Err    error
}

func (e *BranchError) Error() string {
	return fmt.Sprintf("the worktree is removed, its branch %s is not: %v", e.Branch, e.Err)
}

func (e *BranchError) Unwrap() error { return e.Err }

// Remove removes a worktree and its branch. Without discard, work that is in it makes that an error.
// Files that git ignores are lost. A path at which something else lies by now is an error.
func (g Git) Remove(ctx context.Context, t Tree, discard bool) error {
	if err := g.same(ctx, t); err != nil {
		return err
	}
	if err := g.remove(ctx, t, discard); err != nil {
		return err
	}
	err := g.dropBranch(ctx, t, discard)
	if g.Host.Hooked(part.WorktreeRemove) {
		h := part.Happening{Event: part.WorktreeRemove, Session: g.Session, Path: t.Path}
		if _, err := g.Host.Fire(ctx, h); err != nil {
			g.Host.Log.Warn("hooks were not told of a worktree", "path", t.Path, "error", err)
		}
	}
	return err
}

func (g Git) remove(ctx context.Context, t Tree, discard bool) error {
	argv := []string{"worktree", "remove", t.Path}
	if discard {
		argv = []string{"worktree", "remove", "--force", t.Path}
	}
	if _, err := g.git(ctx, t.Repo, argv...); err != nil { // without --force git looks by itself
		if !strings.Contains(err.Error(), "failed to delete") {
			return err
		}
		if err := g.finish(ctx, t); err != nil {
			return fmt.Errorf("remove what git left of %q: %w", t.Path, err)
		}
	}
	return nil
}

// dropBranch removes the branch of a worktree that is gone; without discard only if it is as the worktree began.
// It is no error if the branch is gone, too.
func (g Git) dropBranch(ctx context.Context, t Tree, discard bool) error {
	if !discard {
		ref := "refs/heads/" + t.Branch
		_, err := g.git(ctx, t.Repo, "update-ref", "--no-deref", "-d", ref, t.Base)
		if err == nil {
			return nil
		}
		there, cannot := g.git(ctx, t.Repo, "for-each-ref", "--format=%(refname)", ref) // also those below ref
		if cannot == nil && !slices.Contains(strings.Split(there, "\n"), ref) {
			return nil
		}
		return &BranchError{t.Branch, err}
	}
	_, err := g.git(ctx, t.Repo, "branch", "-q", "-D", t.Branch)
	if err == nil || strings.Contains(err.Error(), "not found") { // the agent has removed or renamed it
		return nil
	}
	return &BranchError{t.Branch, err}
}

// git runs git without the hooks of the repository, and returns what it prints without the last line
// feed.
func (g Git) git(ctx context.Context, dir string, args ...string) (string, error) {
	argv := []string{"git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}
	return g.run(ctx, dir, append(argv, args...)...)
}

func (g Git) run(ctx context.Context, dir string, argv ...string) (string, error) {
	ctx, stop := tool.Timeout(ctx, gitTime)
	defer stop()
	var out, said limited
	proc, err := g.Box.Start(ctx, sandbox.Spec{
		Argv: argv, Dir: dir, Stdout: &out, Stderr: &said, Bounded: true, Env: []string{"LC_ALL=C"},
	})
	if err != nil {
		return "", err
	}
	exit, err := proc.Wait()
	if err != nil {
		return "", err
	}
	if exit.Code != 0 {
		text := strings.ToValidUTF8(strings.TrimSpace(said.String()), "\uFFFD")
		return "", &tool.Error{Code: "git_failed", Msg: fmt.Sprintf("git said: %.1000s", text)}
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// limited keeps the first bytes that are written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	l.Buffer.Write(b[:min(len(b), max(0, maxGit-l.Len()))])
	return len(b), nil
}
