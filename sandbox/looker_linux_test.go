package sandbox

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// TestWhatIsRememberedOfRepositoriesIsWhatIsThere changes a workspace at random and
// holds the answer that is kept against one that is made anew.
func TestWhatIsRememberedOfRepositoriesIsWhatIsThere(t *testing.T) {
	c := newCage(t, Options{})
	ws := t.TempDir()
	made, err := c.Box(t.Context(), "s", "strict", DefaultSettings(ws, "", nil))
	if err != nil {
		t.Fatal(err)
	}
	b := made.(*box)
	names := []string{
		".git", "sub", "sub/.git", "sub/.git/HEAD", "sub/.git/objects", "sub/.git/refs", "sub/HEAD", "sub/objects", "sub/refs",
		".git/hooks", ".git/config", ".git/commondir", ".git/modules", ".git/modules/a", ".git/modules/a/HEAD", ".git/modules/a/config",
		".git/worktrees", ".git/worktrees/w", ".git/worktrees/w/commondir", ".envrc", ".husky", "other", "other/config", "sub/.envrc",
	}
	change := func() {
		at := filepath.Join(ws, names[rand.IntN(len(names))])
		// Most of these fail, for the directory is not there or the name is taken.
		switch rand.IntN(7) {
		case 0, 1:
			_ = os.MkdirAll(at, 0o755)
		case 2:
			_ = os.WriteFile(at, []byte("gitdir: "+filepath.Join(ws, "other")+"\n"), 0o644)
		case 3:
			_ = os.WriteFile(at, []byte("gitdir: .git\n"), 0o644)
		case 4:
			_ = os.RemoveAll(at)
		case 5:
			_ = os.Rename(at, filepath.Join(ws, names[rand.IntN(len(names))]))
		case 6:
			_ = os.Symlink(filepath.Join(ws, names[rand.IntN(len(names))]), at)
		}
	}
	// Most rounds change one thing after the answer has settled.
	kept, found := 0, 0
	for range 60 {
		settled := b.guardedNow()
		for range 90 {
			time.Sleep(time.Millisecond)
			again := b.guardedNow()
			if reflect.ValueOf(again).UnsafePointer() == reflect.ValueOf(settled).UnsafePointer() {
				kept++
				break
			}
			settled = again
		}
		for range 1 + rand.IntN(3) {
			change()
			got, want := b.guardedNow(), b.lookGuarded(looker{})
			if !maps.Equal(got, want) {
				t.Fatalf("remembered %v, there is %v", got, want)
			}
			if !maps.Equal(got, settled) {
				found++
			}
		}
	}
	if kept == 0 || found == 0 {
		t.Errorf("%d answers kept, %d changed: nothing is shown", kept, found)
	}
}
