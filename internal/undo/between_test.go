package undo

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
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

// TestNothingIsLostBetweenCommandsAtOnce: whatever one writes while another begins or ends is a change of one of them.
func TestNothingIsLostBetweenCommandsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.j.setConfig(*defaults())
	w.person("f", "first")
	var g sync.WaitGroup
	var writes atomic.Int64
	for k := range 3 {
		g.Go(func() {
			for i := range 40 {
				c := w.newCommand(fmt.Sprintf("call_%d_%d", k, i))
				ctx := w.keep(t.Context(), c)
				for range 5 {
					w.person("f", fmt.Sprint(writes.Add(1)))
				}
				w.must(w.j.Settle(ctx, c))
			}
		})
	}
	g.Wait()
	from, to := map[string]int{}, map[string]int{}
	for _, c := range must(w.j.calls(t.Context(), `1 = 1`)) {
		for _, x := range c.Changes {
			from[x.Before.Sum]++
			to[x.After.Sum]++
		}
	}
	to[sumOf("first")]++
	from[w.tree()["f"].Sum]++
	if !maps.Equal(from, to) {
		t.Errorf("the changes are no chain: from %v, to %v", from, to)
	}
}

func sumOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
