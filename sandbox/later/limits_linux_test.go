package later

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// acts is what a call is told that made something.
func acts(made []Created) string {
	var out strings.Builder
	for _, c := range made {
		fmt.Fprintln(&out, c.Layer, c.Act)
	}
	return out.String()
}

func make0(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if err == nil {
			err = os.WriteFile(p, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestMoreThanIsLookedAt: a call makes more directories or files than are looked at. It is
// told, and what was kept before stays kept, also when everything is read again.
func TestMoreThanIsLookedAt(t *testing.T) {
	for _, tt := range []struct {
		name, made, told, missing string
		limits                    limits
	}{
		{
			"directories", "a%d/b", "protected_path_created make ", "directories",
			limits{dirs: 20, found: 1 << 20, heeded: 1 << 20},
		},
		{
			"files", "a%d.code-workspace", "denied_path_created create ", "than can be known",
			limits{dirs: 1 << 10, found: 5000, heeded: 1 << 20},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, x *Index) {
				x.limits = tt.limits
				ws := t.TempDir()
				kept := []string{ws + "/x/y/.envrc", ws + "/x/z/.vscode"}
				make0(t, kept...)
				trees := x.Trees([]string{ws})
				before := trees.State()
				for i := range 100 {
					make0(t, ws+"/"+fmt.Sprintf(tt.made, i))
				}
				told := acts(trees.Quarantine(before, time.Now(), t.TempDir()))
				if !strings.Contains(told, tt.told) || !strings.Contains(told, " than are looked at in "+ws) {
					t.Errorf("told:\n%s", told)
				}
				for _, again := range []bool{false, true} {
					if again {
						tree := x.tree(ws)
						tree.mu.Lock()
						tree.silence() // as if the kernel's queue had run over
						tree.mu.Unlock()
					}
					state := trees.State()
					have := map[string]bool{}
					for _, k := range state.Trees[0].Kept {
						have[k.Path] = true
					}
					if !have[kept[0]] || !have[kept[1]] || !strings.Contains(strings.Join(state.Missing, "\n"), tt.missing) {
						t.Errorf("again %v: kept %v, missing %q", again, have, state.Missing)
					}
				}
			})
		})
	}
}

// TestNamedPathsAreBounded: configurations name more paths than are remembered.
func TestNamedPathsAreBounded(t *testing.T) {
	x := newIndex(t, true)
	x.limits.heeded = 5000
	ws := t.TempDir()
	trees := x.Trees([]string{ws})
	before := trees.State()
	make0(t, ws+"/.git/config")
	text := "[include]\n"
	for i := range 100 {
		text += fmt.Sprintf("\tpath = ../n%d\n", i)
	}
	if err := os.WriteFile(ws+"/.git/config", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if told := acts(trees.Quarantine(before, time.Now(), t.TempDir())); !strings.Contains(told, " than are looked at in ") {
		t.Error(told)
	}
	if n := len(x.tree(ws).heeded); n > 30 {
		t.Errorf("%d paths are remembered", n)
	}
}

// TestTheOldestAreReadOnly: of more files than a sandbox has mounts for, those that were
// there first.
func TestTheOldestAreReadOnly(t *testing.T) {
	ws := t.TempDir()
	var kept []Kept
	var last int64
	for _, name := range []string{"z", "y", "x"} {
		path := ws + "/" + name
		made := last
		for made == last { // until the clock of the file system has moved
			make0(t, path)
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				t.Fatal(err)
			}
			made = st.Ctim.Nano()
		}
		last = made
		kept = append([]Kept{{Path: path}}, kept...)
	}
	got := oldest(kept, 2)
	if fmt.Sprint(got) != fmt.Sprint([]Kept{{Path: ws + "/y"}, {Path: ws + "/z"}}) {
		t.Error(got)
	}
}

// TestAClosedTree: whoever still has a tree that was closed gets true answers, and nothing of
// the kernel stays with it.
func TestAClosedTree(t *testing.T) {
	x := newIndex(t, true)
	budget := x.budget.Load()
	ws := t.TempDir()
	make0(t, ws+"/a/.envrc")
	tree := x.tree(ws)
	tree.look()
	for i := range 31 {
		x.tree(fmt.Sprintf("%s/%d", ws, i)).look()
	}
	if x.tree(ws) != tree {
		t.Fatal("it is not in use any more, though only 31 others were used since")
	}
	for i := range 32 {
		x.tree(fmt.Sprintf("%s/%d", ws, i)).look()
	}
	if x.tree(ws) == tree {
		t.Fatal("it is still in use")
	}
	make0(t, ws+"/b/.envrc")
	if got := tree.look().found; len(got) != 2 {
		t.Errorf("found %v", got)
	}
	x.Close()
	if got := tree.look().found; len(got) != 2 {
		t.Errorf("found %v", got)
	}
	if tree.watcher != nil || x.budget.Load() != budget {
		t.Errorf("of %d watches %d were given back", budget, x.budget.Load())
	}
}

// TestMounts: what is mounted in a tree is seen, also where it is the same directory twice.
func TestMounts(t *testing.T) {
	bothWays(t, func(t *testing.T, x *Index) {
		ws := t.TempDir()
		make0(t, ws+"/a/sub/file", ws+"/b/file", ws+"/other/.envrc", ws+"/c/file")
		tree := x.tree(ws)
		tree.look()
		bind := func(from, to string) {
			t.Helper()
			if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
				needs.Missing(t, "nothing can be mounted here: %v", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
		}
		same := func(what string) {
			t.Helper()
			if got, want := tree.look(), fresh(t, ws); !maps.Equal(got.found, want.found) {
				t.Errorf("%s: remembered\n%s, there is\n%s", what, lines(got, want), lines(want, got))
			}
		}
		bind(ws+"/a", ws+"/b")
		bind(ws+"/other", ws+"/c")
		same("after the mounts")
		if _, ok := tree.look().found[ws+"/c/.envrc"]; !ok {
			t.Error("what is mounted is not seen")
		}
		for i, dir := range []string{"/a", "/b", "/a/sub", "/b/sub"} {
			if err := os.WriteFile(fmt.Sprintf("%s%s/.mise.%d.toml", ws, dir, i), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			same("a file in " + dir)
		}
		if err := unix.Unmount(ws+"/c", unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		same("after an unmount")
	})
}

// TestManyEvents: more happens than the kernel's queue holds.
func TestManyEvents(t *testing.T) {
	x := newIndex(t, true)
	ws := t.TempDir()
	tree := x.tree(ws)
	tree.look()
	for i := range 20_000 {
		if err := os.WriteFile(fmt.Sprintf("%s/%d", ws, i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	make0(t, ws+"/sub/.envrc")
	if _, ok := tree.look().found[ws+"/sub/.envrc"]; !ok {
		t.Error("what came when the queue was full is not seen")
	}
}

// TestLongRebase: a list with more programs than are remembered is the same as long as it has
// the same text.
func TestLongRebase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "git-rebase-todo")
	text := ""
	for i := range 1000 {
		text += fmt.Sprintf("exec make %d\n", i)
	}
	runs := func(text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return gitRuns(path)
	}
	was := runs(text)
	if len(was) > 200 || runsMore(runs(text+"pick x\n"), was) == "" || runsMore(runs(text), was) != "" {
		t.Errorf("%q", was)
	}
}
