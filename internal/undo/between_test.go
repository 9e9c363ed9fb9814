package undo

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"strings"
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
	w.must(w.j.Collect(inner, second))
	w.must(os.Remove(w.work + "/f"))
	w.must(w.j.Collect(ctx, first))
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
				w.must(w.j.Collect(ctx, c))
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

// What a command changed while the journal could not be written is its own once it can be.
func TestAJournalThatFailsAtTheEndOfACommand(t *testing.T) {
	w := newWorld(t)
	w.person("f", "old")
	w.command("first", func() {})
	do := func(text string) {
		w.must(w.db.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(text)
			return err
		}))
	}
	failed := w.command("failed", func() {
		w.person("f", "new")
		do(`CREATE TRIGGER full BEFORE INSERT ON undo_changes BEGIN SELECT RAISE(FAIL, 'no room'); END`)
	})
	if u := failed.Changes.Undo; u == nil || u.Kept || !strings.Contains(u.Why, "no room") {
		t.Fatalf("it says %+v", u)
	}
	do(`DROP TRIGGER full`)
	if c := w.command("next", func() { w.person("g", "new") }); c.Changes.Total != 1 || c.Changes.List[0].Path != "g" {
		t.Fatalf("the next command changed %+v", c.Changes.List)
	}
	if out := w.undo("undo", "failed"); len(out.Restored) != 1 || w.read("f") != "old" {
		t.Fatalf("%+v; f has %q", out, w.read("f"))
	}
	if c := w.command("last", func() {}); c.Changes.Undo != nil || len(w.j.snapshots.of(w.work).running) > 0 {
		t.Fatalf("the command that failed goes on: %+v", c.Changes.Undo)
	}
}
