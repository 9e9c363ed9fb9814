package undo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox"
)

// rivalBox lets somebody else act after an undo has looked at a path, before it puts something there.
type rivalBox struct {
	makingBox
	op  guard.Op
	act func(path string)
}

func (b rivalBox) Open(ctx context.Context, use guard.PathUse, flag int) (*os.File, error) {
	if use.Op == b.op {
		b.act(use.Path)
	}
	return b.makingBox.Open(ctx, use, flag)
}

// An undo tells the journal of many files before it puts them back. What somebody puts there meanwhile is kept, and
// comes back when the undo is undone; a directory that somebody takes away is made again.
func TestSomebodyIsFasterThanAnUndo(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(w *world) error
		want map[string]string // after the undo is undone
	}{
		{"nobody", func(*world) error { return nil }, map[string]string{}},
		{
			"a file", func(w *world) error { return os.WriteFile(w.work+"/d/f5", []byte("theirs"), 0o600) },
			map[string]string{"d/f5": "theirs"},
		},
		{"a link", func(w *world) error { return os.Symlink("x", w.work+"/d/f5") }, map[string]string{"d/f5": "x"}},
		{"the directory goes before it looks", func(w *world) error { return os.RemoveAll(w.work + "/d") }, map[string]string{}},
		{"the directory goes", func(w *world) error { return os.RemoveAll(w.work + "/d") }, map[string]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.must(os.Mkdir(w.work+"/d", 0o755))
			for i := range 10 {
				w.person(fmt.Sprint("d/f", i), "one")
			}
			w.command("call", func() {
				for i := range 10 {
					w.must(os.Remove(fmt.Sprint(w.work, "/d/f", i)))
				}
			})
			once := false
			rival := func(path string) {
				if path == w.work+"/d/f5" && !once {
					once = true
					w.must(tt.act(w))
				}
			}
			var out undone
			w.call("undo", func(ctx context.Context, _ sandbox.Box) (err error) {
				of := must(w.j.call(ctx, "call"))
				p := must(planOf(of, nil, false))
				r := recorderOf(ctx)
				r.undoes, r.plan = "call", encode(p)
				box := rivalBox{makingBox{bareBox{w.user}}, guard.Write, rival}
				if strings.Contains(tt.name, "before it looks") {
					box.op = guard.Read
				}
				out, err = restorer{j: w.j, box: box, by: "undo", of: of}.restore(ctx, p)
				return err
			})
			if !once {
				t.Fatal("nobody acted")
			}
			after := w.tree()
			if back := w.undo("back", "undo"); len(back.Conflicts) > 0 {
				t.Errorf("the undo cannot be undone: %v", back.Conflicts)
			}
			for name, want := range tt.want {
				got := w.read(name)
				if link, err := os.Readlink(w.work + "/" + name); err == nil {
					got = link
				}
				if got != want {
					t.Errorf("%s is %q, want %q: %v", name, got, want, out.Conflicts)
				}
			}
			if _, made := w.tree()["d"]; made && strings.Contains(tt.name, "before it looks") {
				t.Error("a directory that the undo made is there")
			}
			if again := w.undo("again", "back"); !sameTree(w.tree(), after) {
				t.Errorf("got %v, want %v: %v", w.tree(), after, again.Conflicts)
			}
		})
	}
}

// Where the journal cannot be written nothing is put back.
func TestAnUndoThatCannotBeTold(t *testing.T) {
	w := newWorld(t)
	w.must(os.Mkdir(w.work+"/d", 0o755))
	for i := range 10 {
		w.person(fmt.Sprint("d/f", i), "one")
	}
	w.command("call", func() { w.must(os.RemoveAll(w.work + "/d")) })
	_, err := w.try("undo", func(ctx context.Context, b sandbox.Box) error {
		of := must(w.j.call(ctx, "call"))
		gone, stop := context.WithCancel(ctx)
		stop()
		_, err := restorer{j: w.j, box: b, by: "undo", of: of}.restore(gone, must(planOf(of, nil, false)))
		return err
	})
	if !errors.Is(err, context.Canceled) || len(w.tree()) > 1 {
		t.Errorf("%v: %v", err, w.tree())
	}
}

// What was told ahead and not done is dropped after a kill, also where somebody put a file in the place of a directory.
func TestWhatWasToldAheadOfAKillIsDropped(t *testing.T) {
	w := openWorld(t, physicalDir(t), defaults())
	w.must(os.Mkdir(w.work+"/d", 0o755))
	for i := range 10 {
		w.person(fmt.Sprint("d/f", i), "one")
	}
	w.command("call", func() { w.must(os.RemoveAll(w.work + "/d")) })
	of := must(w.j.call(t.Context(), "call"))
	p := must(planOf(of, nil, false))
	c := newTestCall(w, "undo")
	c.Spec = undo{}.Spec()
	r := &recorder{j: w.j, call: c, config: w.j.settings(), undoes: of.ID, plan: encode(p)}
	ctx := sandbox.WithKeeper(context.WithValue(t.Context(), recorderKey{}, r), r)
	if n := must((restorer{j: w.j, by: "undo", of: of}).tellAhead(ctx, p.Lines)); n != 11 {
		t.Fatalf("%d lines are told", n)
	}
	w.person("d", "theirs")
	w.close()
	w = openWorld(t, w.root, defaults())
	defer w.close()
	got := must(w.j.calls(t.Context(), `call_id = 'undo'`))
	if len(got) > 0 || w.read("d") != "theirs" {
		t.Errorf("got %+v: %s", got, w.read("d"))
	}
}
