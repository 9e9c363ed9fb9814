package undo

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A command that makes more files than a tree may have does not hide what it does to those that were there.
func TestManyNewFilesDoNotHideWhatIsLost(t *testing.T) {
	for _, tt := range []struct{ name, dir string }{
		{"in a directory that is watched", ""},
		{"in a new directory", "many/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			outside := w.root + "/outside"
			for _, dir := range []string{w.work + "/d", w.work + "/l", outside} {
				w.must(os.Mkdir(dir, 0o755))
			}
			w.must(os.WriteFile(outside+"/f", []byte("theirs"), 0o644))
			for _, name := range []string{"d/f", "l/f", "changed"} {
				w.person(name, "one")
			}
			before := w.tree()
			var made []string
			c := w.command("call", func() {
				w.must(os.RemoveAll(w.work + "/d"))
				w.must(os.RemoveAll(w.work + "/l"))
				w.must(os.Symlink(outside, w.work+"/l")) // what is there is no file of the tree
				w.person("changed", "two")
				w.must(os.MkdirAll(w.work+"/"+tt.dir, 0o755))
				for i := range maxTree + 1 {
					name := fmt.Sprintf("%s/%s%d", w.work, tt.dir, i)
					w.must(os.WriteFile(name, nil, 0o644))
					made = append(made, name)
				}
			})
			if c.Changes.Total != 5 || c.Changes.Undo.Kept || !strings.Contains(c.Changes.Undo.Why, "nothing is known") {
				t.Fatalf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
			}
			if out := w.undo("undo", "call"); len(out.Conflicts) > 0 {
				t.Errorf("got %+v", out.Conflicts)
			}
			for _, name := range made {
				w.must(os.Remove(name))
			}
			w.must(os.RemoveAll(w.work + "/many"))
			if after := w.tree(); !sameTree(before, after) {
				t.Errorf("got %+v, want %+v", after, before)
			}
		})
	}
}
