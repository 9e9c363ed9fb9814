package undo

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestAMountThatCameOrWent: a directory of the same file system is mounted in the workspace. A sandbox that is older
// does not see it, so the answers say that nothing is known of what lies there, until it is as before.
func TestAMountThatCameOrWent(t *testing.T) {
	needs.Root(t, "to mount")
	w := newWorld(t)
	w.j.setConfig(*defaults())
	other := w.root + "/other"
	mount := func(at string) {
		t.Helper()
		if err := unix.Mount(other, w.work+at, "", unix.MS_BIND, ""); err != nil {
			needs.Missing(t, "mount: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(w.work+at, unix.MNT_DETACH) })
	}
	for _, dir := range []string{other, w.work + "/first", w.work + "/later"} {
		w.must(os.Mkdir(dir, 0o755))
	}
	w.person("later/f", "below")
	mount("/first")
	w.person("first/f", "one")
	w.command("begin", func() {})
	before := w.tree()
	if c := w.command("there from the beginning", func() { w.person("first/f", "two") }); !c.Changes.Undo.Kept {
		t.Errorf("a mount that was there: %+v", c.Changes.Undo)
	}
	if out := w.undo("undo", "there from the beginning"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v", out)
	}
	unsure := func(name, dir string, change func()) {
		t.Helper()
		c := w.command(name, change)
		if u := c.Changes.Undo; c.Changes.Total > 0 || u == nil || u.Kept || !strings.Contains(u.Why, w.work+dir) {
			t.Errorf("%s: got %+v, %+v", name, c.Changes.List, u)
		}
	}
	unsure("while it comes", "/later", func() { mount("/later") })
	unsure("after it", "/later", func() {})
	w.must(unix.Unmount(w.work+"/later", 0))
	c := w.command("it is gone again", func() { w.must(os.RemoveAll(w.work + "/later")) })
	if c.Changes.Total != 2 || !c.Changes.Undo.Kept {
		t.Errorf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	if out := w.undo("undo of it", "it is gone again"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v", out)
	}
	w.must(unix.Unmount(w.work+"/first", 0))
	unsure("the first is gone", "/first", func() {})
}
