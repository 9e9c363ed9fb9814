package undo

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// snapshot is what is known of the directory that calls change.
func (w *world) snapshot() *snapshot { return w.j.snapshots.of(w.work) }

// isKnown fails unless what is known of the tree is what lies there.
func (w *world) isKnown(when string) {
	w.t.Helper()
	known, closed := map[string]state{}, w.snapshot().closed // of which nobody knows what is below
	for path, is := range w.snapshot().known {
		is.Index = ""
		known[relative(w.work, path)] = is.state
	}
	for name, is := range w.tree() {
		was := known[name]
		delete(known, name)
		same := was.same(is) && (is.Type != isFile || was.Modified == is.Modified)
		if !same && was.Type != unreadable && !below(filepath.Join(w.work, name), closed) {
			w.t.Fatalf("%s, %q is known as\n%+v\nand is\n%+v", when, name, was, is)
		}
	}
	dirs := 0
	for _, is := range w.snapshot().known {
		if is.Type == isDir {
			dirs++
		}
	}
	if watch := w.snapshot().watch; watch != nil && len(closed) == 0 && (len(watch.ids) != dirs || len(watch.paths) != dirs) {
		w.t.Fatalf("%s, %d of %d directories are watched by %d watches", when, len(watch.ids), dirs, len(watch.paths))
	}
	for name := range maps.Keys(known) {
		if !below(filepath.Join(w.work, name), closed) {
			w.t.Fatalf("%s, %q is known, and is not there", when, name)
		}
	}
}

// watched fails unless events say what changed.
func (w *world) watched() {
	w.t.Helper()
	if w.snapshot().watch == nil {
		w.t.Fatalf("%s is not watched", w.work)
	}
}

// sneak changes files without an event that names them.
func (w *world) sneak(t *rapid.T, name, other string) {
	path, to := filepath.Join(w.work, name), filepath.Join(w.work, other)
	out := filepath.Join(w.root, "out")
	_ = os.Mkdir(out, 0o755)
	change := func(path string) {
		if f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
			_, _ = f.WriteString("unseen")
			f.Close()
		}
	}
	switch rapid.SampledFrom([]string{
		"link", "link in a new directory", "unlinked link", "renamed link", "replaced link", "unnamed", "map",
		"out and back", "directory out and back", "new directory out and back", "directories change places", "link instead",
		"deep", "again",
	}).Draw(t, "sneak") {
	case "link":
		if os.Link(path, to) == nil {
			change(to)
			_ = os.Remove(to)
		}
	case "link in a new directory":
		_ = os.Mkdir(w.work+"/new", 0o755)
		if os.Link(path, w.work+"/new/link") == nil {
			change(w.work + "/new/link")
		}
		_ = os.RemoveAll(w.work + "/new")
	case "unlinked link":
		if os.Link(path, to) != nil {
			return
		}
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		_ = os.Remove(to)
		if err == nil {
			if rapid.Bool().Draw(t, "another there") {
				_ = os.WriteFile(to, []byte("another"), 0o600)
			}
			_, _ = f.WriteString("unseen")
			f.Close()
		}
	case "renamed link":
		if os.Link(path, w.work+"/renamed") == nil {
			change(w.work + "/renamed")
			_ = os.Rename(w.work+"/renamed", out+"/renamed")
			_ = os.Remove(out + "/renamed")
		}
	case "replaced link":
		if os.Link(path, w.work+"/replaced") == nil {
			change(w.work + "/replaced")
			_ = os.WriteFile(w.work+"/instead", []byte("x"), 0o600)
			_ = os.Rename(w.work+"/instead", w.work+"/replaced")
		}
	case "unnamed":
		f, err := os.OpenFile(filepath.Dir(path), unix.O_TMPFILE|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		_ = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, to, unix.AT_SYMLINK_FOLLOW)
		_, _ = f.WriteString("unseen")
		f.Close()
	case "map":
		mapped(path, "unseen")
	case "out and back":
		if os.Rename(path, out+"/f") == nil {
			change(out + "/f")
			_ = os.Rename(out+"/f", path)
		}
		os.RemoveAll(out)
	case "directory out and back":
		if dir := filepath.Dir(path); dir != w.work && os.Rename(dir, out+"/d") == nil {
			change(out + "/d/" + filepath.Base(path))
			_ = os.Rename(out+"/d", dir)
		}
		os.RemoveAll(out)
	case "new directory out and back":
		_ = os.Mkdir(w.work+"/new", 0o755)
		_ = os.Rename(path, w.work+"/new/f")
		change(w.work + "/new/f")
		_ = os.Rename(w.work+"/new/f", path)
		_ = os.Remove(w.work + "/new")
	case "directories change places":
		_ = unix.Renameat2(unix.AT_FDCWD, w.work+"/d", unix.AT_FDCWD, w.work+"/d2", unix.RENAME_EXCHANGE)
		change(path)
	case "link instead":
		if dir := filepath.Dir(path); dir != w.work {
			_ = os.Rename(dir, w.work+"/elsewhere")
			_ = os.Symlink("elsewhere", dir)
			change(path)
		}
	case "deep":
		_ = os.MkdirAll(path+"/x/y/z", 0o755)
		_ = os.WriteFile(path+"/x/y/z/f", []byte("deep"), 0o600)
	case "again":
		for _, text := range []string{"one", "two"} { // a named pipe would wait for a reader
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, 0o600)
			if err == nil {
				_, _ = f.WriteString(text)
				f.Close()
			}
		}
	}
}

func onOverlay(t *testing.T, dir string) bool {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	return fs.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// mapped writes a file by a mapping, after it has closed it.
func mapped(path, text string) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		f.Close()
		return
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	f.Close()
	if err == nil {
		copy(b, text)
		_ = unix.Munmap(b)
	}
}

// Whatever commands and people do, what is known of the tree is what lies there, before a command and
// after it, although only what events tell of is looked at.
func TestWhatIsKnownIsWhatIsThere(t *testing.T) {
	names := []string{"a", "b", "d", "d/a", "d/e", "d/e/b", "bytes\xff", "d2/f/g", "d2/a"}
	users := map[string]sandbox.User{"as the daemon": sandbox.Daemon()}
	if os.Getuid() == 0 {
		users["as an account"] = userNumber(12345)
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w, end := worldOf(t, user, defaults())
				defer end()
				act := func() {
					w.must(user.Do(func() error {
						for range rapid.IntRange(0, 5).Draw(t, "acts") {
							name, other := rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom(names).Draw(t, "other")
							if rapid.Bool().Draw(t, "sneak") {
								w.sneak(t, name, other)
							} else {
								w.wreck(t, name, other)
							}
						}
						return nil
					}))
				}
				for i := range rapid.IntRange(1, 6).Draw(t, "calls") {
					act()
					c := w.newCommand(fmt.Sprintf("call_%d", i))
					ctx := w.keep(context.Background(), c)
					w.watched()
					w.isKnown("before a command")
					act()
					w.must(w.j.Collect(ctx, c))
					w.watched()
					w.isKnown("after a command")
				}
			})
		})
	}
}

// What events cannot tell is found by looking: after too many of them, where the system gives no watch,
// when the root is another directory, when another user asks, when a person has a file open.
func TestWhatEventsDoNotTell(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(w *world) (end func())
	}{
		{"too many", func(w *world) func() {
			most := must(os.ReadFile("/proc/sys/fs/inotify/max_queued_events"))
			var n int
			must(fmt.Sscan(string(most), &n))
			for range n { // two names in turn, for one alone is queued once
				w.must(os.Chmod(w.work+"/d/f", 0o600))
				w.must(os.Chmod(w.work+"/d/g", 0o600))
			}
			w.person("d/h", "not in the queue")
			return nil
		}},
		{"another directory", func(w *world) func() {
			w.must(os.Rename(w.work, w.root+"/old"))
			w.must(os.MkdirAll(w.work+"/d", 0o755))
			w.person("d/f", "two")
			return nil
		}},
		{"a directory above was moved", func(w *world) func() {
			moved := w.root + ".moved"
			w.must(os.Rename(w.root, moved))
			w.must(os.MkdirAll(w.work+"/d", 0o755))
			for _, e := range must(os.ReadDir(moved)) {
				if e.Name() != "work" { // the journal stays where it is
					w.must(os.Rename(moved+"/"+e.Name(), w.root+"/"+e.Name()))
				}
			}
			w.person("d/f", "two")
			return func() { w.must(os.RemoveAll(moved)) }
		}},
		{"a link that is gone", func(w *world) func() {
			w.must(os.Link(w.work+"/d/f", w.work+"/link"))
			f := must(os.OpenFile(w.work+"/link", os.O_WRONLY, 0))
			w.must(os.Remove(w.work + "/link"))
			w.command("between", func() {})
			must(f.WriteString("two"))
			w.must(f.Close())
			return nil
		}},
		{"a mapping", func(w *world) func() {
			w.person("d/f", "one!")
			f := must(os.OpenFile(w.work+"/d/f", os.O_RDWR, 0))
			b := must(unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
			w.must(f.Close())
			copy(b, "and!")
			time.Sleep(2 * racy) // a later look trusts this change time
			w.command("between", func() {})
			copy(b, "two!") // which moves no time: the page is written already
			return func() { w.must(unix.Munmap(b)) }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if tt.name == "a mapping" && onOverlay(t, w.work) {
				needs.Elsewhere(t, "overlayfs tells nothing of a mapping that outlives its descriptor, see docs/undo.md")
			}
			w.must(os.Mkdir(w.work+"/d", 0o755))
			w.person("d/f", "one")
			w.person("d/g", "one")
			w.command("first", func() {})
			w.watched()
			end := tt.do(w)
			c := w.command("call", func() {})
			w.isKnown("after a command")
			if c.Changes.Total != 0 {
				t.Errorf("what a person changed is the command's: %+v", c.Changes.List)
			}
			if end != nil {
				end()
				w.command("last", func() {})
				w.isKnown("when nobody has it open")
			}
		})
	}
}

// Without a watch everything is looked at, and nothing is missing.
func TestWithoutAWatch(t *testing.T) {
	w := newWorld(t)
	w.person("f", "one")
	w.snapshot().unwatched = time.Now()
	w.command("first", func() {})
	if w.snapshot().watch != nil {
		t.Fatal("it is watched")
	}
	w.person("f", "two")
	if c := w.command("call", func() { w.person("f", "three") }); c.Changes.Total != 1 || !c.Changes.Undo.Kept {
		t.Errorf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	if w.undo("undo", "call"); w.read("f") != "two" {
		t.Errorf("got %q", w.read("f"))
	}
}

// What a command changes while others begin and end is in its own journal, or in that of the first that
// ended after the change.
func TestACommandThatRunsOn(t *testing.T) {
	w := newWorld(t)
	w.person("f", "one")
	w.person("m", "mapped")
	job := w.newCommand("job")
	ctx := w.keep(t.Context(), job)
	w.person("f", "by the job")
	f := must(os.OpenFile(w.work+"/m", os.O_RDWR, 0))
	b := must(unix.Mmap(int(f.Fd()), 0, 6, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
	w.must(f.Close())
	time.Sleep(2 * racy) // so that the change time is another one
	copy(b, "MAPPED")
	inner := w.newCommand("inner")
	in := w.keep(t.Context(), inner)
	w.isKnown("before a command beside a job")
	w.must(os.Remove(w.work + "/m"))
	w.must(w.j.Collect(in, inner))
	w.must(unix.Munmap(b))
	w.person("g", "by the job")
	w.must(w.j.Collect(ctx, job))
	if len(inner.Changes.List) != 1 || inner.Changes.List[0].Path != "m" || inner.Changes.List[0].Kind != tool.ChangeDelete {
		t.Errorf("inner: %+v", inner.Changes.List)
	}
	told := map[string]bool{}
	for _, c := range job.Changes.List {
		told[c.Path] = true
	}
	if len(told) != 3 || !told["f"] || !told["g"] || !told["m"] {
		t.Errorf("job: %+v", job.Changes.List)
	}
	if w.undo("undo", "inner"); w.read("m") != "MAPPED" {
		t.Errorf("what the job had written is lost: %q", w.read("m"))
	}
	if w.undo("undo job", "job", "f"); w.read("f") != "one" {
		t.Errorf("what the job changed is not kept: %q", w.read("f"))
	}
}

// Where a file may have a name that nobody watches, each file is looked at.
func TestWithoutNamespacesEachFileIsLookedAt(t *testing.T) {
	w := newWorld(t)
	w.person("f", "one")
	w.command("first", func() {})
	c := w.newCommand("call")
	c.Report.Isolation = "landlock"
	ctx := w.keep(t.Context(), c)
	w.must(os.Link(w.work+"/f", w.root+"/elsewhere"))
	w.must(os.WriteFile(w.root+"/elsewhere", []byte("two"), 0o644))
	w.must(os.Remove(w.root + "/elsewhere"))
	w.must(w.j.Collect(ctx, c))
	if c.Changes.Total != 1 {
		t.Errorf("got %+v", c.Changes.List)
	}
}

// A file with a name in another tree is looked at when that one changed.
func TestANameInAnotherTree(t *testing.T) {
	w := newWorld(t)
	other := w.root + "/other"
	w.must(os.Mkdir(other, 0o755))
	w.person("f", "one")
	for i, sneak := range []func(){
		func() { w.must(os.WriteFile(other+"/f", []byte("two"), 0o644)) },
		func() { w.must(os.WriteFile(other+"/f", []byte("three"), 0o644)); w.must(os.Remove(other + "/f")) },
	} {
		c := w.newCommand(fmt.Sprintf("call_%d", i))
		c.Workspace.Roots = append(c.Workspace.Roots, other)
		ctx := w.keep(t.Context(), c)
		if i == 0 {
			w.must(os.Link(w.work+"/f", other+"/f"))
		}
		sneak()
		w.must(w.j.Collect(ctx, c))
		if !slices.ContainsFunc(c.Changes.List, func(c tool.Change) bool { return c.Path == "f" }) {
			t.Errorf("%d: %+v", i, c.Changes.List)
		}
	}
}

// A tree of one file is kept, and one of too many is not looked at for each command.
func TestTreesOfOneFileAndOfTooMany(t *testing.T) {
	w := newWorld(t)
	file := w.root + "/file"
	w.must(os.WriteFile(file, []byte("one"), 0o644))
	c := w.newCommand("call")
	c.Workspace.Roots = append(c.Workspace.Roots, file, "/dev/null")
	ctx := w.keep(t.Context(), c)
	w.must(os.WriteFile(file, []byte("two"), 0o644))
	w.must(w.j.Collect(ctx, c))
	if c.Changes.Total != 1 || !c.Changes.Undo.Kept {
		t.Fatalf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	w.undo("undo", "call")
	if b := must(os.ReadFile(file)); string(b) != "one" {
		t.Errorf("got %q", b)
	}
	w.snapshot().large = time.Now()
	if c = w.command("large", func() { w.person("f", "x") }); c.Changes.Undo.Kept || c.Changes.Total != 0 {
		t.Errorf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	if len(w.snapshot().running) != 0 {
		t.Error("a command that has ended counts as running")
	}
	for minutes, kept := range map[time.Duration]bool{9: false, 11: true} {
		w.snapshot().large = time.Now().Add(-minutes * time.Minute)
		c = w.command(fmt.Sprint("after ", minutes), func() { w.person("g", fmt.Sprint(minutes)) })
		if got := c.Changes.Undo; got == nil || got.Kept != kept {
			t.Errorf("%d minutes after it was too large: %+v, %+v", minutes, c.Changes.List, got)
		}
	}
}

// The tree is known as it is from the moment on in which the journal has the changes: a daemon that ends
// before finds them when it has started again.
func TestChangesAndTheTreeAreWrittenAtOnce(t *testing.T) {
	w := newWorld(t)
	for i := range 2 * maxNotes { // more than one part
		w.person(fmt.Sprint("f", i), "one")
	}
	c := w.newCommand("call")
	ctx := w.keep(t.Context(), c)
	for i := range 2 * maxNotes {
		w.person(fmt.Sprint("f", i), fmt.Sprint("two", i))
	}
	w.must(os.Remove(w.work + "/f0"))
	sql := func(text string) {
		w.must(w.db.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(text)
			return err
		}))
	}
	sql(`CREATE TRIGGER stop BEFORE INSERT ON undo_changes BEGIN SELECT RAISE(ABORT, 'stop'); END`)
	w.must(w.j.Collect(ctx, c))
	if !strings.Contains(c.Changes.Undo.Why, "stop") {
		t.Fatalf("got %+v", c.Changes.Undo)
	}
	sql(`DROP TRIGGER stop`)
	w.j.snapshots.drop([]string{w.work}) // as when the daemon starts again
	sql(`UPDATE undo_calls SET settled = 0`)
	_, err := w.j.purge(t.Context(), "another session") // what nobody needs goes
	w.must(err)
	again := w.newCommand("again")
	r := &recorder{j: w.j, call: again, config: w.j.settings(), trees: []*snapshot{w.snapshot()}}
	w.must(r.add(t.Context()))
	r.mu.Lock()
	defer r.mu.Unlock()
	w.must(r.after(t.Context(), r.may))
	if len(r.lines) != 2*maxNotes {
		t.Errorf("%d changes", len(r.lines))
	}
}
