package entered_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/worktree/entered"
)

// TestASessionIsInSoManyWorktrees: the one that is too many is not left on the disk.
func TestASessionIsInSoManyWorktrees(t *testing.T) {
	const most = 50
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
	defer db.Close()
	kept := sessions.New(db, sessions.Options{})
	if _, err := kept.Create(t.Context(), tool.Session{ID: "s1", Account: "a", Dir: repo, Mode: tool.ModeAuto}); err != nil {
		t.Fatal(err)
	}
	p, err := d.Open(t.Context(), part.Host{DB: db, Sessions: kept, Hooked: func(part.Event) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	enter := func(i int) error {
		args := json.RawMessage(fmt.Sprintf(`{"name": "w%d"}`, i))
		in := tool.In{Account: "a", Session: "s1", Dir: repo, Roots: []string{repo}, Args: args}
		_, err := p.Groups[0].Tools[0].Run(t.Context(), in, box{})
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
	if _, err := os.Lstat(filepath.Join(repo, ".worktrees", fmt.Sprint("w", most))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the one that is too many: %v", err)
	}
}
