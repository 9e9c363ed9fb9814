package later

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/tier"
)

// newIndex returns an index. Without watches it remembers by change times.
func newIndex(t *testing.T, watches bool) *Index {
	t.Helper()
	x := NewIndex()
	if !watches {
		x.budget.Store(0)
	}
	t.Cleanup(x.Close)
	return x
}

func bothWays(t *testing.T, test func(t *testing.T, x *Index)) {
	t.Helper()
	for _, watches := range []bool{true, false} {
		t.Run(fmt.Sprint("watches=", watches), func(t *testing.T) {
			x := newIndex(t, watches)
			if watches && x.budget.Load() == 0 {
				t.Fatal("this kernel gives no watches")
			}
			test(t, x)
		})
	}
}

// fresh is what an index finds that has never looked before.
func fresh(t *testing.T, ws string) *snapshot {
	t.Helper()
	x := newIndex(t, true)
	defer x.Close()
	return x.tree(ws).look()
}

// belowKept matches what lies below a name that is kept whole.
var belowKept = regexp.MustCompile(`/(\.vscode|\.husky|hooks|\.config/mise)/`)

// TestWhatIsRememberedIsWhatIsThere changes a workspace at random and holds the answer that
// is kept up to date against one that is made anew.
func TestWhatIsRememberedIsWhatIsThere(t *testing.T) {
	bothWays(t, func(t *testing.T, x *Index) {
		ws := t.TempDir()
		tree := x.tree(ws)
		names := []string{
			".git", "sub", "sub/.git", "sub/.git/HEAD", "sub/.git/objects", "sub/.git/refs", "sub/HEAD", "sub/objects",
			"sub/refs", "sub/config", "sub/hooks", ".git/hooks", ".git/hooks/pre-commit", ".git/config", ".git/commondir",
			".git/modules", ".git/modules/a", ".git/modules/a/HEAD", ".git/modules/a/config", ".git/modules/a/b",
			".git/modules/a/b/config", ".git/worktrees", ".git/worktrees/w", ".git/worktrees/w/commondir", ".envrc",
			".husky", "other", "other/config", "sub/.envrc", "other/deep", "other/deep/er", "other/deep/er/.vscode",
			"other/deep/er/.vscode/tasks.json", "other/.config", "other/.config/mise", "node_modules",
			"node_modules/.envrc", "node_modules/config", ".git/rebase-merge", ".git/rebase-merge/git-rebase-todo",
			".git/other", "other/deep/er/.git", "node_modules/.git", "node_modules/.git/config", "sub/commondir", "other/HEAD",
		}
		text := []string{
			"gitdir: " + filepath.Join(ws, "other") + "\n", "gitdir: .git\n", "gitdir: ../node_modules\n",
			"[core]\n\thooksPath = other/deep\n", "[include]\n\tpath = ../other/config\n", "exec x\npick y\n", "..\n",
			"[core]\n\tfsmonitor = other/config\n", "../other\n",
		}
		rnd := tier.Rand(t)
		pick := func() string { return filepath.Join(ws, names[rnd.IntN(len(names))]) }
		change := func() {
			at, to := pick(), pick()
			// Most of these fail, for the directory is not there or the name is taken. A
			// program cannot link what lies below a kept name, so nobody does.
			switch rnd.IntN(9) {
			case 0, 1, 2:
				_ = os.MkdirAll(at, 0o755)
			case 3, 4:
				_ = os.WriteFile(at, []byte(text[rnd.IntN(len(text))]), 0o644)
			case 5:
				_ = os.RemoveAll(at)
			case 6:
				_ = os.Rename(at, to)
			case 7:
				_ = os.Symlink(to, at)
			case 8:
				if dir, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil && !belowKept.MatchString(dir+"/") {
					_ = os.Link(at, to)
				}
			}
		}
		kept, found := 0, 0
		last := tree.look()
		for i := range tier.Rounds(t, 500, 100_000) {
			if i%30 > 0 && rnd.IntN(10) > 0 {
				change()
			} else if x.budget.Load() == 0 {
				if i > 300 {
					break // each look is at everything
				}
				for tree.look(); !tree.watcher.stamps.Unchanged(); {
					tree.look()
				}
			}
			got, want := tree.look(), fresh(t, ws)
			if !maps.Equal(got.found, want.found) || !maps.Equal(got.heeded, want.heeded) {
				t.Fatalf("remembered\n%s, there is\n%s", lines(got, want), lines(want, got))
			}
			if got == last {
				kept++
			} else {
				found++
			}
			last = got
		}
		if kept == 0 || found == 0 {
			t.Errorf("%d answers kept, %d changed: nothing is shown", kept, found)
		}
	})
}

// Where a commondir or a pointer leads is decided by links on the way as well. One that is replaced changes what git
// runs, although the file that names it stays as it was.
func TestALinkOnTheWayChangesWhatGitRuns(t *testing.T) {
	bothWays(t, func(t *testing.T, x *Index) {
		ws := t.TempDir()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, dir := range []string{".git", "sub", "more"} {
			must(os.Mkdir(filepath.Join(ws, dir), 0o755))
		}
		must(os.WriteFile(filepath.Join(ws, ".git/commondir"), []byte("../other\n"), 0o644))
		must(os.WriteFile(filepath.Join(ws, "more/pointer"), []byte("gitdir: ../x\n"), 0o644))
		must(os.Symlink("../pointer", filepath.Join(ws, "more/.git")))
		other, pointer := filepath.Join(ws, "other"), filepath.Join(ws, "pointer")
		steps := []func() error{
			func() error { return os.Symlink("sub", other) },
			func() error { return os.Symlink("more/pointer", pointer) },
			func() error { return errors.Join(os.Remove(other), os.Mkdir(other, 0o755)) },
			func() error {
				return errors.Join(os.Remove(pointer), os.WriteFile(pointer, []byte("gitdir: y\n"), 0o644))
			},
			func() error { return errors.Join(os.Remove(other), os.Symlink("more", other)) },
		}
		tree := x.tree(ws)
		tree.look()
		for i, step := range steps {
			must(step())
			got, want := tree.look(), fresh(t, ws)
			if !maps.Equal(got.found, want.found) || !maps.Equal(got.heeded, want.heeded) {
				t.Errorf("step %d: remembered\n%s, there is\n%s", i, lines(got, want), lines(want, got))
			}
		}
	})
}

// lines says what one snapshot has that the other one has not.
func lines(s, other *snapshot) string {
	var out []string
	for p, f := range s.found {
		if f != other.found[p] {
			out = append(out, fmt.Sprintf("%s %+v\n", p, f))
		}
	}
	for p, v := range s.heeded {
		if o, ok := other.heeded[p]; !ok || o != v {
			out = append(out, fmt.Sprintln("heeded", p, v))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "")
}
