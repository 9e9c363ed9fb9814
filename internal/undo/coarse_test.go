package undo

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/needs"
)

func TestWhatMayChangeWithoutAnotherTime(t *testing.T) {
	second := time.Unix(1_900_000_000, 0)
	fine := second.Add(time.Millisecond)
	for _, tt := range []struct {
		name    string
		changed time.Time
		after   time.Duration
		want    bool
	}{
		{"one step of the clock", fine, 10 * time.Millisecond, false},
		{"more than a step", fine, 30 * time.Millisecond, true},
		{"whole seconds, within one", second, 900 * time.Millisecond, false},
		{"the two seconds of FAT", second, 1900 * time.Millisecond, false},
		{"more than that", second, 2100 * time.Millisecond, true},
		{"a clock that was set back", fine, -time.Hour, false},
	} {
		if got := atRest(tt.changed.UnixNano(), tt.changed.Add(tt.after)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A file system with whole seconds: a command changes a file within the second in which it was made.
func TestAFileSystemOfWholeSeconds(t *testing.T) {
	needs.Root(t, "to mount a file system")
	mkfs := needs.Program(t, "mkfs.ext4")
	root := physicalDir(t)
	image, at := root+"/image", root+"/at"
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", "-I", "128", image, "8M").CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, at).CombinedOutput(); err != nil {
		needs.Elsewhere(t, "a loop device cannot be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	w := openWorld(t, at, walking())
	defer w.close()
	w.person("f", "one")
	before := w.tree()
	time.Sleep(3 * racy) // at rest elsewhere
	c := w.command("call", func() { w.person("f", "two") })
	if c.Changes.Total != 1 || !c.Changes.Undo.Kept {
		t.Fatalf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	if w.undo("undo", "call"); !sameTree(w.tree(), before) {
		t.Errorf("f is %q", w.read("f"))
	}
}
