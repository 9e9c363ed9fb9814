package undo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// A workspace that was renamed is the same one: a session there has its calls, and undoes them.
func TestAWorkspaceThatWasRenamed(t *testing.T) {
	w := newWorld(t)
	if placeOf(w.work) == "" {
		needs.Missing(t, "the file system of %s does not say when a directory was made", w.work)
	}
	w.person("a", "before")
	w.person("b", "before")
	w.command("first", func() { w.person("a", "after") })
	w.command("second", func() { w.must(os.Remove(filepath.Join(w.work, "b"))) })
	old := w.work
	w.work = filepath.Join(w.root, "renamed")
	w.must(os.Rename(old, w.work))
	ctx := context.Background()
	if _, err := w.j.last(ctx, "a", "new"); err == nil {
		t.Fatal("a session has calls of another one")
	}

	other := filepath.Join(w.root, "other")
	w.must(os.Mkdir(other, 0o755))
	w.must(os.Mkdir(old, 0o755)) // a new directory of the old name
	w.must(w.j.follow(ctx, "a", "other", other))
	w.must(w.j.follow(ctx, "a", "same name", old))
	w.must(w.j.follow(ctx, "b", "other account", w.work))
	for _, who := range [][2]string{{"a", "other"}, {"a", "same name"}, {"b", "other account"}} {
		if id, err := w.j.last(ctx, who[0], who[1]); err == nil {
			t.Errorf("%s of account %s got %s", who[1], who[0], id)
		}
	}

	w.must(w.j.follow(ctx, "a", "new", w.work))
	if id, err := w.j.last(ctx, "a", "new"); err != nil || id != "second" {
		t.Fatalf("the last call is %q, %v", id, err)
	}
	for _, id := range []string{"second", "first"} {
		if out := w.undo("undo of "+id, id); len(out.Restored) != 1 || len(out.Conflicts) > 0 {
			t.Errorf("%s: %+v", id, out)
		}
	}
	if a, b := w.read("a"), w.read("b"); a != "before" || b != "before" {
		t.Errorf("a is %q, b is %q", a, b)
	}
}

// A new directory may have the inode of one that was removed: it is another place.
func TestAnInodeThatIsUsedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	inode := func() (st unix.Stat_t) {
		if err := errors.Join(os.Mkdir(dir, 0o755), unix.Lstat(dir, &st)); err != nil {
			t.Fatal(err)
		}
		return st
	}
	first := inode()
	place := placeOf(dir)
	if place == "" {
		needs.Missing(t, "the file system of %s does not say when a directory was made", dir)
	}
	for range 100 {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if again := inode(); again.Ino == first.Ino {
			break
		}
	}
	if again := placeOf(dir); again == place {
		t.Errorf("a directory that was made later is %s, too", again)
	}
}

// A directory with two names at once was not renamed: each session keeps its calls.
func TestADirectoryWithTwoNames(t *testing.T) {
	needs.Root(t, "to mount")
	w := newWorld(t)
	w.person("a", "before")
	w.command("call", func() { w.person("a", "after") })
	mount := filepath.Join(w.root, "mount")
	w.must(os.Mkdir(mount, 0o755))
	if err := unix.Mount(w.work, mount, "", unix.MS_BIND, ""); err != nil {
		needs.Missing(t, "mount: %v", err)
	}
	defer func() { w.must(unix.Unmount(mount, unix.MNT_DETACH)) }()
	if placeOf(mount) != placeOf(w.work) {
		t.Fatal("it is not the same directory")
	}
	w.must(w.j.follow(context.Background(), "a", "other", mount))
	if id, err := w.j.last(context.Background(), "a", "s"); err != nil || id != "call" {
		t.Errorf("the session lost its call: %q, %v", id, err)
	}
}

// A named pipe is a name and a mode: one that a command deletes comes back, and its undo goes again.
func TestAPipeComesBack(t *testing.T) {
	for name, config := range map[string]*Config{"watched": defaults(), "looked at": walking()} {
		t.Run(name, func(t *testing.T) {
			w := openWorld(t, physicalDir(t), config)
			t.Cleanup(w.close)
			pipe := filepath.Join(w.work, "pipe")
			w.must(unix.Mkfifo(pipe, 0o640))
			w.must(os.Chmod(pipe, 0o620))
			w.command("looks", func() {})
			c := w.command("deletes", func() { w.must(os.Remove(pipe)) })
			if c.Changes.Total != 1 || c.Changes.List[0].Path != "pipe" || !c.Changes.Undo.Kept {
				t.Fatalf("the answer says %+v, %+v", c.Changes.List, c.Changes.Undo)
			}
			is := func(there bool) {
				t.Helper()
				info, err := os.Lstat(pipe)
				if (err == nil) != there || there && info.Mode() != os.ModeNamedPipe|0o620 {
					t.Errorf("there is %v, %v", info, err)
				}
			}
			if out := w.undo("undo", "deletes"); len(out.Restored) != 1 || len(out.Conflicts) > 0 {
				t.Errorf("%+v", out)
			}
			is(true)
			if out := w.undo("undo of undo", "undo"); len(out.Restored) != 1 || len(out.Conflicts) > 0 {
				t.Errorf("%+v", out)
			}
			is(false)
		})
	}
}

// A disk that became read-only keeps an undo from doing anything, and says so; later the undo works.
func TestAWorkspaceThatIsReadOnly(t *testing.T) {
	needs.Root(t, "to mount")
	w := newWorld(t)
	if err := unix.Mount("tmpfs", w.work, "tmpfs", 0, "size=1m"); err != nil {
		needs.Missing(t, "mount: %v", err)
	}
	defer func() { w.must(unix.Unmount(w.work, unix.MNT_DETACH)) }()
	w.person("changed", "before")
	w.person("deleted", "before")
	w.command("call", func() {
		w.person("changed", "after")
		w.person("made", "after")
		w.must(os.Remove(filepath.Join(w.work, "deleted")))
	})
	left := w.tree()
	remount := func(flags uintptr) { w.must(unix.Mount("", w.work, "", unix.MS_REMOUNT|flags, "")) }
	remount(unix.MS_RDONLY)
	out := w.undo("in vain", "call")
	remount(0)
	if len(out.Restored) > 0 || len(out.Conflicts) != 3 {
		t.Errorf("%+v", out)
	}
	for _, c := range out.Conflicts {
		if !strings.Contains(c.Why, "read-only file system") {
			t.Errorf("%s: %s", c.Path, c.Why)
		}
	}
	if !sameTree(w.tree(), left) {
		t.Errorf("the undo that was in vain left %v", w.tree())
	}
	if out := w.undo("undo", "call"); len(out.Restored) != 3 || len(out.Conflicts) > 0 {
		t.Errorf("%+v", out)
	}
	if w.read("changed") != "before" || w.read("deleted") != "before" {
		t.Errorf("it holds %v", w.tree())
	}
}

// A workspace whose disk is full loses nothing by an undo: what there is no room for is left, and told; with room
// the rest comes back.
func TestAWorkspaceWithoutRoom(t *testing.T) {
	needs.Root(t, "to mount")
	w := newWorld(t)
	if err := unix.Mount("tmpfs", w.work, "tmpfs", 0, "size=1m"); err != nil {
		needs.Missing(t, "mount: %v", err)
	}
	defer func() { w.must(unix.Unmount(w.work, unix.MNT_DETACH)) }()
	old := strings.Repeat("old\n", 64<<10)
	w.person("large", old)
	w.person("small", "before")
	w.command("call", func() {
		w.must(os.Remove(filepath.Join(w.work, "large")))
		w.person("small", "after")
	})
	filler, err := os.Create(filepath.Join(w.work, "filler"))
	w.must(err)
	for b := make([]byte, 64<<10); err == nil; {
		_, err = filler.Write(b)
	}
	w.must(filler.Close())
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	out := w.undo("in vain", "call")
	if len(out.Conflicts) == 0 || !strings.Contains(out.Conflicts[0].Why, "no space left") {
		t.Errorf("%+v", out)
	}
	if got := w.read("small"); got != "before" && got != "after" {
		t.Errorf("a file has %q", got)
	}
	entries, err := os.ReadDir(w.work)
	w.must(err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".sandboxd-") {
			t.Errorf("the undo left %s", e.Name())
		}
	}
	w.must(os.Remove(filler.Name()))
	w.undo("with room", "call")
	if w.read("large") != old || w.read("small") != "before" {
		t.Error("with room it does not come back")
	}
}
