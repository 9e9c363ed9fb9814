package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// box is the Box of Linux.
type box struct {
	cage     *cage
	session  string
	profile  string
	prepared *prepared
	settings Settings
	rules    *Rules
	report   Report                 // guarded by mu: what is missing
	private  func() (string, error) // makes the session's private directory, once

	mu      sync.Mutex
	running map[*proc]bool // guarded by mu
	closed  bool           // guarded by mu
}

func (b *box) Report() Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.report.clone()
}

// lacks adds to the report what a call has found missing.
func (b *box) lacks(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.report.Missing, what) {
		b.report.Missing = append(b.report.Missing, what)
	}
}

// Dial refuses: this cage has no way out but the egress proxy, which is not part
// of it.
func (b *box) Dial(_ context.Context, host string) (net.Conn, error) {
	return nil, fmt.Errorf("connect to %s: this sandbox has no network", host)
}

// Start runs a program in the session's launcher.
func (b *box) Start(ctx context.Context, s Spec) (Proc, error) {
	if err := b.report.cageable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(s.Argv) == 0 {
		return nil, errors.New("start a program: no words given")
	}
	if !filepath.IsAbs(s.Dir) {
		return nil, fmt.Errorf("start %q: working directory %q is not absolute", s.Argv[0], s.Dir)
	}
	for _, word := range slices.Concat(s.Argv, s.Env, []string{s.Dir}) {
		if strings.Contains(word, "\x00") {
			return nil, fmt.Errorf("start %q: a word holds a NUL byte", s.Argv[0])
		}
	}
	show := b.toShow(s.Dir)
	guarded := b.guardedNow()
	t, err := b.template(show, guarded)
	if err != nil {
		return nil, err
	}
	masks := b.hostSockets(show)
	limits := b.settings.Limits.WithDefaults().tighten(s.Limits)
	l, err := b.cage.launcher(ctx, b.session, t, child.Request{Masks: masks, Limits: limits.kernel()})
	if err != nil {
		return nil, err
	}
	p := &proc{box: b, launcher: l, limits: limits, guarded: guarded, done: make(chan struct{})}
	c := child.Call{Argv: s.Argv, Env: withEnv(b.prepared.env, s.Env), Dir: s.Dir, Limits: limits.kernel()}
	if err := p.start(ctx, s, c, masks); err != nil {
		l.release()
		return nil, err
	}
	return p, nil
}

// toShow is dir where it would be hidden by a private directory though the
// settings let it be read, and "" where it is visible anyway: the fewer different
// answers, the fewer launchers.
func (b *box) toShow(dir string) string {
	hides := func(p string) bool { return Within(dir, p) }
	if !slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/run", "/home", "/root"}, hides) {
		return ""
	}
	for _, p := range append([]string{"/tmp", "/var/tmp"}, b.prepared.shown...) {
		if dir == p || p != "/tmp" && p != "/var/tmp" && Within(dir, p) {
			return ""
		}
	}
	if b.rules.Check(Uses{Paths: []PathUse{{Path: dir, Op: Read}}}) != nil {
		return ""
	}
	return dir
}

// tighten lowers l where other is lower.
func (l Limits) tighten(other Limits) Limits {
	return Limits{
		WallSeconds: lower(l.WallSeconds, other.WallSeconds), CPUSeconds: lower(l.CPUSeconds, other.CPUSeconds),
		MemoryBytes: lower(l.MemoryBytes, other.MemoryBytes), Processes: lower(l.Processes, other.Processes),
		FileSizeBytes: lower(l.FileSizeBytes, other.FileSizeBytes), OpenFiles: lower(l.OpenFiles, other.OpenFiles),
		OutputBytes: lower(l.OutputBytes, other.OutputBytes), DiskBytes: lower(l.DiskBytes, other.DiskBytes),
	}
}

func lower[T int | int64](v, other T) T {
	if other > 0 && other < v {
		return other
	}
	return v
}

func (l Limits) kernel() child.Limits {
	return child.Limits{
		CPUSeconds: uint64(l.CPUSeconds), Memory: uint64(l.MemoryBytes), FileSize: uint64(l.FileSizeBytes),
		OpenFiles: uint64(l.OpenFiles), Processes: uint64(l.Processes),
	}
}

// Close ends what runs in this box.
func (b *box) Close() error {
	b.mu.Lock()
	b.closed = true
	var all []*proc
	for p := range b.running {
		all = append(all, p)
	}
	b.mu.Unlock()
	for _, p := range all {
		p.Terminate(0)
		<-p.done
	}
	return nil
}

// hostSockets are the sockets of this host that a program in this box could see,
// when show is shown besides. Where it can have no socket itself, none of them
// matters.
func (b *box) hostSockets(show string) []string {
	if b.cage.bare {
		return nil
	}
	roots := slices.Concat(b.settings.AllowedWritePaths, b.cage.opts.Roots)
	roots = slices.DeleteFunc(roots, func(p string) bool { return p == "/" || p == "/tmp" || p == nowhere || Within(p, "/dev") })
	return slices.DeleteFunc(b.cage.sockets.paths(roots), func(p string) bool {
		return b.hostShowing(p, show) != p
	})
}

// readProc reads a file that never makes its reader wait, without the detour
// through Go's poller that os.ReadFile takes.
func readProc(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var out []byte
	for {
		out = slices.Grow(out, 16<<10)
		n, err := unix.Read(fd, out[len(out):cap(out)])
		if n <= 0 || err != nil {
			return out, err
		}
		out = out[:len(out)+n]
	}
}

// Open opens one judged path on the host, as the settings and the cage's own
// places have it.
func (b *box) Open(ctx context.Context, use PathUse, flag int) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(use.Path) || filepath.Clean(use.Path) != use.Path || strings.Contains(use.Path, "\x00") {
		return nil, fmt.Errorf("open %q: the path is not physical", use.Path)
	}
	if refs := b.rules.Check(Uses{Paths: []PathUse{use}}); refs != nil {
		return nil, &Denied{Type: "path", Value: use.Path, Refusals: refs}
	}
	if within := b.kernelPlace(use.Path); within != "" {
		return nil, &Denied{Type: "path", Value: use.Path, Refusals: []Refusal{{
			Code: "path_proc", Message: fmt.Sprintf("path '%s' lies in %s, which means something else outside the sandbox", use.Path, within),
			Hint: "read it with a command, which runs inside", Rule: "sandbox",
		}}}
	}
	if empty := b.hidden(use.Path); empty != "" {
		return nil, &Denied{Type: "path", Value: use.Path, Refusals: []Refusal{{
			Code: "path_denied", Message: fmt.Sprintf("path '%s' is denied by sandbox policy", use.Path),
			Hint: "the sandbox shows nothing of " + empty + " but the caller's home and what allowedReadPaths and the roots of the workspace name", Rule: "not shown: " + empty,
		}}}
	}
	for _, p := range b.cage.opts.Private {
		if Within(use.Path, p) {
			return nil, &Denied{Type: "path", Value: use.Path, Refusals: []Refusal{{
				Code: "path_denied", Message: fmt.Sprintf("path '%s' is denied by sandbox policy", use.Path),
				Hint: "it belongs to the daemon", Rule: "daemon's own files",
			}}}
		}
	}
	if use.Op == Read {
		return openFile(b.host(use.Path), flag)
	}
	if b.readOnly(use.Path) {
		return nil, &Denied{Type: "path", Value: use.Path, Refusals: []Refusal{{
			Code: "path_outside_write_scope", Message: fmt.Sprintf("path '%s' is outside allowed write scope", use.Path),
			Hint: "it is a file of the host below the private " + private[0] + "; name it in allowedWritePaths", Rule: "allowedWritePaths",
		}}}
	}
	for _, p := range b.cage.protected(b.settings, b.gitMore()) {
		if Within(use.Path, p) {
			return nil, &Denied{Type: "path", Value: use.Path, Refusals: []Refusal{{
				Code: "path_protected", Message: fmt.Sprintf("path '%s' is write-protected: it decides what runs outside the sandbox", use.Path),
				Hint: "a person has to change it", Rule: "protected paths",
			}}}
		}
	}
	at := b.host(use.Path)
	if err := notSpecial(at); err != nil {
		return nil, err
	}
	return b.openDir(filepath.Dir(use.Path), filepath.Dir(at))
}

func (b *box) kernelPlace(path string) string {
	for _, p := range append([]string{"/proc", "/sys", "/dev"}, child.Overlaid...) { // overlays are there inside only
		if Within(path, p) {
			return p
		}
	}
	return ""
}

// host is where a path of the cage lies on the host: the private directories are
// elsewhere. A workspace below /tmp is shown at its own path.
func (b *box) host(path string) string {
	for _, p := range []struct{ at, dir string }{{"/tmp", "tmp"}, {"/var/tmp", "vartmp"}, {child.CacheDir, "cache"}} {
		if !Within(path, p.at) {
			continue
		}
		for _, shown := range b.prepared.shown {
			if shown != p.at && Within(shown, p.at) && Within(path, shown) {
				return path
			}
		}
		dir, err := b.private()
		if err != nil {
			return path + "\x00" // cannot be opened
		}
		return filepath.Join(dir, p.dir, strings.TrimPrefix(path, p.at))
	}
	return path
}

// hostShowing is where a path lies for a call that shows a directory besides; see
// toShow.
func (b *box) hostShowing(path, show string) string {
	if show != "" && Within(path, show) {
		return path
	}
	return b.host(path)
}

// openDir opens the directory that a new file goes into, at its place on the host,
// and makes it, one component after the other, where the settings let it be written.
func (b *box) openDir(dir, at string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	f, err := openAt(at, flags)
	if !errors.Is(err, os.ErrNotExist) || dir == "/" {
		return f, err
	}
	if refs := b.rules.Check(Uses{Paths: []PathUse{{Path: dir, Op: Write}}}); refs != nil {
		return nil, &Denied{Type: "path", Value: dir, Refusals: refs}
	}
	parent, err := b.openDir(filepath.Dir(dir), filepath.Dir(at))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := filepath.Base(dir)
	if err := unix.Mkdirat(int(parent.Fd()), name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	fd, err := unix.Openat2(int(parent.Fd()), name, &unix.OpenHow{
		Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_BENEATH,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// openAt never follows a link and never waits.
func openAt(path string, flags int) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openFile opens a file or directory for reading. The other flags are ignored but
// O_DIRECTORY: nothing is ever written through it.
func openFile(path string, flag int) (*os.File, error) {
	f, err := openAt(path, unix.O_RDONLY|flag&unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if m := info.Mode(); !m.IsRegular() && !m.IsDir() {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: path, Err: fmt.Errorf("not a regular file or directory (%s)", m.Type())}
	}
	return f, nil
}

// notSpecial refuses to replace what is not a regular file.
func notSpecial(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil // what goes wrong here goes wrong again when it is opened
	}
	return &os.PathError{Op: "write", Path: path, Err: errors.New("not a regular file")}
}

var _ io.Closer = (*box)(nil)
