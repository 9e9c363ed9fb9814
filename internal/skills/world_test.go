package skills

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// world is a home, a directory of a session, and the part over one session in memory.
type world struct {
	t          testing.TB
	root       string
	home, work string
	roots      []string // that sessions write
	f          *feature

	mu      sync.Mutex // guards session
	session tool.Session
}

func newWorld(t testing.TB, c Config) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root, home: filepath.Join(root, "home"), work: filepath.Join(root, "work")}
	for _, dir := range []string{w.home, w.work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", w.home)
	w.session = tool.Session{ID: "s", Account: "a", Dir: w.work}
	if _, err := open(t.Context(), part.Host{Config: &c, Sessions: w, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	roots := func() []string { return w.roots }
	host := part.Host{Sessions: w, Log: slog.New(slog.DiscardHandler), Roots: roots, Events: &events.Broker{}}
	w.f = &feature{host: host, home: w.home, begun: map[string]bool{}}
	w.f.config.Store(&c)
	return w
}

// Session implements [part.Sessions].
func (w *world) Session(context.Context, string, string) (tool.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session, nil
}

// Patch implements [part.Sessions].
func (w *world) Patch(_ context.Context, _, _ string, change func(*tool.Session) error) (tool.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.session
	if err := change(&s); err != nil {
		return tool.Session{}, err
	}
	w.session = s
	return s, nil
}

// All implements [part.Sessions].
func (w *world) All(context.Context, string) ([]tool.Session, error) { return nil, nil }

// write makes a file below home or work.
func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) set() Set {
	s, _ := w.Session(w.t.Context(), "", "")
	return w.f.set(s.Dir)
}

// find returns a skill that must be there.
func (w *world) find(name string) Skill {
	w.t.Helper()
	k, ok := w.set().Find(name)
	if !ok {
		w.t.Fatalf("there is no skill %q; ignored: %v", name, w.set().Ignored)
	}
	return k
}

// fileBox opens what was judged.
type fileBox struct{ sandbox.Box }

func (fileBox) Open(_ context.Context, use guard.PathUse, flag int) (*os.File, error) {
	return os.OpenFile(use.Path, flag, 0)
}

// run calls Skill.
func (w *world) run(id, args string) (began, error) {
	out, err := w.call(id, args)
	b, _ := out.Data.(began)
	return b, err
}

// call calls Skill as the request path does.
func (w *world) call(id, args string) (tool.Output, error) {
	s, _ := w.Session(w.t.Context(), "", "")
	in := tool.In{
		CallID: id, Session: s.ID, Account: s.Account, Dir: s.Dir, Args: json.RawMessage(args),
		Rules: guard.NewRules(guard.Settings{}),
	}
	t := skillTool{w.f}
	var err error
	if in.Judged, err = t.Uses(w.t.Context(), in); err != nil {
		return tool.Output{}, err
	}
	return t.Run(w.t.Context(), in, fileBox{})
}
