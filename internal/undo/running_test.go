package undo

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/tier"
)

// crashCommands are how many commands the process runs that is killed while they run.
const crashCommands = 30

// someCommands are commands that change some files, or nothing.
func (w *world) someCommands() {
	for i := range crashCommands {
		w.command(fmt.Sprint("command", i), func() {
			switch i % 4 {
			case 0:
			case 1:
				w.person(fmt.Sprintf("d/new%d", i), "new")
				w.person("d/f1", fmt.Sprint("changed ", i))
			case 2:
				w.must(os.RemoveAll(fmt.Sprintf("%s/d%d", w.work, i)))
			case 3:
				w.must(os.Rename(fmt.Sprintf("%s/d%d", w.work, i), fmt.Sprintf("%s/moved%d", w.work, i)))
			}
		})
	}
}

// A daemon that is killed at any moment around or in a command knows afterwards what each had changed.
func TestWhatCommandsOfAKilledDaemonChangedIsKnown(t *testing.T) {
	rounds, rnd := tier.Rounds(t, 5, 100), tier.Rand(t)
	whole, cut := time.Duration(0), 0
	for round := 0; cut < rounds && round < 10*rounds; round++ {
		w := openWorld(t, physicalDir(t), defaults())
		for i := range crashCommands {
			dir := fmt.Sprintf("d%d", i)
			w.must(os.MkdirAll(filepath.Join(w.work, dir, "e"), 0o755))
			w.person(dir+"/e/f", dir)
		}
		w.must(os.Mkdir(w.work+"/d", 0o755))
		w.person("d/f1", "old")
		w.command("first", func() {})
		before := w.tree()
		ended, took := w.killed(t, "commands", rnd.Float64(), whole)
		switch {
		case !ended:
			cut++
		case whole == 0 || took < whole:
			whole = took
		}
		w = openWorld(t, w.root, defaults())
		all, err := w.j.calls(t.Context(), `undoes = '' ORDER BY n DESC`)
		w.must(err)
		for _, c := range all {
			if !c.Settled {
				t.Errorf("%s is not settled", c.ID)
			}
			if out := w.undo("undo of "+c.ID, c.ID); len(out.Conflicts) > 0 {
				t.Errorf("%s: %v", c.ID, out.Conflicts)
			}
		}
		if now := w.tree(); !sameTree(now, before) {
			t.Errorf("%d calls are undone, and %d of %d paths are there", len(all), len(now), len(before))
		}
		w.mustBeUnmarked()
		w.close()
	}
	if cut == 0 {
		t.Error("no process was killed before it had ended")
	}
}

func (w *world) mustBeUnmarked() {
	w.t.Helper()
	left, err := w.j.marks.left()
	if err != nil || len(left) > 0 || len(w.j.marks.calls) > 0 {
		w.t.Errorf("%v: %v, %v", err, left, w.j.marks.calls)
	}
}

// A command that changes nothing leaves nothing; one whose session is deleted while it runs is none of a new
// session of that name.
func TestARunningCommandIsMarked(t *testing.T) {
	w := newWorld(t)
	w.person("f", "one")
	for i, tt := range []struct {
		act     func(context.Context)
		calls   int
		session string
	}{
		{func(context.Context) {}, 0, ""},
		{func(context.Context) { w.person("f", "two") }, 1, "s"},
		{func(ctx context.Context) {
			w.must(w.db.Write(ctx, func(tx *sql.Tx) error { return w.j.deleted(tx, "s") }))
			w.person("f", "three")
		}, 1, ""},
	} {
		c := w.newCommand("call" + fmt.Sprint(i))
		ctx := w.keep(t.Context(), c)
		if left, err := w.j.marks.left(); err != nil || len(left) != 1 || left[0].ID != c.ID {
			t.Errorf("marked are %v, %v", left, err)
		}
		tt.act(ctx)
		w.must(w.j.Collect(ctx, c))
		all, err := w.j.calls(t.Context(), `call_id = $1`, c.ID)
		if err != nil || len(all) != tt.calls || len(all) > 0 && all[0].Session != tt.session {
			t.Errorf("got %v, %+v", err, all)
		}
		w.mustBeUnmarked()
	}
	if names, err := os.ReadDir(w.j.marks.dir); err != nil || len(names) != 1 {
		t.Errorf("commands one after the other have %d files: %v", len(names), err)
	}
}

// What is not whole was written before a command began.
func TestAMarkThatIsNotWhole(t *testing.T) {
	w := openWorld(t, physicalDir(t), defaults())
	for name, text := range map[string]string{"call_a": "", "call_b": `{"ID":`, "call_c": `{}`} {
		w.must(os.WriteFile(filepath.Join(w.root, "undo/running", name), []byte(text), 0o600))
	}
	w.close()
	w = openWorld(t, w.root, defaults())
	defer w.close()
	all, err := w.j.calls(t.Context(), `1 = 1`)
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	if names, err := os.ReadDir(w.j.marks.dir); err != nil || len(names) > 0 {
		t.Errorf("%v: %d files of another daemon", err, len(names))
	}
}
