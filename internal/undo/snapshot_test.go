package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// walking is a configuration that looks at every file.
func walking() *Config {
	c := defaults()
	c.Mode = snapshotMode
	return c
}

// command is a call of a command that does f; denied are paths of the settings.
func (w *world) command(id string, f func(), denied ...string) *tool.Call {
	w.t.Helper()
	c := w.newCommand(id, denied...)
	ctx := w.keep(context.Background(), c)
	f()
	w.must(w.j.Collect(ctx, c))
	return c
}

func (w *world) newCommand(id string, denied ...string) *tool.Call {
	c := newTestCall(w, id)
	c.Spec.Class = tool.ClassExec
	c.Report.Isolation = "namespaces"
	c.Workspace.Roots = []string{w.work}
	c.Settings = guard.Settings{AllowedWritePaths: []string{w.work, "/tmp"}, DeniedPaths: denied}
	c.In.Rules = guard.NewRules(c.Settings)
	return c
}

// Whatever a command does to files, undoing the calls from the last to the first brings each tree
// back; so does undoing the undos.
func TestWhatCommandsDoComesBack(t *testing.T) {
	names := []string{"a", "b", "d", "d/a", "d/e", "d/e/b", "d/e/c", "ä ö", "bytes\xff", "d2/f/g/h"}
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "undo")
		if err != nil {
			t.Fatal(err)
		}
		defer removeAll(root)
		if root, err = filepath.EvalSymlinks(root); err != nil {
			t.Fatal(err)
		}
		config := rapid.SampledFrom([]*Config{defaults(), walking()}).Draw(t, "config")
		w := openWorld(t, root, config)
		defer func() { w.close() }()
		trees := []map[string]state{w.tree()}
		var ids []string
		for i := range rapid.IntRange(1, 5).Draw(t, "calls") {
			id := fmt.Sprintf("call_%d", i)
			c := w.command(id, func() {
				for range rapid.IntRange(1, 6).Draw(t, "acts") {
					w.wreck(t, rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom(names).Draw(t, "other"))
				}
			})
			if c.Changes.Total > 0 {
				if !c.Changes.Undo.Kept {
					t.Fatalf("not kept: %s", c.Changes.Undo.Why)
				}
				ids, trees = append(ids, id), append(trees, w.tree())
			} else if !sameTree(w.tree(), trees[len(trees)-1]) {
				t.Fatalf("%s changed something, and says nothing", id)
			}
			if rapid.Bool().Draw(t, "restart") {
				w.close()
				w = openWorld(t, root, config)
			}
		}
		w.undoAll(ids, trees)
	})
}

// Calls are undone in any order and in parts, and undos are too: what is restored is byte for byte what it
// was, with mode, time and attributes; what is a conflict is not touched, and neither is anything else.
func TestCallsUndoneInAnyOrderAndInParts(t *testing.T) {
	names := []string{"a", "b", "d", "d/a", "d/e", "d/e/b", "ä ö", "bytes\xff", "d2/f/g"}
	users := map[string]sandbox.User{"as the daemon": sandbox.Daemon()}
	if os.Getuid() == 0 {
		users["as an account"] = userNumber(12345)
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w, end := worldOf(t, user, rapid.SampledFrom([]*Config{defaults(), walking()}).Draw(t, "config"))
				defer end()
				var ids []string
				changed := map[string][]change{}
				note := func(id string) {
					if c, err := w.j.call(context.Background(), id); err == nil {
						ids, changed[id] = append(ids, id), c.Changes
					}
				}
				for i := range rapid.IntRange(1, 4).Draw(t, "calls") {
					id := fmt.Sprintf("call_%d", i)
					w.command(id, func() {
						w.must(user.Do(func() error {
							for range rapid.IntRange(1, 6).Draw(t, "acts") {
								w.wreck(t, rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom(names).Draw(t, "other"))
							}
							return nil
						}))
					})
					note(id)
				}
				for i := 0; i < 6 && len(ids) > 0; i++ {
					id := rapid.SampledFrom(ids).Draw(t, "undo")
					var paths []string
					for range rapid.IntRange(0, 2).Draw(t, "paths") {
						paths = append(paths, rapid.SampledFrom(changed[id]).Draw(t, "path").Path)
					}
					before, by := w.tree(), fmt.Sprintf("undo_%d", i)
					w.compare(t, changed[id], before, w.undo(by, id, paths...))
					note(by)
				}
			})
		})
	}
}

// What an account cannot look into is not taken away, and a path that an undo has changed twice is
// undone whole or not at all.
func TestWhatIsClosedStays(t *testing.T) {
	needs.Root(t, "to be another user")
	w := openWorld(t, physicalDir(t), defaults())
	defer w.close()
	w.openAbove()
	w.must(os.Chown(w.work, 12345, 12345))
	w.user = userNumber(12345)
	as := func(f func() error) func() { return func() { w.must(w.user.Do(f)) } }
	w.command("closed", as(func() error {
		return errors.Join(os.Mkdir(w.work+"/d", 0o755), os.WriteFile(w.work+"/d/f", []byte("x"), 0o644), os.Chmod(w.work+"/d", 0))
	}))
	before := w.tree()
	if out := w.undo("undo", "closed"); len(out.Conflicts) != 1 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v: %v", out, w.tree())
	}
	w.command("file", as(func() error { return os.WriteFile(w.work+"/f", []byte("x"), 0o600) }))
	w.command("mode", as(func() error { return os.Chmod(w.work+"/f", 0) }))
	w.undo("undo mode", "mode") // it takes the file away that nobody can read, and makes one
	before = w.tree()
	if out := w.undo("again", "undo mode"); len(out.Restored) != 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v: %v", out, w.tree())
	}
	w.must(os.Remove(w.work + "/f"))
	if out := w.undo("once more", "undo mode"); len(out.Restored) != 0 {
		t.Errorf("what is gone is told as restored: %+v", out)
	}
}

// worldOf is a world in which a user may write.
func worldOf(t *rapid.T, user sandbox.User, c *Config) (*world, func()) {
	root, err := os.MkdirTemp("", "undo")
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := openWorld(t, root, c)
	if w.user = user; user.ID() != nil {
		w.must(os.Chmod(root, 0o755))
		w.must(os.Chown(w.work, 12345, 12345))
	}
	return w, func() { w.close(); removeAll(root) }
}

// removeAll removes a tree with directories that keep their owner from it.
func removeAll(root string) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	os.RemoveAll(root)
}

// compare holds the tree against what an undo says that it did.
func (w *world) compare(t *rapid.T, changes []change, before map[string]state, out undone) {
	after := w.tree()
	want := map[string]state{} // of what was restored
	for _, c := range slices.Backward(changes) {
		want[relative(w.work, c.Path)] = c.Before
	}
	same := func(a, b state) bool { return a.same(b) && (a.Type != isFile || a.Modified == b.Modified) }
	for _, name := range out.Restored {
		already := before[name].same(want[name]) && same(after[name], before[name]) // somebody else did it, at another time
		if got := after[name]; !same(got, want[name]) && !already {
			t.Fatalf("%s was restored to\n%+v\nwant\n%+v\nbefore\n%+v", name, got, want[name], before[name])
		}
	}
	for name := range maps.Keys(merged(before, after)) {
		below := func(path string) bool { return strings.HasPrefix(path, name+"/") }
		made := before[name].Type == nothing && after[name].Type == isDir && slices.ContainsFunc(out.Restored, below)
		if !slices.Contains(out.Restored, name) && !made && !same(before[name], after[name]) {
			t.Fatalf("%s was touched: conflicts %v, restored %v\n%+v\nwas\n%+v", name, out.Conflicts, out.Restored, after[name],
				before[name])
		}
	}
}

func merged(a, b map[string]state) map[string]state {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// What git writes anew when a person looks at the status is no change of theirs; what they stage is.
func TestAnIndexOfGitIsComparedByWhatItSays(t *testing.T) {
	for _, tt := range []struct {
		name   string
		form   string
		person func(w *world)
		left   int
	}{
		{"status", "--no-split-index", func(w *world) {
			w.must(os.Chtimes(w.work+"/z", time.Time{}, time.Unix(1e9, 0)))
			w.git(t, "update-index", "-q", "--refresh")
		}, 0},
		{"add of a new file", "--no-split-index", func(w *world) { w.person("theirs", "x"); w.git(t, "add", "theirs") }, 1},
		{"add", "--split-index", func(w *world) { w.person("f", "theirs"); w.git(t, "add", "f") }, 1},
		{"rm --cached", "--split-index", func(w *world) { w.git(t, "rm", "-q", "--cached", "f") }, 1},
	} {
		t.Run(tt.name+" "+tt.form, func(t *testing.T) {
			w := openWorld(t, physicalDir(t), defaults())
			defer w.close()
			w.git(t, "init", "-q")
			w.git(t, "config", "splitIndex.maxPercentChange", "100") // git writes no new shared index
			w.person("f", "one")
			w.person("z", "one")
			w.git(t, "add", "f", "z")
			w.git(t, "commit", "-qm", "one")
			w.git(t, "update-index", tt.form)
			w.command("call", func() { w.person("z", "two"); w.git(t, "add", "z") })
			before := w.read(".git/index")
			tt.person(w)
			if w.read(".git/index") == before {
				t.Fatal("the person does not write the index")
			}
			if out := w.undo("undo", "call", ".git/index"); len(out.Conflicts) != tt.left {
				t.Error(out.Conflicts)
			}
		})
	}
}

// undoAll undoes calls from the last to the first, and then the undos: trees are those before each call,
// and at the end.
func (w *world) undoAll(ids []string, trees []map[string]state) {
	w.t.Helper()
	for i, id := range slices.Backward(ids) {
		if out := w.undo("undo_"+id, id); len(out.Conflicts) > 0 {
			w.t.Fatalf("undo of %s: %v", id, out.Conflicts)
		}
		if got := w.tree(); !sameTree(got, trees[i]) {
			w.t.Fatalf("without %s the tree is\n%v\nwant\n%v", id, got, trees[i])
		}
	}
	for i, id := range ids {
		w.undo("again_"+id, "undo_"+id)
		if got := w.tree(); !sameTree(got, trees[i+1]) {
			w.t.Fatalf("with %s again the tree is\n%v\nwant\n%v", id, got, trees[i+1])
		}
	}
}

// wreck does something to files, as a program would; what cannot be done is not done.
func (w *world) wreck(t *rapid.T, name, other string) {
	path, to := filepath.Join(w.work, name), filepath.Join(w.work, other)
	switch rapid.SampledFrom([]string{
		"write", "write", "append", "truncate", "remove", "remove all", "rename", "rename dir", "link", "hard link",
		"mode", "time", "attribute", "rights", "dir", "pipe", "sparse",
	}).Draw(t, "act") {
	case "write":
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		content := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "content")
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_NONBLOCK, 0o600); err == nil {
			_, _ = f.Write(content)
			f.Close()
		}
	case "append":
		if f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			_, _ = f.WriteString("more")
			f.Close()
		}
	case "truncate":
		_ = os.Truncate(path, 1)
	case "remove":
		_ = os.Remove(path)
	case "remove all":
		// os.RemoveAll opens the directory above what it cannot remove, and waits for ever where that is a pipe.
		if _, err := os.Lstat(filepath.Dir(path)); err == nil && filepath.Dir(path) != w.work {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	case "rename":
		_ = os.Rename(path, to)
	case "rename dir":
		if filepath.Dir(path) != w.work {
			_ = os.Rename(filepath.Dir(path), w.work+"/moved")
		}
	case "link":
		_ = os.Symlink(other, path)
	case "hard link":
		_ = os.Link(to, path)
	case "mode":
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
			modes := []int{0o400, 0o777, 0o604, 0o500}
			if os.Getuid() == 0 {
				modes = append(modes, 0)
			} else if info.IsDir() { // who is not root neither sees nor replaces what is in a closed one
				modes = []int{0o777, 0o700, 0o711}
			}
			_ = os.Chmod(path, os.FileMode(rapid.SampledFrom(modes).Draw(t, "mode")))
		}
	case "time":
		_ = os.Chtimes(path, time.Time{}, time.Unix(rapid.Int64Range(0, 1<<31).Draw(t, "time"), 7))
	case "attribute":
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return
		}
		_ = unix.Lsetxattr(path, "user.a", []byte{1, 0, 2}, 0)
	case "rights":
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return
		}
		_ = unix.Lsetxattr(path, aclAccess, acl(7, 1), 0)
		_ = unix.Lsetxattr(filepath.Dir(path), aclDefault, acl(7, 3), 0) // what is put there must not get it
	case "dir":
		_ = os.Mkdir(path, 0o750)
	case "pipe":
		_ = unix.Mkfifo(path, 0o640)
	case "sparse":
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600); err == nil {
			_ = f.Truncate(100_000)
			f.Close()
		}
	}
}

// A person's changes between calls are nobody's, and each change of calls at once is told once.
func TestWhoseChangesTheyAre(t *testing.T) {
	w := openWorld(t, physicalDir(t), defaults())
	defer w.close()
	w.person("f", "one")
	w.command("first", func() {})
	w.person("f", "theirs")
	if c := w.command("call", func() { w.person("g", "x") }); c.Changes.Total != 1 || c.Changes.List[0].Path != "g" {
		t.Errorf("got %+v", c.Changes.List)
	}
	a, b := w.newCommand("a"), w.newCommand("b")
	inA, inB := w.keep(t.Context(), a), w.keep(t.Context(), b)
	w.person("f", "by one of them")
	w.must(w.j.Collect(inB, b))
	w.person("g", "by a")
	w.must(w.j.Collect(inA, a))
	if len(a.Changes.List) != 1 || len(b.Changes.List) != 1 || a.Changes.List[0].Path != "g" || b.Changes.List[0].Path != "f" {
		t.Errorf("a %+v, b %+v", a.Changes.List, b.Changes.List)
	}
	c := w.newCommand("output")
	ctx := w.keep(t.Context(), c)
	w.must(writeKept(ctx, w, "out", "text"))
	w.must(w.j.Collect(ctx, c))
	if c.Changes.Total != 1 {
		t.Errorf("a file that the tool wrote itself is told %d times", c.Changes.Total)
	}
}

// What is not kept is named, and what calls may not change is not copied.
// TestWhereACommandMayChangeSomething: all that it may write is looked at, but for its private places.
func TestWhereACommandMayChangeSomething(t *testing.T) {
	var c tool.Call
	c.Workspace.Roots = []string{"/w", "/tmp/w"}
	c.Facts.Uses.Siblings = []guard.Sibling{{Path: "/beside"}, {Path: "/tmp/beside"}}
	c.Settings.AllowedWritePaths = []string{"/w/sub", "/tmp", "/data"}
	if got := rootsOf(&c); !slices.Equal(got, []string{"/w", "/tmp/w", "/beside", "/tmp/beside", "/data"}) {
		t.Errorf("got %v", got)
	}
}

func TestWhatOfACommandIsNotKept(t *testing.T) {
	config := defaults()
	config.PerCallBytes = 100
	w := openWorld(t, physicalDir(t), config)
	defer w.close()
	w.person("large", strings.Repeat("x", 101))
	w.person("secret", "password")
	w.must(os.Mkdir(w.work+"/d", 0o755))
	c := w.command("large", func() { w.must(os.Remove(w.work + "/large")) }, w.work+"/secret")
	if c.Changes.Undo.Kept || !strings.Contains(c.Changes.Undo.Why, w.work+"/large") {
		t.Errorf("a large file: %+v", c.Changes.Undo)
	}
	if out := w.undo("undo", "large"); len(out.Conflicts) != 1 {
		t.Errorf("got %+v", out)
	}
	for _, e := range must(os.ReadDir(w.root + "/undo/objects")) {
		if b := must(os.ReadFile(w.root + "/undo/objects/" + e.Name())); string(b) == "password" {
			t.Error("a denied file was copied")
		}
	}
	c = w.command("purge", func() {
		_, err := w.j.purge(t.Context(), "")
		w.must(err)
		w.person("new", "x")
	})
	if c.Changes.Total != 0 || c.Changes.Undo.Kept || !strings.Contains(c.Changes.Undo.Why, "purged") {
		t.Errorf("purged while it ran: %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	free := w.newCommand("free")
	free.Settings.AllowedWritePaths = nil
	w.must(w.j.Collect(w.keep(t.Context(), free), free))
	if u := free.Changes.Undo; u == nil || u.Kept || !strings.Contains(u.Why, "outside of the workspace") {
		t.Errorf("writing is not restricted: %+v", u)
	}
}

// Of what is excluded nothing is kept or told, from the moment on in which it is.
func TestWhatIsExcluded(t *testing.T) {
	config := defaults()
	w := openWorld(t, physicalDir(t), config)
	defer w.close()
	w.must(os.MkdirAll(w.work+"/web/node_modules/a", 0o755))
	for _, name := range []string{"web/node_modules/a/f", "web/f", "live.db", "web/live.db"} {
		w.person(name, "one "+name)
	}
	w.command("before", func() {})
	config.Exclude = []string{"node_modules/", "/live.db"}
	w.must(config.Check())
	c := w.command("reload", func() { w.j.setConfig(*config) })
	if c.Changes.Total > 0 {
		t.Errorf("what is excluded while a command runs is told as deleted: %+v", c.Changes.List)
	}
	c = w.command("call", func() {
		w.must(os.RemoveAll(w.work + "/web"))
		w.must(os.Remove(w.work + "/live.db"))
	})
	var told []string
	for _, x := range c.Changes.List {
		told = append(told, x.Path)
	}
	slices.Sort(told)
	if want := []string{"web/", "web/f", "web/live.db"}; !slices.Equal(told, want) || !c.Changes.Undo.Kept {
		t.Errorf("told %v, want %v: %+v", told, want, c.Changes.Undo)
	}
	if out := w.undo("undo", "call"); len(out.Conflicts) > 0 || w.read("web/f") != "one web/f" {
		t.Errorf("got %+v", out)
	}
	for _, bad := range []string{"", " ", "a\nb", "# x"} {
		config.Exclude = []string{bad}
		if config.Check() == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
	config.Mode, config.Exclude = "off", []string{"a"}
	if config.Check() == nil {
		t.Error("a setting that does nothing passes")
	}
}

// What a command did in a directory that it closed is known. One that was closed before is not one whose files were
// deleted.
func TestADirectoryThatWasClosed(t *testing.T) {
	needs.Root(t, "to be another user")
	w := openWorld(t, physicalDir(t), defaults())
	defer w.close()
	w.openAbove()
	w.must(os.Mkdir(w.work+"/d", 0o755))
	w.person("d/f", "one")
	for _, name := range []string{"", "/d", "/d/f"} {
		w.must(os.Chown(w.work+name, 12345, 12345))
	}
	w.user = userNumber(12345)
	w.person("d/g", "one")
	w.must(os.Chown(w.work+"/d/g", 12345, 12345))
	w.command("first", func() {})
	before := w.tree()
	for name, act := range map[string]func(){
		"closed":  func() {},
		"deleted": func() { w.must(os.Remove(w.work + "/d/f")) },
		"written": func() { w.person("d/f", "two") },
	} {
		c := w.command(name, func() {
			act()
			w.must(os.Chmod(w.work+"/d", 0))
		})
		if info, err := os.Stat(w.work + "/d"); err != nil || info.Mode().Perm() != 0 {
			t.Fatalf("%s: %v, %v", name, info.Mode(), err)
		}
		if !c.Changes.Undo.Kept || name != "closed" && c.Changes.Total != 2 {
			t.Errorf("%s: %+v, %+v", name, c.Changes.List, c.Changes.Undo)
		}
		w.command("nothing", func() {}) // what is there now is known still
		if out := w.undo("undo "+name, name); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
			t.Errorf("%s: %+v: %v", name, out, w.tree())
		}
	}
	// One that is closed already is not looked into, and its files are not deleted.
	w.must(os.Chmod(w.work+"/d", 0))
	c := w.command("closed before", func() { w.must(os.WriteFile(w.work+"/x", nil, 0o644)) })
	if c.Changes.Total != 1 || c.Changes.Undo.Kept || !strings.Contains(c.Changes.Undo.Why, w.work+"/d cannot be") {
		t.Errorf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	w.must(os.Chmod(w.work+"/d", 0o755))
	c = w.command("again", func() { w.must(os.Remove(w.work + "/d/f")) })
	if out := w.undo("undo", "again"); c.Changes.Total != 1 || len(out.Conflicts) > 0 || w.read("d/f") != "one" {
		t.Errorf("got %+v, %+v", c.Changes.List, out)
	}
}

// A command that a crash interrupted is in the journal with what it had done.
func TestACommandOfAKilledDaemon(t *testing.T) {
	w := openWorld(t, physicalDir(t), defaults())
	w.person("f", "one")
	w.person("g", "one")
	w.must(w.db.Close())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "UNDO_CRASH=command:"+w.root)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "done") {
		t.Fatalf("%v: %s", err, out)
	}
	w = openWorld(t, w.root, defaults())
	defer w.close()
	c, err := w.j.call(t.Context(), "call")
	if err != nil || len(c.Changes) != 2 || !strings.Contains(c.Why, "the daemon ended") {
		t.Fatalf("%v: %+v", err, c)
	}
	if out := w.undo("undo", "call"); len(out.Conflicts) > 0 || w.read("f") != "one" || w.read("g") != "one" {
		t.Errorf("got %+v: %s", out, w.read("f"))
	}
}

// A change of a file that is not kept, before or after, is told, however large the file is and stays.
func TestAFileThatIsNotKeptIsTold(t *testing.T) {
	w := openWorld(t, physicalDir(t), &Config{Mode: "auto", KeepDays: 14, KeepBytes: 1 << 20, PerCallBytes: 1000})
	defer w.close()
	large := strings.Repeat("x", 2000)
	w.person("large", large)
	w.person("small", "text")
	settled := func() { time.Sleep(2 * racy) } // what is younger may have changed again
	settled()
	w.command("first", func() {})
	for _, tt := range []struct {
		act  func()
		path string
		kept bool
		why  string
	}{
		{func() {}, "", false, ""},
		{func() { w.person("large", strings.Repeat("y", 2000)) }, "large", false, "larger than undo.perCallBytes"},
		{func() { w.person("small", large) }, "small", false, "an undo leaves them"},
		{func() { w.person("small", large+"x") }, "small", false, "larger than undo.perCallBytes"},
		{func() { w.person("new", "text") }, "new", true, ""},
	} {
		c := w.command("call "+tt.path+tt.why, func() { tt.act(); settled() })
		if tt.path == "" {
			if c.Changes.Total > 0 {
				t.Errorf("nothing changed: %+v", c.Changes)
			}
			continue
		}
		if c.Changes.Total != 1 || c.Changes.List[0].Path != tt.path || c.Changes.Undo.Kept != tt.kept ||
			!strings.Contains(c.Changes.Undo.Why, tt.why) {
			t.Errorf("%s: %+v, %+v", tt.path, c.Changes, c.Changes.Undo)
		}
	}
}
