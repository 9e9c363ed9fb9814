package undo

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// git runs git in the directory of calls.
func (w *world) git(t *testing.T, words ...string) {
	t.Helper()
	cmd := exec.Command(needs.Program(t, "git"), append([]string{"-c", "user.email=a@b", "-c", "user.name=a"}, words...)...)
	cmd.Dir = w.work
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", words, err, out)
	}
}

// said are the facts of a call in short words, by path.
func (w *world) said(t *testing.T, c *tool.Call) map[string]string {
	t.Helper()
	if c.Changes.Made == nil {
		t.Fatalf("nothing is known: %+v", c.Changes)
	}
	facts, err := c.Changes.Made.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range facts {
		words := []string{string(f.Kind)}
		for word, is := range map[string]bool{
			"tracked": f.Tracked, "uncommitted": f.Uncommitted, "protected": f.Protected, "own": f.Own, "moved": f.Moved,
		} {
			if is {
				words = append(words, word)
			}
		}
		slices.Sort(words[1:])
		all[strings.TrimPrefix(f.Path, w.work+"/")] = strings.Join(words, " ")
	}
	return all
}

// What git knew before a call is known after it, also where the call took the repository away.
func TestWhatGitKnewOfChanges(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(t *testing.T, w *world)
		want map[string]string // of some paths
	}{
		{"rm of everything", func(_ *testing.T, w *world) {
			for _, e := range must(os.ReadDir(w.work)) {
				w.must(os.RemoveAll(w.work + "/" + e.Name()))
			}
		}, map[string]string{
			"clean": "delete tracked", "changed": "delete tracked uncommitted", "staged": "delete tracked uncommitted",
			"new": "delete uncommitted", "x.log": "delete", "out/deep/x": "delete", "lib/keep.log": "delete uncommitted",
			"mine": "delete own uncommitted", "theirs": "delete uncommitted", "link": "delete tracked",
			"back": "delete uncommitted", ".git/HEAD": "delete uncommitted", ".git/index": "delete", "lib": "delete", "ä\xff": "delete tracked",
		}},
		{"a move", func(_ *testing.T, w *world) {
			w.must(os.Rename(w.work+"/changed", w.work+"/elsewhere"))
			w.must(os.Remove(w.work + "/.git/index"))
		}, map[string]string{"changed": "delete moved tracked uncommitted", "elsewhere": "create", ".git/index": "delete"}},
		{"another mode alone", func(_ *testing.T, w *world) {
			w.must(os.Chmod(w.work+"/clean", 0o700))
		}, map[string]string{"clean": "modify tracked"}},
		{"rm after git commit", func(t *testing.T, w *world) {
			w.git(t, "commit", "-qm", "two")
			w.must(os.Remove(w.work + "/staged")) // no commit had it before the call
		}, map[string]string{"staged": "delete tracked uncommitted"}},
		{"rm after git gc", func(t *testing.T, w *world) {
			w.git(t, "gc", "-q")
			for _, name := range []string{"clean", "staged", "lib/a"} {
				w.must(os.Remove(w.work + "/" + name))
			}
		}, map[string]string{
			"clean": "delete tracked", "staged": "delete tracked uncommitted", "lib/a": "delete tracked",
		}},
		{"rm of everything with packs", func(_ *testing.T, w *world) {
			for _, e := range must(os.ReadDir(w.work)) {
				w.must(os.RemoveAll(w.work + "/" + e.Name()))
			}
		}, map[string]string{
			"clean": "delete tracked", "staged": "delete tracked uncommitted", "lib/a": "delete tracked",
		}},
		{"rm without objects", func(_ *testing.T, w *world) {
			w.must(os.Remove(w.work + "/clean"))
		}, map[string]string{"clean": "delete tracked uncommitted"}},
		{"git rm", func(t *testing.T, w *world) {
			w.git(t, "rm", "-q", "clean")
		}, map[string]string{"clean": "delete tracked", ".git/index": "modify"}},
		{"an edit", func(_ *testing.T, w *world) { w.person("clean", "x") }, map[string]string{"clean": "modify tracked"}},
		{"an index that is broken", func(_ *testing.T, w *world) {
			w.must(os.Remove(w.work + "/clean"))
		}, map[string]string{"clean": "delete tracked uncommitted"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := openWorld(t, physicalDir(t), defaults())
			defer w.close()
			w.git(t, "init", "-q")
			for _, dir := range []string{"out/deep", "lib"} {
				w.must(os.MkdirAll(filepath.Join(w.work, dir), 0o755))
			}
			for _, name := range []string{"clean", "changed", "lib/a", "ä\xff"} {
				w.person(name, "one")
			}
			w.person(".gitignore", "*.log\nout/\n")
			w.person("lib/.gitignore", "!keep.log\n")
			w.must(os.Symlink("clean", w.work+"/link"))
			w.git(t, "add", "-A")
			w.git(t, "commit", "-qm", "one")
			for _, name := range []string{"changed", "staged", "new", "x.log", "out/deep/x", "lib/keep.log"} {
				w.person(name, "two "+name)
			}
			w.git(t, "add", "staged")
			w.command("mine", func() { w.person("mine", "x"); w.person("theirs", "x") })
			w.command("mine too", func() { w.person("mine", "xy") })
			w.person("theirs", "by a person")
			w.person("back", "by a person")
			w.command("gone", func() { w.must(os.Remove(w.work + "/back")) })
			w.undo("undo of gone", "gone")
			if strings.Contains(tt.name, "packs") {
				w.git(t, "gc", "-q")
			}
			if strings.Contains(tt.name, "without objects") {
				w.must(os.RemoveAll(w.work + "/.git/objects"))
			}
			if strings.Contains(tt.name, "broken") {
				w.person(".git/index", "DIRC is not all")
			}
			c := w.command("call", func() { tt.act(t, w) })
			got := w.said(t, c)
			for path, want := range tt.want {
				if got[path] != want {
					t.Errorf("%s: %q, want %q", path, got[path], want)
				}
			}
		})
	}
}

// Outside of a repository nothing is uncommitted, and what the settings do not allow is protected.
func TestFactsWithoutARepository(t *testing.T) {
	w := openWorld(t, physicalDir(t), defaults())
	defer w.close()
	w.person("f", "one")
	w.person("secret", "one")
	w.command("first", func() {})
	c := w.command("call", func() {
		w.must(os.Remove(w.work + "/f"))
		w.must(os.Remove(w.work + "/secret"))
	}, w.work+"/secret")
	if got := w.said(t, c); !maps.Equal(got, map[string]string{"f": "delete", "secret": "delete protected"}) {
		t.Errorf("got %v", got)
	}
}

// Changes that are refused are undone by a call of its own, which can be undone; what somebody changed
// since stays, and is named.
func TestRefusedChangesAreUndone(t *testing.T) {
	w := openWorld(t, physicalDir(t), defaults())
	defer w.close()
	w.must(os.Mkdir(w.work+"/d", 0o750))
	w.person("d/f", "one")
	w.person("g", "one")
	before := w.tree()
	c := w.command("call", func() {
		w.must(os.RemoveAll(w.work + "/d"))
		w.person("g", "two")
		w.person("h", "new")
	})
	after := w.tree()
	diff, err := c.Changes.Made.Diff(t.Context(), 1<<20)
	if err != nil || !strings.Contains(diff, "-one") || !strings.Contains(diff, "+two") {
		t.Errorf("%v: %s", err, diff)
	}
	by, left, err := c.Changes.Made.Undo(t.Context())
	if err != nil || len(left) > 0 || !sameTree(w.tree(), before) {
		t.Fatalf("%v: left %+v: %v", err, left, w.tree())
	}
	if out := w.undo("again", by); len(out.Conflicts) > 0 || !sameTree(w.tree(), after) {
		t.Errorf("the undo cannot be undone: %v", out.Conflicts)
	}
	c = w.command("more", func() { w.person("g", "three"); w.person("h", "newer") })
	w.person("g", "theirs")
	_, left, err = c.Changes.Made.Undo(t.Context())
	if err != nil || len(left) != 1 || left[0].Path != "g" || left[0].Conflict == "" || w.read("g") != "theirs" || w.read("h") != "new" {
		t.Errorf("%v: left %+v: %s, %s", err, left, w.read("g"), w.read("h"))
	}
}

// Objects that a call has made stay when it is undone, because a branch that a person made since needs them. They go
// with a repository that the call made, and with changes that were refused.
func TestObjectsOfGitStay(t *testing.T) {
	w := openWorld(t, physicalDir(t), defaults())
	defer w.close()
	objects := func(repository string) (n int) {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(w.work, repository, ".git/objects/??/*"))
		w.must(err)
		return len(all)
	}
	w.git(t, "init", "-q", "-b", "master")
	w.person("f", "one")
	w.git(t, "add", "-A")
	w.git(t, "commit", "-qm", "one")
	head := w.read(".git/refs/heads/master")
	w.command("commit", func() {
		w.person("f", "two")
		w.git(t, "commit", "-qam", "two")
	})
	later := w.read(".git/refs/heads/master")
	w.git(t, "branch", "keep")
	if out := w.undo("undo", "commit"); len(out.Conflicts) > 0 || slices.ContainsFunc(out.Removed, func(path string) bool {
		return strings.Contains(path, "objects")
	}) {
		t.Errorf("got %+v", out)
	}
	if got := w.read(".git/refs/heads/master"); got != head || w.read("f") != "one" {
		t.Errorf("master is %s, want %s", got, head)
	}
	w.git(t, "fsck", "--strict")
	w.git(t, "log", "keep")
	if last, err := w.j.last(t.Context(), "a", "s"); err == nil {
		t.Errorf("call %s is not undone as a whole", last)
	}
	if out := w.undo("again", "undo"); len(out.Conflicts) > 0 || w.read(".git/refs/heads/master") != later {
		t.Errorf("got %+v", out)
	}

	c := w.command("refused", func() { w.git(t, "commit", "--allow-empty", "-qm", "three") })
	before := objects("")
	if _, left, err := c.Changes.Made.Undo(t.Context()); err != nil || len(left) > 0 || objects("") != before-1 {
		t.Errorf("got %v, %+v: %d objects, there were %d", err, left, objects(""), before)
	}
	w.command("init", func() {
		w.must(os.Mkdir(w.work+"/own", 0o755))
		w.git(t, "init", "-q", "own")
		w.person("own/g", "x")
		w.git(t, "-C", "own", "add", "-A")
	})
	if out := w.undo("undo of init", "init"); len(out.Conflicts) > 0 || objects("own") > 0 {
		t.Errorf("got %+v, %d objects", out, objects("own"))
	}
}
