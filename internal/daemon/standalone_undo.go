package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/undo"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/sandbox/limit"
)

// execKept is the store of what commands without a daemon have changed in one workspace. One process at a time has
// it.
type execKept struct {
	part.Part
	db   *store.DB
	lock *os.File
}

// execDir returns the directory of the store of a workspace, below the state directory.
func (s *Site) execDir(root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(s.execDirs(), hex.EncodeToString(sum[:16]))
}

func (s *Site) execDirs() string { return filepath.Join(s.Paths.StateDir, "exec") }

// errBusy says that another process has the store of a workspace.
var errBusy = errors.New("another sandboxd exec runs in this workspace")

// openKept opens the store of the workspace. If that fails, the command runs all the same, and its answer says why
// nothing is kept.
func (a *alone) openKept(ctx context.Context) error {
	if a.Config.Parts["undo"].(*undo.Config).Mode == "off" {
		a.journal = unkept{undo.Off}
		return nil
	}
	if err := a.openStore(ctx); err != nil {
		a.journal = unkept{err.Error()}
		return ctx.Err()
	}
	a.journal = a.kept.Journal
	return nil
}

func (a *alone) openStore(ctx context.Context) (err error) {
	dir := a.execDir(a.rootOf(a.session.Dir))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := lockStore(dir)
	if err != nil {
		return err
	}
	k := &execKept{lock: lock}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	d := undo.Definition()
	if k.db, err = store.Open(ctx, store.Options{Path: filepath.Join(dir, "state.db")}, d.Schema); err != nil {
		return err
	}
	k.Part, err = d.Open(ctx, part.Host{
		DB: k.db, Dir: dir, Config: a.Config.Parts[d.Name], Sessions: a.sessions, Record: a.record.local.Append,
		Free:   func() int64 { return a.freeAt(dir) },
		Do:     func(ctx context.Context, r tool.Request) tool.Result { return a.line.Do(ctx, r) },
		Redact: a.redactor.String, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.kept = k
	a.sweepStores(dir)
	return nil
}

// close lets the next process have the store.
func (k *execKept) close() {
	if k.Close != nil {
		_ = k.Close()
	}
	if k.db != nil {
		_ = k.db.Close()
	}
	k.lock.Close()
}

// freeAt returns how many bytes above the reserve are free on the file system of a directory.
func (s *Site) freeAt(dir string) int64 {
	reserve := limit.Reserve{Bytes: s.Config.Limits.DiskReserve}
	for _, space := range limit.FreeSpace([]string{dir}) {
		if !reserve.Low(space) {
			return int64(space.Avail - reserve.Keep(space))
		}
	}
	return 0
}

// lockStore takes the lock of a store. The time of the lock file says when the store was last used.
func lockStore(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errBusy
	}
	if err == nil {
		err = os.Chtimes(path, time.Time{}, time.Now())
	}
	if err == nil && !sameFile(f, path) { // somebody who removed an old store had the lock before
		err = errBusy
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	b, err2 := os.Lstat(path)
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// sweepStores removes the stores of other workspaces that nobody has used for as long as undo keeps anything.
func (s *Site) sweepStores(but string) {
	c := s.Config.Parts["undo"].(*undo.Config)
	old := time.Now().AddDate(0, 0, -c.KeepDays)
	names, err := os.ReadDir(s.execDirs())
	for _, e := range names {
		dir := filepath.Join(s.execDirs(), e.Name())
		info, failed := os.Lstat(filepath.Join(dir, "lock"))
		if dir == but || failed != nil || info.ModTime().After(old) {
			continue
		}
		lock, failed := lockStore(dir)
		if failed != nil {
			continue // another process uses it
		}
		err = errors.Join(err, os.RemoveAll(dir))
		lock.Close()
	}
	if err != nil {
		s.log.Warn("old stores of sandboxd exec are not removed", "error", err)
	}
}

// unkept is the journal of a command whose changes are not kept. The answer of the command says why.
type unkept struct{ why string }

func (unkept) Keep(ctx context.Context, _ *tool.Call) (context.Context, error) { return ctx, nil }

func (u unkept) Whole(context.Context, *tool.Call) string { return u.why }

func (u unkept) Collect(_ context.Context, c *tool.Call) error {
	c.Changes.Undo = &tool.Undo{Why: u.why}
	return nil
}

// ExecStore answers the routes of undo, as a daemon does, for what sandboxd exec changed without a daemon.
type ExecStore struct {
	parts *alone
	mux   *http.ServeMux
}

// OpenExecStore opens the store of the workspace that holds the current directory. The caller closes it.
func OpenExecStore(ctx context.Context, version string, people pipeline.Approvals) (*ExecStore, error) {
	h, err := Load(version, nil)
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	root, err := h.execRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := h.here(root); err != nil {
		return nil, err
	}
	a, err := h.openAlone(ctx, people, root)
	if err != nil {
		return nil, err
	}
	if a.kept == nil {
		why := a.journal.(unkept).why
		a.close()
		return nil, &tool.Error{
			Code: "undo_exec_closed", Msg: "what sandboxd exec kept of " + root + " cannot be opened: " + why,
			Hint: "wait until the command there has ended; undo.mode must not be off",
		}
	}
	a.register(a.kept.Groups...)
	x := &ExecStore{a, http.NewServeMux()}
	for _, r := range a.kept.Routes {
		x.mux.HandleFunc(r.Pattern, func(_ http.ResponseWriter, req *http.Request) {
			o := req.Context().Value(outcomeKey{}).(*outcome)
			o.data, o.err = r.Handle(req)
		})
	}
	return x, nil
}

// execRoot returns dir, or the nearest directory above it, in which sandboxd exec has kept something.
func (s *Site) execRoot(dir string) (string, error) {
	if len(s.Roots) > 0 {
		dir = s.rootOf(dir)
	}
	for at := dir; ; at = filepath.Dir(at) {
		_, err := os.Stat(s.execDir(at))
		if err == nil {
			return at, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if at == "/" {
			return "", &tool.Error{
				Code: "undo_nothing", Msg: "of what sandboxd exec ran in " + dir + " without a daemon nothing is kept",
				Hint: "what a daemon ran is undone without --exec",
			}
		}
	}
}

// Close releases what OpenExecStore opened.
func (x *ExecStore) Close() { x.parts.close() }

// Session returns the id that all commands have as their session.
func (*ExecStore) Session() string { return execSession }

type outcomeKey struct{}

// outcome is the answer of a route.
type outcome struct {
	data any
	err  error
}

// Do answers a request of the person who runs this process, as Do of the package client does for a daemon.
func (x *ExecStore) Do(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	o := &outcome{err: fmt.Errorf("no route %s %s", method, path)}
	me := route.Caller{
		Account: x.parts.session.Account, Role: tool.RoleOperator, Home: x.parts.home,
		UID: os.Getuid(), GID: os.Getgid(),
	}
	ctx = context.WithValue(route.WithCaller(ctx, me), outcomeKey{}, o)
	req, err := http.NewRequestWithContext(ctx, method, "http://sandboxd"+path, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	x.mux.ServeHTTP(nowhere{}, req)
	if o.err != nil || out == nil {
		return o.err
	}
	if list, ok := o.data.(route.List); ok {
		o.data = list.Data
	}
	text, err := json.Marshal(o.data)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// nowhere takes the answers that the mux writes itself.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
