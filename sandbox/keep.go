package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Keeper keeps what file tools take away, so that it can be put back. [WithKeeper] gives one to
// a call.
type Keeper interface {
	// Begin is called before anything is touched. An error leaves everything as it is. It may
	// choose another Temp, which nobody else may guess.
	Begin(ctx context.Context, c *Coming) (Keeping, error)
}

// Coming is a change that a file tool is about to make.
type Coming struct {
	Path string
	Temp string   // the name of the new content before the change, or of the old one for a moment after it
	Dirs []string // absent directories above Path; they are made first
}

// Keeping is one change. Take may be called several times, each time with the content at that moment. Done is called
// once, at the end.
type Keeping interface {
	// Take is called before old is replaced by now. An error stops the change.
	Take(ctx context.Context, old, now Content) error
	// Instead is called after Take, if something other than old was replaced.
	Instead(ctx context.Context, old Content) error
	Done(ctx context.Context, changed bool)
}

// Content is what lies at a path.
type Content struct {
	File *os.File // a regular file, directory or named pipe, open for reading; nil if nothing lies there
	Link string   // the target, if a symbolic link lies there
	Err  error    // why what lies there cannot be read

	info os.FileInfo // when it was opened
	dir  bool        // a directory that cannot be opened
}

type keeperKey struct{}

// WithKeeper returns a context for a call whose file tools report their changes to k.
func WithKeeper(ctx context.Context, k Keeper) context.Context {
	return context.WithValue(ctx, keeperKey{}, k)
}

// begin reports the change to the keeper of the call, if there is one.
func (f *File) begin(ctx context.Context) (err error) {
	k, _ := ctx.Value(keeperKey{}).(Keeper)
	if k == nil {
		return nil
	}
	c := Coming{Path: f.path, Temp: filepath.Join(filepath.Dir(f.path), f.tmp)}
	err = f.do(func() error { c.Dirs = absentAbove(f.path); return nil })
	if err == nil {
		f.keeping, err = k.Begin(ctx, &c)
		f.tmp = filepath.Base(c.Temp)
	}
	return err
}

// absentAbove returns the missing directories above a path, the outermost first.
func absentAbove(path string) (dirs []string) {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != unix.ENOENT {
			break
		}
		dirs = append([]string{dir}, dirs...)
	}
	return dirs
}

// elsewhere reports whether the path lies in another place of the host: in the private files of a session, which
// nobody keeps.
func (f *File) elsewhere() bool {
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.dir.Fd()))
	return err != nil || at != filepath.Dir(f.path)
}

// done ends the keeping.
func (f *File) done(changed bool) {
	if f.keeping != nil {
		f.keeping.Done(context.WithoutCancel(f.ctx), changed)
		f.keeping = nil
	}
}

// replace puts the new content in the place of the old one, or only removes the old one, and has the old one kept.
// Somebody may change the file at any moment, so replace compares the removed file with the kept one.
func (f *File) replace() error {
	for range 100 {
		old := f.look()
		err := f.keeping.Take(f.ctx, old, Content{File: f.file})
		if err == nil {
			err = f.swap(old)
		}
		if old.File != nil {
			old.File.Close()
		}
		if !errors.Is(err, errOther) {
			return err
		}
	}
	return fmt.Errorf("%s changes all the time", f.path)
}

// errOther says that something appeared at a path, or went away.
var errOther = errors.New("something else is there now")

// look opens what lies at the path.
func (f *File) look() Content { return f.open(filepath.Base(f.path)) }

func (f *File) open(name string) (c Content) {
	err := f.do(func() error {
		const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
		fd, err := unix.Openat(int(f.dir.Fd()), name, flags, 0)
		if errors.Is(err, unix.ELOOP) {
			c.Link, err = readLink(int(f.dir.Fd()), name)
			return err
		}
		if err != nil {
			var st unix.Stat_t
			at := unix.Fstatat(int(f.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
			c.dir = at == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
			return err
		}
		c.File = os.NewFile(uintptr(fd), name)
		c.info, err = c.File.Stat()
		return err
	})
	if err != nil && c.File != nil {
		c.File.Close()
		c.File = nil
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		c.Err = err
	}
	return c
}

// readLink returns the target of a symbolic link.
func readLink(dir int, name string) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, b)
	return string(b[:max(n, 0)]), err
}

// swap makes the change that was reported to the keeper.
func (f *File) swap(old Content) error {
	fd, name := int(f.dir.Fd()), filepath.Base(f.path)
	there := old.File != nil || old.Link != "" || old.Err != nil
	flags := uint(unix.RENAME_NOREPLACE)
	from, to := f.tmp, name
	switch {
	case f.file == nil && !there:
		return nil
	case f.file == nil:
		from, to = name, f.tmp
	case there:
		flags = unix.RENAME_EXCHANGE
	}
	err := f.do(func() error {
		err := unix.Renameat2(fd, from, fd, to, flags)
		if errors.Is(err, unix.EINVAL) { // a file system without these flags, such as NFS
			err = unix.Renameat(fd, from, fd, to)
			there = there && f.file == nil
		}
		return err
	})
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		return errOther
	}
	if err != nil || !there {
		return err
	}
	return f.drop(old, flags)
}

// drop removes what was replaced. If that is not what was kept, drop has it kept first.
func (f *File) drop(old Content, flags uint) error {
	now := f.open(f.tmp)
	if now.File != nil {
		defer now.File.Close()
	}
	err := now.special()
	if err == nil && !same(old, now) {
		err = f.keeping.Instead(f.ctx, now)
	}
	fd, name := int(f.dir.Fd()), filepath.Base(f.path)
	if err == nil {
		_ = f.do(func() error { return unix.Unlinkat(fd, f.tmp, 0) })
		return nil
	}
	back := f.do(func() error { return unix.Renameat2(fd, f.tmp, fd, name, flags) })
	if back != nil {
		back = fmt.Errorf("what was there is now %s: %w", filepath.Join(filepath.Dir(f.path), f.tmp), back)
		f.tmp = "" // so that nobody removes it
	}
	return errors.Join(err, back)
}

// special returns the error for something that cannot be replaced like a file: a directory, a socket, a device.
func (c Content) special() error {
	if c.File == nil && !c.dir {
		return nil // it cannot be read
	}
	if c.dir || !c.info.Mode().IsRegular() && c.info.Mode().Type() != fs.ModeNamedPipe {
		return errors.New("not a regular file")
	}
	return nil
}

// same reports whether two contents belong to one file that nobody has written to since the first was opened.
func same(a, b Content) bool {
	if a.File == nil || b.File == nil {
		return a.File == b.File && a.Link == b.Link
	}
	x, y := a.info, b.info
	return os.SameFile(x, y) && x.Size() == y.Size() && x.ModTime().Equal(y.ModTime())
}
