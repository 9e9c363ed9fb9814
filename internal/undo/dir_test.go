package undo

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A directory gets back that what comes into it has its group, and that it is sticky.
func TestSpecialModesOfDirectoriesComeBack(t *testing.T) {
	w := newWorld(t)
	for name, mode := range map[string]uint32{
		"group": 0o2775, "sticky": 0o1777, "both": 0o3700, "gone": 0o2750, "gone/sub": 0o1777, "plain": 0o755,
	} {
		w.must(os.MkdirAll(w.work+"/"+name, 0o755))
		w.must(unix.Chmod(w.work+"/"+name, mode))
	}
	w.person("gone/sub/f", "one")
	before := w.tree()
	c := w.command("call", func() {
		w.must(unix.Chmod(w.work+"/group", 0o775))
		w.must(unix.Chmod(w.work+"/sticky", 0o777))
		w.must(unix.Chmod(w.work+"/both", 0o700))
		w.must(unix.Chmod(w.work+"/plain", 0o2755))
		w.must(os.RemoveAll(w.work + "/gone"))
	})
	if c.Changes.Total != 7 || !c.Changes.Undo.Kept {
		t.Errorf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	after := w.tree()
	if out := w.undo("undo", "call"); len(out.Conflicts) > 0 || !sameTree(before, w.tree()) {
		t.Errorf("got %+v and %+v, want %+v", out, w.tree(), before)
	}
	if before["group"].Mode != 0o2775 || before["gone/sub"].Mode != 0o1777 {
		t.Errorf("got %+v", before)
	}
	if out := w.undo("again", "undo"); len(out.Conflicts) > 0 || !sameTree(after, w.tree()) {
		t.Errorf("got %+v and %+v, want %+v", out, w.tree(), after)
	}
}
