package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"golang.org/x/sys/unix"
)

// WriteFile writes data to use.Path in one step, as [Create] does.
func WriteFile(ctx context.Context, b Box, use guard.PathUse, data []byte, perm os.FileMode) error {
	f, err := Create(ctx, b, use, perm)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Discard()
		return err
	}
	if err := ctx.Err(); err != nil {
		f.Discard()
		return err
	}
	return f.Commit()
}

// File is new content for a path. A reader of the path sees the old content until Commit,
// and the new one from then on. A replaced file keeps its mode and, if possible, its
// owner; a new one belongs to the user of the box. End it with Commit or Discard.
type File struct {
	ctx       context.Context
	path, tmp string
	dir, file *os.File
	perm      os.FileMode
	with      *Attributes
	uid, gid  int                      // those of the replaced file, or -1
	has       map[string][]byte        // its attributes
	do        func(func() error) error // runs with the rights that the box takes for the path
	keeping   Keeping                  // nil if nobody keeps what is replaced
	failed    atomic.Pointer[error]
}

// Attributes are the properties of a file beside its content.
type Attributes struct {
	Mode     os.FileMode       // its permissions
	Modified time.Time         // zero: now
	Extended map[string][]byte // see [Extended]
}

// Create begins a new content for use.Path. A file that is new gets perm. Only regular
// files are replaced. The content is not forced to disk.
func Create(ctx context.Context, b Box, use guard.PathUse, perm os.FileMode) (*File, error) {
	f, err := begin(ctx, b, use, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	f.perm = perm
	if err := f.do(f.create); err != nil {
		f.done(false)
		f.dir.Close()
		return nil, err
	}
	return f, nil
}

// Remove removes the regular file, the symbolic link or the named pipe at use.Path, or the directory if
// it is empty.
func Remove(ctx context.Context, b Box, use guard.PathUse) error {
	f, err := begin(ctx, b, use, unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.dir.Close()
	err = f.remove()
	f.done(err == nil)
	return err
}

// MakeDir makes a directory with these attributes. It is an error if something lies there.
func MakeDir(ctx context.Context, b Box, use guard.PathUse, with Attributes) error {
	return makeNode(ctx, b, use, with, unix.AT_REMOVEDIR, func(dir int, name string) error {
		return unix.Mkdirat(dir, name, 0o700)
	})
}

// MakePipe makes a named pipe with these attributes. It is an error if something lies there.
func MakePipe(ctx context.Context, b Box, use guard.PathUse, with Attributes) error {
	return makeNode(ctx, b, use, with, 0, func(dir int, name string) error {
		return unix.Mknodat(dir, name, unix.S_IFIFO|0o600, 0)
	})
}

// makeNode makes something without content, by node. After an error it removes what is left of it, as flags say.
func makeNode(
	ctx context.Context, b Box, use guard.PathUse, with Attributes, flags int, node func(dir int, name string) error,
) error {
	f, err := begin(ctx, b, use, os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.dir.Close()
	fd, name := int(f.dir.Fd()), filepath.Base(f.path)
	err = f.do(func() error { return node(fd, f.tmp) })
	if err == nil {
		err = f.finishNode(&with)
	}
	if err == nil {
		err = f.do(func() error { return unix.Renameat2(fd, f.tmp, fd, name, unix.RENAME_NOREPLACE) })
	}
	f.done(err == nil)
	if err != nil {
		_ = f.do(func() error { return unix.Unlinkat(fd, f.tmp, flags) })
		return fmt.Errorf("make %s: %w", f.path, err)
	}
	return nil
}

// finishNode gives a new node its attributes, before it gets its name.
func (f *File) finishNode(with *Attributes) error {
	made := f.open(f.tmp)
	if errors.Is(made.Err, unix.EACCES) { // by the access list that its directory gives to new files
		if err := f.do(func() error { return unlock(int(f.dir.Fd()), f.tmp) }); err != nil {
			return err
		}
		made = f.open(f.tmp)
	}
	if made.File == nil {
		return made.Err
	}
	defer made.File.Close()
	f.file, f.with = made.File, with
	if err := f.do(f.dress); err != nil || f.keeping == nil {
		return err
	}
	return f.keeping.Take(f.ctx, Content{}, made)
}

// unlock gives the owner all rights to what lies there. It follows no link.
func unlock(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}

// MakeLink makes a symbolic link, and follows none. It is an error if something lies there.
func MakeLink(ctx context.Context, b Box, use guard.PathUse, target string) error {
	f, err := begin(ctx, b, use, os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.dir.Close()
	fd, name := int(f.dir.Fd()), filepath.Base(f.path)
	if err = f.do(func() error { return unix.Symlinkat(target, fd, f.tmp) }); err == nil && f.keeping != nil {
		err = f.keeping.Take(f.ctx, Content{}, Content{Link: target})
	}
	if err == nil {
		err = f.do(func() error { return unix.Renameat2(fd, f.tmp, fd, name, unix.RENAME_NOREPLACE) })
	}
	f.done(err == nil)
	if err != nil {
		_ = f.do(func() error { return unix.Unlinkat(fd, f.tmp, 0) })
		return fmt.Errorf("make %s: %w", f.path, err)
	}
	return nil
}

// TempName returns a name for a file that soon takes the place of another one. Nobody can guess it.
func TempName() string { return ".sandboxd-" + rand.Text() }

// begin opens the directory of a path that is about to change.
func begin(ctx context.Context, b Box, use guard.PathUse, flag int) (*File, error) {
	use.Op = guard.Write
	f := &File{ctx: ctx, path: use.Path, tmp: TempName(), uid: -1, gid: -1}
	f.do = func(act func() error) error { return b.Do(use, act) }
	if err := f.begin(ctx); err != nil {
		return nil, err
	}
	var err error
	if f.dir, err = b.Open(ctx, use, flag); err != nil {
		f.done(false)
		return nil, err
	}
	if f.keeping != nil && f.elsewhere() {
		f.done(false)
	}
	return f, nil
}

func (f *File) create() error {
	fd := int(f.dir.Fd())
	var st unix.Stat_t
	switch err := unix.Fstatat(fd, filepath.Base(f.path), &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("write %s: not a regular file", f.path)
	case err == nil:
		// Set-user-id bits are dropped: the content is new.
		f.perm = os.FileMode(st.Mode & 0o777)
		f.uid, f.gid = int(st.Uid), int(st.Gid)
		var err error
		if f.has, err = attributesAt(fd, filepath.Base(f.path)); err != nil {
			return fmt.Errorf("look at %s: %w", f.path, err)
		}
	case !errors.Is(err, unix.ENOENT):
		return fmt.Errorf("look at %s: %w", f.path, err)
	}
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	out, err := unix.Openat(fd, f.tmp, flags, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	f.file = os.NewFile(uintptr(out), f.tmp)
	return nil
}

// attributesAt returns the attributes of a regular file. If the writer cannot read the file, it returns none.
func attributesAt(dir int, name string) (map[string][]byte, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return Extended(fd)
}

// Path returns where the content goes.
func (f *File) Path() string { return f.path }

// Give sets the properties of the file beside its content. Without it they are those of the old file.
func (f *File) Give(a Attributes) { f.with = &a }

// Write adds to the content. It is safe for concurrent use.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	if err != nil {
		err = fmt.Errorf("write %s: %w", f.path, err)
		f.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Commit puts the content in its place. If a Write failed, the path is left as it was.
func (f *File) Commit() error {
	if failed := f.failed.Load(); failed != nil {
		f.Discard()
		return *failed
	}
	err := f.do(f.dress)
	switch {
	case err != nil:
	case f.keeping != nil:
		err = f.replace()
	default:
		err = f.do(f.place)
	}
	if err != nil {
		f.Discard()
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	f.done(true)
	if err := errors.Join(f.file.Close(), f.dir.Close()); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// dress gives the new file its owner, its mode and the rest. An error of the disk shows here,
// before anything is replaced.
func (f *File) dress() error {
	if f.uid >= 0 {
		// Only root can change the owner, and an owner the group. Otherwise a file of
		// another owner is better than none.
		_ = f.file.Chown(f.uid, f.gid)
	}
	fd, err := unix.FcntlInt(f.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(fd) // the last close reports what was not written
	}
	if err != nil {
		return err
	}
	if f.with == nil && f.uid < 0 { // a new file has what its directory gives it
		return f.file.Chmod(f.perm.Perm())
	}
	with := Attributes{Mode: f.perm, Extended: f.has}
	if f.with != nil {
		with = *f.with
	}
	now, err := Extended(int(f.file.Fd()))
	if err == nil && len(now) > 0 { // the directory gave it an access list, which may deny its owner to write
		err = f.file.Chmod(0o700)
	}
	if err == nil {
		err = SetExtended(fmt.Sprintf("/proc/self/fd/%d", f.file.Fd()), now, with.Extended)
	}
	if err != nil {
		return err
	}
	if err := f.file.Chmod(with.Mode.Perm()); err != nil {
		return err
	}
	if with.Modified.IsZero() {
		return nil
	}
	return f.touch(with.Modified)
}

// touch sets the time of the last change.
func (f *File) touch(at time.Time) error {
	times := []unix.Timespec{unix.NsecToTimespec(at.UnixNano()), unix.NsecToTimespec(at.UnixNano())}
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.file.Fd()), times, 0)
}

func (f *File) place() error {
	fd := int(f.dir.Fd())
	return unix.Renameat(fd, f.tmp, fd, filepath.Base(f.path))
}

// remove removes the file. If the call has a Keeper, that keeps it.
func (f *File) remove() error {
	old, flags := f.look(), 0
	if old.File != nil {
		defer old.File.Close()
	}
	if old.special() != nil {
		flags = unix.AT_REMOVEDIR
	}
	if f.keeping != nil {
		if flags == 0 {
			return f.replace()
		}
		if err := f.keeping.Take(f.ctx, old, Content{}); err != nil {
			return err
		}
	}
	return f.do(func() error { return unix.Unlinkat(int(f.dir.Fd()), filepath.Base(f.path), flags) })
}

// Discard leaves the path as it was.
func (f *File) Discard() {
	f.file.Close()
	_ = f.do(func() error { return unix.Unlinkat(int(f.dir.Fd()), f.tmp, 0) })
	f.done(false)
	f.dir.Close()
}
