// Package toolstest runs tools in a temporary directory for tests, without a pipeline.
//
//	e := toolstest.New(t)
//	e.Write("a.go", "package a")
//	text := e.OK(search.Glob{}, map[string]any{"pattern": "*.go"})
//	err := e.Fails(search.Glob{}, map[string]any{"pattern": ""}, "invalid_arguments")
//
// A call takes the steps of the pipeline that a tool sees: schema, Uses, Run, format. Nothing is
// judged, and nothing is confined: [HostBox] starts programs on the host with the rights of the
// test, and of a Spec only Argv, Dir, Stdout and Stderr act. For the tool itself it refuses what
// Denied names, symbolic links in what it opens, and all network connections. What a sandbox does to
// a tool is tested with a real box, as in cage_linux_test.go of package tools.
//
// An [Env] belongs to one test. A method that gets what it does not expect ends the test.
package toolstest

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

// HostBox is a [sandbox.Box] without a sandbox, which starts programs on the host. It opens a path to read, and the
// directory of one to write, which it makes.
type HostBox struct {
	Denied []string            // files, and directories with all below them, that it does not open
	Before func(guard.PathUse) // is called before each open
	Env    []string            // of programs; nil: that of the test
}

// ErrDenied is the error of what a [HostBox] refuses.
var ErrDenied = &tool.Error{Code: "path_denied", Msg: "denied by the settings"}

func (b *HostBox) Open(_ context.Context, u guard.PathUse, flag int) (*os.File, error) {
	if b.Before != nil {
		b.Before(u)
	}
	for _, d := range b.Denied {
		if guard.Within(u.Path, d) {
			return nil, ErrDenied
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

func (b *HostBox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	cmd := exec.CommandContext(ctx, s.Argv[0], s.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.Dir, b.Env, s.Stdout, s.Stderr
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

func (*HostBox) LookPath(string) (string, []string)                        { return "", nil }
func (b *HostBox) Judged(egress.Judge) sandbox.Box                         { return b }
func (*HostBox) Ledger() egress.Ledger                                     { return egress.Ledger{} }
func (*HostBox) Dial(context.Context, egress.Connection) (net.Conn, error) { return nil, ErrDenied }
func (b *HostBox) As(sandbox.User) sandbox.Box                             { return b }
func (*HostBox) Do(_ guard.PathUse, f func() error) error                  { return f() }
func (*HostBox) Report() sandbox.Report                                    { return sandbox.Report{} }
func (*HostBox) Close() error                                              { return nil }

// Env is a directory with everything that a call in it needs.
type Env struct {
	T   *testing.T
	Dir string
	Box *HostBox

	Approved map[string]string   // contents that a person approved, by path; put into each call
	Emit     func(tool.Progress) // nil: progress is dropped
}

// New returns an empty directory, which is removed when the test ends.
func New(t *testing.T) *Env {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &Env{T: t, Dir: dir, Box: &HostBox{}}
}

// Write makes a file, with the directories above it, and returns its path. name is relative to Dir.
func (e *Env) Write(name, content string) string {
	e.T.Helper()
	path := filepath.Join(e.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.T.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		e.T.Fatal(err)
	}
	return path
}

// Read returns the content of a file.
func (e *Env) Read(name string) string {
	e.T.Helper()
	b, err := os.ReadFile(filepath.Join(e.Dir, name))
	if err != nil {
		e.T.Fatal(err)
	}
	return string(b)
}

// In returns what a tool gets with these arguments: a text is JSON already, other values become JSON.
func (e *Env) In(args any) tool.In {
	e.T.Helper()
	raw, ok := args.(string)
	if !ok {
		b, err := json.Marshal(args)
		if err != nil {
			e.T.Fatal(err)
		}
		raw = string(b)
	}
	emit := e.Emit
	if emit == nil {
		emit = func(tool.Progress) {}
	}
	return tool.In{
		CallID: "c", Session: "s", Dir: e.Dir, Roots: []string{e.Dir}, Home: "/nonexistent", Args: json.RawMessage(raw),
		Emit: emit,
	}
}

// Call takes the steps of the pipeline that a tool sees: schema, Uses, Run with the judged paths, text.
func (e *Env) Call(t tool.Tool, args any) (string, tool.Output, error) {
	e.T.Helper()
	return e.CallCtx(e.T.Context(), t, args)
}

// CallCtx is Call with a context.
func (e *Env) CallCtx(ctx context.Context, t tool.Tool, args any) (string, tool.Output, error) {
	e.T.Helper()
	in := e.In(args)
	var v catalog.Validator
	if err := v.Validate(t.Spec(), in.Args); err != nil {
		return "", tool.Output{}, err
	}
	uses, err := t.Uses(ctx, in)
	if err != nil {
		return "", tool.Output{}, err
	}
	in.Judged, in.Approved = uses, e.Approved
	out, err := t.Run(ctx, in, e.Box)
	return tool.Format(t, out, in.Args), out, err
}

// OK is Call where an error ends the test. It returns the text for the model.
func (e *Env) OK(t tool.Tool, args any) string {
	e.T.Helper()
	text, _, err := e.Call(t, args)
	if err != nil {
		e.T.Fatal(err)
	}
	return text
}

// Fails is Call where anything but an error with this code ends the test.
func (e *Env) Fails(t tool.Tool, args any, code string) *tool.Error {
	e.T.Helper()
	_, _, err := e.Call(t, args)
	var te *tool.Error
	if !errors.As(err, &te) {
		e.T.Fatalf("got %v, want an error with code %s", err, code)
	}
	if te.Code != code {
		e.T.Fatalf("got code %s (%s), want %s", te.Code, te.Msg, code)
	}
	return te
}

// FailsAny is Fails for errors that systems report with different codes.
func (e *Env) FailsAny(t tool.Tool, args any, codes ...string) *tool.Error {
	e.T.Helper()
	_, _, err := e.Call(t, args)
	var te *tool.Error
	if !errors.As(err, &te) || !slices.Contains(codes, te.Code) {
		e.T.Fatalf("got %v, want an error with one of the codes %v", err, codes)
	}
	return te
}

// Lines returns the lines of an answer. It returns none for "".
func Lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// RepeatLines returns a text of n lines.
func RepeatLines(n int) string {
	var b bytes.Buffer
	for range n {
		b.WriteString("line of text\n")
	}
	return b.String()
}

// Code returns the stable code of an error. It returns "" for nil and for errors that are no [*tool.Error].
func Code(err error) string {
	if te, ok := errors.AsType[*tool.Error](err); ok {
		return te.Code
	}
	return ""
}
