package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"golang.org/x/sys/unix"
)

// hostBox is a small box without a cage: it opens exactly the path, refuses what
// is denied, and starts programs on the host.
type hostBox struct {
	denied []string
	before func(guard.PathUse) // runs before each open
}

var errDenied = &tool.Error{Code: "path_denied", Msg: "denied by the settings"}

func (b *hostBox) Open(_ context.Context, u guard.PathUse, flag int) (*os.File, error) {
	if b.before != nil {
		b.before(u)
	}
	for _, d := range b.denied {
		if guard.Within(u.Path, d) {
			return nil, errDenied
		}
	}
	path := u.Path
	if u.Op == guard.Write {
		path, flag = filepath.Dir(path), os.O_RDONLY|unix.O_DIRECTORY
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   uint64(flag) | unix.O_CLOEXEC | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

type hostProc struct {
	ctx context.Context
	cmd *exec.Cmd
}

func (b *hostBox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	cmd := exec.CommandContext(ctx, s.Argv[0], s.Argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, s.Stdout, s.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	return hostProc{ctx, cmd}, cmd.Start()
}

func (p hostProc) Wait() (sandbox.Exit, error) {
	err := p.cmd.Wait()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) && p.ctx.Err() == nil {
		return sandbox.Exit{}, err
	}
	return sandbox.Exit{Code: p.cmd.ProcessState.ExitCode()}, nil
}

func (p hostProc) Dial(context.Context, uint16) (net.Conn, error) { return nil, net.ErrClosed }

func (p hostProc) Apart() bool           { return false }
func (hostProc) Sweep() []sandbox.Denial { return nil }

func (p hostProc) Terminate(time.Duration) { _ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL) }

func (*hostBox) LookPath(string) (string, []string)                        { return "", nil }
func (b *hostBox) Judged(egress.Judge) sandbox.Box                         { return b }
func (*hostBox) Ledger() egress.Ledger                                     { return egress.Ledger{} }
func (*hostBox) Dial(context.Context, egress.Connection) (net.Conn, error) { return nil, errDenied }
func (b *hostBox) As(sandbox.User) sandbox.Box                             { return b }
func (*hostBox) Do(_ guard.PathUse, f func() error) error                  { return f() }
func (*hostBox) Report() sandbox.Report                                    { return sandbox.Report{} }
func (*hostBox) Close() error                                              { return nil }

// env is a directory and what a call in it needs.
type env struct {
	t   *testing.T
	dir string
	box *hostBox

	approved map[string]string // by a person
}

func newEnv(t *testing.T) *env {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &env{t: t, dir: dir, box: &hostBox{}}
}

func (e *env) write(name, content string) string {
	e.t.Helper()
	path := filepath.Join(e.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		e.t.Fatal(err)
	}
	return path
}

func (e *env) read(name string) string {
	e.t.Helper()
	b, err := os.ReadFile(filepath.Join(e.dir, name))
	if err != nil {
		e.t.Fatal(err)
	}
	return string(b)
}

func (e *env) in(args any) tool.In {
	e.t.Helper()
	raw, ok := args.(string)
	if !ok {
		b, err := json.Marshal(args)
		if err != nil {
			e.t.Fatal(err)
		}
		raw = string(b)
	}
	return tool.In{
		CallID: "c", Session: "s", Dir: e.dir, Roots: []string{e.dir}, Home: "/nonexistent", Args: json.RawMessage(raw),
		Emit: func(tool.Progress) {},
	}
}

// call does what the pipeline does: schema, uses, run on what was judged, text.
func (e *env) call(t tool.Tool, args any) (string, tool.Output, error) {
	e.t.Helper()
	return e.callCtx(e.t.Context(), t, args)
}

func (e *env) callCtx(ctx context.Context, t tool.Tool, args any) (string, tool.Output, error) {
	e.t.Helper()
	in := e.in(args)
	var v catalog.Validator
	if err := v.Validate(t.Spec(), in.Args); err != nil {
		return "", tool.Output{}, err
	}
	uses, err := t.Uses(ctx, in)
	if err != nil {
		return "", tool.Output{}, err
	}
	in.Judged, in.Approved = uses, e.approved
	out, err := t.Run(ctx, in, e.box)
	return tool.Format(t, t.Spec(), out, in.Args), out, err
}

func (e *env) ok(t tool.Tool, args any) string {
	e.t.Helper()
	text, _, err := e.call(t, args)
	if err != nil {
		e.t.Fatal(err)
	}
	return text
}

func (e *env) fails(t tool.Tool, args any, code string) *tool.Error {
	e.t.Helper()
	_, _, err := e.call(t, args)
	var te *tool.Error
	if !errors.As(err, &te) {
		e.t.Fatalf("got %v, want an error with code %s", err, code)
	}
	if te.Code != code {
		e.t.Fatalf("got code %s (%s), want %s", te.Code, te.Msg, code)
	}
	return te
}

// failsAny is fails for systems that report one thing in several ways.
func (e *env) failsAny(t tool.Tool, args any, codes ...string) *tool.Error {
	e.t.Helper()
	_, _, err := e.call(t, args)
	var te *tool.Error
	if !errors.As(err, &te) || !slices.Contains(codes, te.Code) {
		e.t.Fatalf("got %v, want an error with one of the codes %v", err, codes)
	}
	return te
}

type m = map[string]any

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func repeatLines(n int) string {
	var b bytes.Buffer
	for range n {
		b.WriteString("line of text\n")
	}
	return b.String()
}
