package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// recover finishes the calls that a killed daemon left. It finds out which changes were made, and goes on with an
// undo.
func (j *journal) recover(ctx context.Context) error {
	left, err := j.calls(ctx, `settled = 0 ORDER BY n`)
	for _, c := range left {
		if failed := j.recoverOne(ctx, c); failed != nil {
			j.log.Error("a call that a crash interrupted is not finished", "call_id", c.ID, "error", failed)
		}
	}
	return err
}

func (j *journal) recoverOne(ctx context.Context, c call) error {
	user, err := userOf(c.Rights)
	if err != nil {
		return err
	}
	box := bareBox{user}
	r := &recorder{j: j, begun: true, config: j.settings(), undoes: c.Undoes, plan: c.Plan, call: &tool.Call{
		ID:      c.ID,
		Request: tool.Request{User: user},
		Target: tool.Target{
			Spec:    tool.Spec{Name: c.Tool},
			Session: tool.Session{ID: c.Session, Account: c.Account, Dir: c.Dir},
		},
	}}
	for _, x := range c.Changes {
		r.lines = append(r.lines, &line{change: x})
	}
	ctx = sandbox.WithKeeper(context.WithValue(ctx, recorderKey{}, r), r)
	for _, l := range slices.Backward(r.lines) { // a file before the directories that were made for it
		if err := r.finish(ctx, box, l); err != nil {
			return fmt.Errorf("%s: %w", l.Path, err)
		}
	}
	if c.Plan != "" {
		err = j.resume(ctx, box, c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(err, r.settle(ctx))
}

// resume goes on with an undo, or finds out what a command has changed.
func (j *journal) resume(ctx context.Context, box sandbox.Box, c call) error {
	var p plan
	if err := json.Unmarshal([]byte(c.Plan), &p); err != nil {
		return err
	}
	if p.Roots != nil {
		return recorderOf(ctx).afterCrash(ctx, p.Roots)
	}
	of, err := j.call(ctx, p.Call)
	if err != nil {
		return err
	}
	_, err = restorer{j: j, box: box, by: c.ID, of: of}.restore(ctx, p)
	return err
}

// finish finds out whether a change was made, and removes the temporary file that it left.
func (r *recorder) finish(ctx context.Context, box bareBox, l *line) error {
	if l.State == made {
		return nil
	}
	dir, err := box.openDir(filepath.Dir(l.Path))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		// Somebody removed or replaced the directory later, or the call never made it.
		l.drop = l.State == begun || l.Before.Type == nothing
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	name, temp := filepath.Base(l.Path), filepath.Base(l.Temp)
	if l.Before.Type == isDir && l.After.Type == isDir {
		now, err := box.state(dir, name, io.Discard)
		if l.drop = now.same(l.Before); err != nil || l.drop || !now.same(l.After) || now.Mode&open700 == open700 {
			return err
		}
		// What the call did in the directory before can be looked at while it is open. The end of the undo closes it
		// again.
		l.drop = true
		return box.user.Do(func() error { return dressDir(dir, name, now, l.Before) })
	}
	if l.Temp == "" { // a directory that was made for a file
		return r.finishDir(box, dir, l)
	}
	now, err := box.state(dir, name, io.Discard)
	if err != nil {
		return err
	}
	l.drop = l.State == begun || !now.same(l.After) && now.same(l.Before)
	beside := box.content(dir, temp)
	if beside.File != nil {
		defer beside.File.Close()
	} else if beside.Link == "" {
		return nil
	}
	was, err := stateOf(beside, io.Discard)
	if was.same(l.After) && !now.same(l.After) { // the change is still to be made
		l.drop = true
	}
	if err == nil && !l.drop && now.same(l.After) && !was.same(l.Before) { // not the content that was kept
		err = (&keeping{r: r, file: l}).Instead(ctx, beside)
	}
	if err != nil {
		return err
	}
	flags := 0
	if was.Type == isDir {
		flags = unix.AT_REMOVEDIR
	}
	return box.user.Do(func() error { return unix.Unlinkat(int(dir.Fd()), temp, flags) })
}

// finishDir removes a directory that was made for a file, if the file was not made.
func (r *recorder) finishDir(box bareBox, dir *os.File, l *line) error {
	below := func(o *line) bool { return !o.drop && strings.HasPrefix(o.Path, l.Path+"/") }
	if !slices.ContainsFunc(r.lines, below) {
		_ = box.user.Do(func() error { return unix.Unlinkat(int(dir.Fd()), filepath.Base(l.Path), unix.AT_REMOVEDIR) })
	}
	l.After, l.drop = dirState(box.user, l.Path)
	return nil
}

// bareBox opens files with the rights of a user, for changes that were judged before a crash. It follows no link.
type bareBox struct{ user sandbox.User }

var errBare = errors.New("only files are changed after a crash")

func (b bareBox) openDir(path string) (*os.File, error) { return b.open(path, unix.O_DIRECTORY) }

func (b bareBox) open(path string, flags uint64) (f *os.File, err error) {
	err = b.user.Do(func() error {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
			Flags:   flags | unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOFOLLOW,
			Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		f = os.NewFile(uintptr(fd), path)
		return nil
	})
	return f, err
}

func (b bareBox) content(dir *os.File, name string) sandbox.Content {
	return b.contentAt(filepath.Join(dir.Name(), name))
}

func (b bareBox) contentAt(path string) (c sandbox.Content) {
	c.File, c.Err = b.open(path, 0)
	switch {
	case errors.Is(c.Err, os.ErrNotExist):
		c.Err = nil
	case errors.Is(c.Err, unix.ELOOP):
		c.Err = b.user.Do(func() (err error) {
			c.Link, err = os.Readlink(path)
			return err
		})
	}
	return c
}

func (b bareBox) state(dir *os.File, name string, w io.Writer) (state, error) {
	c := b.content(dir, name)
	if c.File != nil {
		defer c.File.Close()
	}
	s, err := stateOf(c, w)
	if errors.Is(c.Err, os.ErrPermission) {
		err = b.user.Do(func() error {
			if closed, err := unopened(int(dir.Fd()), name); err == nil {
				s = closed
			}
			return nil
		})
	}
	return s, err
}

// operatorBox is the box of an undo by an operator. It may also restore files that run outside of the sandbox and
// that no call may write, because a command could have removed them.
type operatorBox struct {
	sandbox.Box
	bare bareBox
}

// Open implements [sandbox.Box].
func (b operatorBox) Open(ctx context.Context, use guard.PathUse, flag int) (*os.File, error) {
	f, err := b.Box.Open(ctx, use, flag)
	if denied, ok := errors.AsType[*guard.Denied](err); ok && denied.Refusals[0].Code == "path_protected" {
		return b.bare.Open(ctx, use, flag)
	}
	return f, err
}

// As implements [sandbox.Box].
func (b operatorBox) As(u sandbox.User) sandbox.Box { return operatorBox{b.Box.As(u), bareBox{u}} }

// Open implements [sandbox.Box].
func (b bareBox) Open(_ context.Context, use guard.PathUse, _ int) (*os.File, error) {
	if use.Op == guard.Write {
		return b.openDir(filepath.Dir(use.Path))
	}
	return b.open(use.Path, 0)
}

// Do implements [sandbox.Box].
func (b bareBox) Do(_ guard.PathUse, f func() error) error { return b.user.Do(f) }

// As implements [sandbox.Box].
func (b bareBox) As(u sandbox.User) sandbox.Box { return bareBox{u} }

// Start, Dial, LookPath, Report and Close complete [sandbox.Box]. An undo does not use them.
func (bareBox) Start(context.Context, sandbox.Spec) (sandbox.Proc, error) { return nil, errBare }
func (b bareBox) Judged(egress.Judge) sandbox.Box                         { return b }
func (bareBox) Ledger() egress.Ledger                                     { return egress.Ledger{} }
func (bareBox) Dial(context.Context, egress.Connection) (net.Conn, error) { return nil, errBare }
func (bareBox) LookPath(string) (string, []string)                        { return "", nil }
func (bareBox) Report() sandbox.Report                                    { return sandbox.Report{} }
func (bareBox) Close() error                                              { return nil }
