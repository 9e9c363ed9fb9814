package entered_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/worktree/entered"
)

// world is a repository, and the session s1 in it.
type world struct {
	repo        string
	enter, exit tool.Tool
	db          *store.DB
	part        part.Part
}

func newWorld(t *testing.T) *world {
	t.Helper()
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repo = filepath.Join(repo, "it's; a $(repository)")
	if err := os.Mkdir(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"git", "init", "-q"},
		{"git", "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "--allow-empty", "-m", "first"},
	} {
		if out, err := command(t.Context(), repo, args).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	d := entered.Definition()
	db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, d.Schema, sessions.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	kept := sessions.New(db, sessions.Options{})
	if _, err := kept.Create(t.Context(), tool.Session{ID: "s1", Account: "a", Dir: repo, Mode: tool.ModeAuto}); err != nil {
		t.Fatal(err)
	}
	p, err := d.Open(t.Context(), part.Host{DB: db, Sessions: kept, Hooked: func(part.Event) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	return &world{repo, p.Groups[0].Tools[0], p.Groups[0].Tools[1], db, p}
}

// run calls a tool of the session, which is in dir.
func (w *world) run(t *testing.T, one tool.Tool, dir string, roots []string, args string) (tool.Output, error) {
	t.Helper()
	in := tool.In{Account: "a", Session: "s1", Dir: dir, Roots: roots, Args: json.RawMessage(args)}
	return one.Run(t.Context(), in, box())
}

// TestASessionIsInSoManyWorktrees: the one that is too many is not left on the disk.
func TestASessionIsInSoManyWorktrees(t *testing.T) {
	const most = 50
	w := newWorld(t)
	enter := func(i int) error {
		_, err := w.run(t, w.enter, w.repo, []string{w.repo}, fmt.Sprintf(`{"name": "w%d"}`, i))
		return err
	}
	for i := range most {
		if err := enter(i); err != nil {
			t.Fatalf("worktree %d: %v", i, err)
		}
	}
	var e *tool.Error
	if err := enter(most); !errors.As(err, &e) || e.Code != "too_many_worktrees" {
		t.Errorf("worktree %d: got %v, want too_many_worktrees", most, err)
	}
	if _, err := os.Lstat(filepath.Join(w.repo, ".worktrees", fmt.Sprint("w", most))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the one that is too many: %v", err)
	}
}

// A session leaves a worktree for the directory where it was before, else for the workspace; where neither can be used
// it stays, and so does the worktree.
func TestASessionLeavesAWorktreeForADirectory(t *testing.T) {
	w := newWorld(t)
	before := filepath.Join(w.repo, "before")
	if err := os.Mkdir(before, 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := w.run(t, w.enter, before, []string{w.repo}, `{"name": "try"}`)
	if err != nil {
		t.Fatal(err)
	}
	const leave, keep = `{"id": "worktree_1"}`, `{"id": "worktree_1", "action": "keep"}`
	for _, tt := range []struct {
		gone, moved bool // the directory before, the workspace
		roots       []string
		args        string
		want        string // "": it cannot leave
	}{
		{false, false, nil, leave, ""},
		{true, false, nil, leave, ""},
		{true, true, []string{w.repo}, keep, ""},
		{true, false, []string{w.repo}, keep, w.repo},
	} {
		if tt.gone {
			_ = os.Remove(before)
		}
		if tt.moved {
			if err := os.Rename(w.repo, w.repo+".moved"); err != nil {
				t.Fatal(err)
			}
		}
		out, err := w.run(t, w.exit, in.Dir, tt.roots, tt.args)
		if tt.moved {
			if err := os.Rename(w.repo+".moved", w.repo); err != nil {
				t.Fatal(err)
			}
		}
		e, refused := errors.AsType[*tool.Error](err)
		switch {
		case tt.want == "" && (!refused || e.Code != "no_directory" ||
			!strings.Contains(e.Msg, "cannot leave worktree_1")):
			t.Errorf("%+v: got %+v, %v, want no_directory", tt, out, err)
		case tt.want != "" && (err != nil || out.Dir != tt.want ||
			!strings.Contains(out.Text, "The session goes on in "+tt.want)):
			t.Errorf("%+v: got %+v, %v", tt, out, err)
		}
		if _, err := os.Lstat(in.Dir); err != nil {
			t.Errorf("%+v: the worktree is gone: %v", tt, err)
		}
	}
}

// uses returns the commands as which a call is judged, one a line, and the paths that it writes beside them.
func (w *world) uses(t *testing.T, one tool.Tool, dir, args string) string {
	t.Helper()
	in := tool.In{
		Account: "a", Session: "s1", Dir: dir, Roots: []string{w.repo}, Args: json.RawMessage(args),
		Rules: guard.NewRules(guard.Settings{}),
	}
	u, err := one.Uses(t.Context(), in)
	if err != nil {
		return err.Error()
	}
	var lines []string
	if u.Script != nil {
		for _, c := range u.Script.Commands {
			line := c.Name
			for _, w := range c.Args {
				line += " " + w.Text
			}
			lines = append(lines, line)
		}
	}
	for _, p := range u.Paths {
		if p.Op == guard.Write && p.Path == filepath.Join(w.repo, ".worktrees", "try") {
			lines = append(lines, "writes "+p.Raw)
			break
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), w.repo, "/repo")
}

// Both tools are judged as the commands of git that they stand for, whatever the names of directories are.
func TestACallIsJudgedAsItsCommandsOfGit(t *testing.T) {
	w := newWorld(t)
	const writes = "\nwrites /repo/.worktrees/try"
	const add = "git worktree add -b worktree-try /repo/.worktrees/try HEAD"
	if got := w.uses(t, w.enter, w.repo, `{"name": "try"}`); got != add+writes {
		t.Errorf("entering: %s", got)
	}
	if _, err := w.run(t, w.enter, w.repo, []string{w.repo}, `{"name": "try"}`); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"id": "worktree_1"}`: "git worktree remove /repo/.worktrees/try\ngit branch -d worktree-try" +
			writes,
		`{"id": "worktree_1", "discard_changes": true}`: "git worktree remove --force /repo/.worktrees/try\n" +
			"git branch -D worktree-try" + writes,
		`{"id": "worktree_1", "action": "keep", "discard_changes": true}`: "",
		`{"id": "worktree_2"}`: "Worktree not found: worktree_2",
	} {
		if got := w.uses(t, w.exit, w.repo, args); got != want {
			t.Errorf("leaving with %s: %s, want %s", args, got, want)
		}
	}
}

// Who entered a worktree from within another comes back to where that was entered from, once that is left.
func TestTheWayBackIsNotThroughAWorktreeThatWasLeft(t *testing.T) {
	w := newWorld(t)
	first, err := w.run(t, w.enter, w.repo, []string{w.repo}, `{"name": "one"}`)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.run(t, w.enter, first.Dir, []string{w.repo}, `{"name": "two"}`)
	if err != nil {
		t.Fatal(err)
	}
	// It is in the second one, and stays there.
	out, err := w.run(t, w.exit, second.Dir, []string{w.repo}, `{"id": "worktree_1", "action": "keep"}`)
	if err != nil || out.Dir != "" || out.Text != "Worktree kept: worktree_1" {
		t.Errorf("leaving the first: %+v, %v", out, err)
	}
	out, err = w.run(t, w.exit, second.Dir, []string{w.repo}, `{"id": "worktree_2"}`)
	if err != nil || out.Dir != w.repo || out.Text != "Worktree removed: worktree_2" {
		t.Errorf("leaving the second: %+v, %v", out, err)
	}
	want := map[string]any{"id": "worktree_2", "path": second.Dir, "branch": "worktree-two"}
	if !reflect.DeepEqual(out.Data, want) {
		t.Errorf("its data are %v, want %v", out.Data, want)
	}
	if got := w.uses(t, w.exit, w.repo, `{"id": "worktree_1"}`); got != "Worktree not found: worktree_1" {
		t.Errorf("leaving it again: %s", got)
	}
}

// A session leaves a worktree that is removed, also where the branch cannot be: it would be in a directory that is gone.
func TestASessionLeavesAWorktreeWhoseBranchStays(t *testing.T) {
	w := newWorld(t)
	in, err := w.run(t, w.enter, w.repo, []string{w.repo}, `{"name": "try"}`)
	if err != nil {
		t.Fatal(err)
	}
	other := []string{"git", "worktree", "add", "-f", filepath.Join(w.repo, "other"), "worktree-try"}
	if out, err := command(t.Context(), w.repo, other).CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	out, err := w.run(t, w.exit, in.Dir, []string{w.repo}, `{"id": "worktree_1", "discard_changes": true}`)
	if err != nil || out.Dir != w.repo ||
		!strings.HasPrefix(out.Text, "Worktree removed: worktree_1\nIts branch worktree-try is still there: git said: ") {
		t.Errorf("leaving it: %+v, %v", out, err)
	}
	if got := w.uses(t, w.exit, w.repo, `{"id": "worktree_1"}`); got != "Worktree not found: worktree_1" {
		t.Errorf("leaving it again: %s", got)
	}
}

// Nothing is kept of a session that is deleted, and its worktrees stay where they are.
func TestASessionThatIsDeletedIsInNoWorktree(t *testing.T) {
	w := newWorld(t)
	in, err := w.run(t, w.enter, w.repo, []string{w.repo}, `{"name": "try"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ deleted, want string }{
		{"other", ""}, {"s1", "Worktree not found: worktree_1"},
	} {
		err := w.db.Write(t.Context(), func(tx *sql.Tx) error { return w.part.Deleted(tx, tt.deleted) })
		if err != nil {
			t.Fatal(err)
		}
		if got := w.uses(t, w.exit, w.repo, `{"id": "worktree_1", "action": "keep"}`); got != tt.want {
			t.Errorf("after %s was deleted: %q, want %q", tt.deleted, got, tt.want)
		}
	}
	if _, err := os.Stat(in.Dir); err != nil {
		t.Error(err)
	}
}
