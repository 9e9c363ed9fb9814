package undo

import (
	"os"
	"testing"
)

// TestCommandsThatChangeAFileInTurn: both can be undone, although the file is twice as the first one left it. What an
// undo left because of the other command it does later, and nothing a second time.
func TestCommandsThatChangeAFileInTurn(t *testing.T) {
	w := newWorld(t)
	w.j.setConfig(*defaults())
	w.person("f", "one")
	before := w.tree()
	first, second := w.newCommand("first"), w.newCommand("second")
	ctx := w.keep(t.Context(), first)
	w.must(os.Remove(w.work + "/f"))
	inner := w.keep(t.Context(), second)
	w.person("f", "two")
	w.must(w.j.Settle(inner, second))
	w.must(os.Remove(w.work + "/f"))
	w.must(w.j.Settle(ctx, first))
	if first.Changes.Total != 2 || second.Changes.Total != 1 {
		t.Fatalf("got %+v and %+v", first.Changes.List, second.Changes.List)
	}
	if out := w.undo("1", "first"); len(out.Conflicts) != 1 || w.read("f") != "two" {
		t.Errorf("got %+v: %s", out, w.read("f"))
	}
	if out := w.undo("2", "second"); len(out.Conflicts) > 0 {
		t.Errorf("got %+v", out)
	}
	if out := w.undo("3", "first"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v: %s", out, w.read("f"))
	}
}
