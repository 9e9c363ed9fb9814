package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// hostBox opens exactly the path, and refuses what is denied.
type hostBox struct {
	sandbox.Box // nil: the rest is not called
	denied      []string

	mu     sync.Mutex
	opened []string // guarded by mu: files are searched side by side

	started int // guarded by mu: programs
}

func (b *hostBox) Open(_ context.Context, u guard.PathUse, flag int) (*os.File, error) {
	if slices.ContainsFunc(b.denied, func(d string) bool { return guard.Within(u.Path, d) }) {
		return nil, &tool.Error{Code: "path_denied", Msg: "denied by the settings"}
	}
	b.mu.Lock()
	b.opened = append(b.opened, u.Path)
	b.mu.Unlock()
	fd, err := unix.Openat2(unix.AT_FDCWD, u.Path, &unix.OpenHow{
		Flags:   uint64(flag) | unix.O_CLOEXEC | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: u.Path, Err: err}
	}
	return os.NewFile(uintptr(fd), u.Path), nil
}

// world is a directory and the tool.
type world struct {
	t    *testing.T
	dir  string
	box  *hostBox
	tool tool.Tool

	// With a server.
	f      *feature
	part   part.Part
	forgot atomic.Int64 // cages

	mu       sync.Mutex     // guards what follows
	settings guard.Settings // of the session
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, dir: dir, box: &hostBox{}, tool: lsp{newFeature(part.Host{}, Defaults())}}
}

func (w *world) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) in(args string) tool.In {
	return tool.In{
		CallID: "c", Session: "s", Account: "a", Dir: w.dir, Roots: []string{w.dir}, Home: "/nonexistent",
		Args: json.RawMessage(args), Emit: func(tool.Progress) {},
		By: &tool.Identity{UID: os.Geteuid(), GID: os.Getegid()},
	}
}

// call does what the pipeline does: schema, uses, run on what was judged, text.
func (w *world) call(args string) (string, data, error) {
	w.t.Helper()
	in := w.in(args)
	var v catalog.Validator
	if err := v.Validate(w.tool.Spec(), in.Args); err != nil {
		return "", data{}, err
	}
	uses, err := w.tool.Uses(w.t.Context(), in)
	if err != nil {
		return "", data{}, err
	}
	in.Judged = uses
	out, err := w.tool.Run(w.t.Context(), in, w.box)
	d, _ := out.Data.(data)
	return tool.Format(w.tool, out, in.Args), d, err
}

func (w *world) ok(args string) (string, data) {
	w.t.Helper()
	text, d, err := w.call(args)
	if err != nil {
		w.t.Fatal(err)
	}
	return text, d
}

func (w *world) fails(args, code string) *tool.Error {
	w.t.Helper()
	_, _, err := w.call(args)
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != code {
		w.t.Fatalf("%s: got %v, want an error with code %s", args, err, code)
	}
	return e
}
