package entered_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
}

func newWorld(t *testing.T) *world {
	t.Helper()
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
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
	return &world{repo, p.Groups[0].Tools[0], p.Groups[0].Tools[1]}
}

// run calls a tool of the session, which is in dir.
func (w *world) run(t *testing.T, one tool.Tool, dir string, roots []string, args string) (tool.Output, error) {
	t.Helper()
	in := tool.In{Account: "a", Session: "s1", Dir: dir, Roots: roots, Args: json.RawMessage(args)}
	return one.Run(t.Context(), in, box{})
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
