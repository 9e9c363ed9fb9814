package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/view"
)

// Open opens a judged path where it lies on the host. It refuses what a program in the
// sandbox could not see or write, so that file tools and programs agree.
func (b *box) Open(ctx context.Context, use guard.PathUse, flag int) (f *os.File, err error) {
	if err := errors.Join(ctx.Err(), b.broken); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(use.Path) || filepath.Clean(use.Path) != use.Path || strings.Contains(use.Path, "\x00") {
		return nil, fmt.Errorf("open %q: the path is not physical", use.Path)
	}
	if refs := b.prepared.rules.Check(guard.Uses{Paths: []guard.PathUse{use}}); refs != nil {
		return nil, &guard.Denied{Type: "path", Value: use.Path, Refusals: refs}
	}
	if err := b.mustBeVisible(use.Path); err != nil {
		return nil, err
	}
	if use.Op != guard.Read {
		if err := b.mustBeWritable(use.Path); err != nil {
			return nil, err
		}
	}
	at := b.host(use.Path)
	err = b.wayTo(use.Path).Do(func() error {
		if use.Op == guard.Read {
			f, err = openFile(at, flag)
			return err
		}
		if err := notSpecial(at); err != nil && flag&unix.O_NOFOLLOW == 0 {
			return err
		}
		f, err = b.openDir(filepath.Dir(use.Path), filepath.Dir(at))
		return err
	})
	return f, err
}

// Do runs f with the rights of the user.
func (b *box) Do(_ guard.PathUse, f func() error) error {
	if b.broken != nil {
		return b.broken
	}
	return b.prepared.user.Do(f)
}

// wayTo returns the user whose rights lead to a path. The private files of a user lie in a directory that only the
// daemon can enter; what is made there still belongs to the user.
func (b *box) wayTo(path string) User {
	if u := b.prepared.user; !u.known || !b.prepared.view.Private(path) {
		return u
	}
	return Daemon()
}

// refusal is the error for a path that the sandbox does not give to a file tool.
func refusal(path string, r guard.Refusal) error {
	return &guard.Denied{Type: "path", Value: path, Refusals: []guard.Refusal{r}}
}

// mustBeVisible refuses a path that programs do not see, or see as something else.
func (b *box) mustBeVisible(path string) error {
	v := b.prepared.view
	if within := view.InsideOnly(path); within != "" {
		return refusal(path, guard.Refusal{
			Code:    "path_proc",
			Message: fmt.Sprintf("path '%s' lies in %s, which means something else outside the sandbox", path, within),
			Hint:    "read it with a command, which runs inside",
			Rule:    "sandbox",
		})
	}
	if empty := v.Hidden(path); empty != "" {
		return refusal(path, guard.Refusal{
			Code:    "path_denied",
			Message: fmt.Sprintf("path '%s' is denied by sandbox policy", path),
			Hint: "the sandbox shows nothing of " + empty +
				" but the caller's home and what allowedReadPaths and the roots of the workspace name",
			Rule: "not shown: " + empty,
		})
	}
	if v.Daemons(path) {
		return refusal(path, guard.Refusal{
			Code:    "path_denied",
			Message: fmt.Sprintf("path '%s' is denied by sandbox policy", path),
			Hint:    "it belongs to the daemon",
			Rule:    "daemon's own files",
		})
	}
	return nil
}

// mustBeWritable refuses a path that programs see read-only although the settings allow
// writing it.
func (b *box) mustBeWritable(path string) error {
	if b.prepared.view.ReadOnly(path) {
		return refusal(path, guard.Refusal{
			Code:    "path_outside_write_scope",
			Message: fmt.Sprintf("path '%s' is outside allowed write scope", path),
			Hint:    "it is a file of the host below the private /tmp; name it in allowedWritePaths",
			Rule:    "allowedWritePaths",
		})
	}
	if b.prepared.trees.Keeps(path) {
		return refusal(path, guard.Refusal{
			Code:    "path_protected",
			Message: fmt.Sprintf("path '%s' is write-protected: it decides what runs outside the sandbox", path),
			Hint:    "a person has to change it",
			Rule:    "protected paths",
		})
	}
	return nil
}

// host returns where a path of the sandbox lies on the host. It makes the private directory
// of the session if the path lies there.
func (b *box) host(path string) string {
	if b.prepared.view.Private(path) {
		if err := b.private(); err != nil {
			return path + "\x00" // cannot be opened
		}
	}
	return b.prepared.view.OnHost(path, "")
}

// openDir opens the directory dir, which lies at the path at on the host. It makes missing
// directories one by one, as far as the settings allow writing them.
func (b *box) openDir(dir, at string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	f, err := openAt(at, flags)
	if !errors.Is(err, os.ErrNotExist) || dir == "/" {
		return f, err
	}
	if refs := b.prepared.rules.Check(guard.Uses{Paths: []guard.PathUse{{Path: dir, Op: guard.Write}}}); refs != nil {
		return nil, &guard.Denied{Type: "path", Value: dir, Refusals: refs}
	}
	parent, err := b.openDir(filepath.Dir(dir), filepath.Dir(at))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := filepath.Base(dir)
	err = b.prepared.user.Do(func() error { return unix.Mkdirat(int(parent.Fd()), name, 0o755) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	fd, err := unix.Openat2(int(parent.Fd()), name, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_BENEATH,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// openAt opens a path. It follows no link and never blocks.
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

// openFile opens a file or directory for reading. Of the flags only O_DIRECTORY counts:
// nothing is ever written through the file.
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
		err := fmt.Errorf("not a regular file or directory (%s)", m.Type())
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}

// notSpecial refuses to replace anything except a regular file or a directory.
func notSpecial(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil // opening it will fail the same way
	}
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFREG || kind == unix.S_IFDIR {
		return nil
	}
	return &os.PathError{Op: "write", Path: path, Err: errors.New("not a regular file")}
}
