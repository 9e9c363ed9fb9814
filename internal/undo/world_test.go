package undo

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// tester is what tests and properties share.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// world is a journal and a directory that calls change.
type world struct {
	t    tester
	root string // of everything
	work string
	db   *store.DB
	j    *journal
	user sandbox.User
	left int64 // free bytes of the disk of the store
}

func (w *world) free() int64 { return w.left }

func openWorld(t tester, root string, c *Config) *world {
	t.Helper()
	w := &world{t: t, root: root, work: filepath.Join(root, "work"), user: sandbox.Daemon(), left: 1 << 40}
	w.must(os.MkdirAll(w.work, 0o755))
	var err error
	w.db, err = store.Open(context.Background(), store.Options{Path: filepath.Join(root, "state.db")},
		Definition().Schema)
	w.must(err)
	w.j, err = openJournal(context.Background(), w.db, filepath.Join(root, "undo"), w.free, *c,
		slog.New(slog.DiscardHandler))
	w.must(err)
	return w
}

func newWorld(t *testing.T) *world {
	w := openWorld(t, physicalDir(t), defaults())
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	w.j.snapshots.close()
	w.j.marks.close()
	w.db.Close()
}

func physicalDir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// makingBox makes missing directories, as the box of a sandbox does.
type makingBox struct{ bareBox }

func (b makingBox) Open(ctx context.Context, use guard.PathUse, flag int) (*os.File, error) {
	if use.Op == guard.Write {
		if err := b.user.Do(func() error { return os.MkdirAll(filepath.Dir(use.Path), 0o755) }); err != nil {
			return nil, err
		}
	}
	return b.bareBox.Open(ctx, use, flag)
}

// call makes a call that does f, and returns it as it was answered.
func (w *world) call(id string, f func(context.Context, sandbox.Box) error) *tool.Call {
	w.t.Helper()
	c, err := w.try(id, f)
	w.must(err)
	return c
}

func newTestCall(w *world, id string) *tool.Call {
	return &tool.Call{
		ID:      id,
		Request: tool.Request{User: w.user},
		Target: tool.Target{
			Spec:    tool.Spec{Name: "Test", Class: tool.ClassWrite},
			Session: tool.Session{ID: "s", Account: "a", Dir: w.work},
		},
		In: tool.In{Rules: guard.NewRules(guard.Settings{})},
	}
}

// writeKept writes a file as a tool does.
func writeKept(ctx context.Context, w *world, name, content string) error {
	return sandbox.WriteFile(ctx, makingBox{bareBox{w.user}}, w.use(name), []byte(content), 0o644)
}

func userNumber(uid int) sandbox.User { return sandbox.NewUser(uid, uid, nil, "", "") }

// keep is Keep where there is room.
func (w *world) keep(ctx context.Context, c *tool.Call) context.Context {
	w.t.Helper()
	ctx, err := w.j.Keep(ctx, c)
	w.must(err)
	return ctx
}

func (w *world) try(id string, f func(context.Context, sandbox.Box) error) (*tool.Call, error) {
	c := newTestCall(w, id)
	ctx := w.keep(context.Background(), c)
	err := f(ctx, makingBox{bareBox{w.user}})
	w.must(w.j.Collect(ctx, c))
	return c, err
}

func (w *world) use(name string) guard.PathUse {
	return guard.PathUse{Path: filepath.Join(w.work, name), Op: guard.Write}
}

// write is a call that writes files: names and contents in turn.
func (w *world) write(id string, files ...string) *tool.Call {
	w.t.Helper()
	return w.call(id, func(ctx context.Context, b sandbox.Box) error {
		for i := 0; i < len(files); i += 2 {
			if err := sandbox.WriteFile(ctx, b, w.use(files[i]), []byte(files[i+1]), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

// undo undoes a call, or a part of it.
func (w *world) undo(by, id string, paths ...string) undone {
	w.t.Helper()
	var out undone
	w.call(by, func(ctx context.Context, b sandbox.Box) error {
		of, err := w.j.call(ctx, id)
		if err != nil {
			return err
		}
		for i := range paths {
			paths[i] = clean(w.work, paths[i])
		}
		p, err := planOf(of, paths, false)
		if err != nil {
			return err
		}
		r := recorderOf(ctx)
		r.undoes, r.plan = id, encode(p)
		out, err = restorer{j: w.j, box: b, by: by, of: of}.restore(ctx, p)
		return err
	})
	return out
}

// tree is the directory and all that is below it: the state of each path.
func (w *world) tree() map[string]state {
	w.t.Helper()
	all := map[string]state{}
	w.must(filepath.WalkDir(w.work, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		c := bareBox{sandbox.Daemon()}.contentAt(path)
		if c.File != nil {
			defer c.File.Close()
		}
		s, err := stateOf(c, &strings.Builder{})
		if s.Type == isDir {
			s.Modified = 0 // what is put back into it moves it
		}
		all[strings.TrimPrefix(path, w.work+"/")] = s
		return err
	}))
	return all
}

// sameTree compares trees, with the times of files.
func sameTree(a, b map[string]state) bool {
	return maps.EqualFunc(a, b, func(x, y state) bool { return x.same(y) && x.Modified == y.Modified })
}

func (w *world) read(name string) string {
	b, err := os.ReadFile(filepath.Join(w.work, name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// person is a person's change.
func (w *world) person(name, content string) {
	w.t.Helper()
	w.must(os.WriteFile(filepath.Join(w.work, name), []byte(content), 0o644))
}
