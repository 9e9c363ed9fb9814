package transcript

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	fileName = "transcript.json"
	// newDir has files that are being written. It is no session: no id begins with a dot.
	newDir = ".new"
)

// Dir is the directory of all transcripts. It is safe for concurrent use.
type Dir struct {
	path  string
	root  *os.File // path, whatever that name is given to later
	fresh *os.File // newDir
	locks

	testOnlySync func(*os.File) error // instead of its Sync
}

// locks are those of sessions that are being saved. The zero value is ready.
type locks struct {
	mu  sync.Mutex // guards all
	all map[string]*lock
}

// Open opens or makes the directory, which belongs to one process, and removes what a process
// left that was killed while it saved.
func Open(path string) (*Dir, error) {
	fresh := filepath.Join(path, newDir)
	if err := os.RemoveAll(fresh); err != nil {
		return nil, err
	}
	d := &Dir{path: path}
	for _, dir := range []struct {
		path string
		to   **os.File
	}{{path, &d.root}, {fresh, &d.fresh}} {
		if err := os.MkdirAll(dir.path, 0o700); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(dir.path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		*dir.to = f
		if err := f.Chmod(0o700); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// Close closes the directory.
func (d *Dir) Close() (err error) {
	for _, f := range []*os.File{d.root, d.fresh} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// lock is held by one who saves, and counts those who wait.
type lock struct {
	sync.Mutex
	wanted int // guarded by locks.mu
}

// Lock waits until nobody else saves this session, and returns how to let the next one do so.
func (d *locks) Lock(id string) (unlock func()) {
	d.mu.Lock()
	l := d.all[id]
	if l == nil {
		if d.all == nil {
			d.all = map[string]*lock{}
		}
		l = &lock{}
		d.all[id] = l
	}
	l.wanted++
	d.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		d.mu.Lock()
		defer d.mu.Unlock()
		if l.wanted--; l.wanted == 0 {
			delete(d.all, id)
		}
	}
}

// Remove removes the directory of a session with all that is in it, if there is one.
func (d *Dir) Remove(id string) error { return os.RemoveAll(filepath.Join(d.path, id)) }

// IDs returns the sessions that have a directory.
func (d *Dir) IDs() ([]string, error) {
	found, err := os.ReadDir(d.path)
	var ids []string
	for _, e := range found {
		if e.Name() != newDir {
			ids = append(ids, e.Name())
		}
	}
	return ids, err
}

// Forget removes nothing: see Remove.
func (d *Dir) Forget(*sql.Tx, string) error { return nil }

// Sizes returns how many bytes the transcripts have, by session.
func (d *Dir) Sizes(context.Context) (map[string]int64, error) {
	ids, err := d.IDs()
	sizes := make(map[string]int64, len(ids))
	for _, id := range ids {
		if info, err := os.Lstat(filepath.Join(d.path, id, fileName)); err == nil {
			sizes[id] = info.Size()
		}
	}
	return sizes, err
}

// Use returns how many transcripts are in a directory, and their bytes. It opens and makes nothing.
func Use(path string) (files int, bytes int64) {
	found, _ := filepath.Glob(filepath.Join(path, "*", fileName))
	for _, name := range found {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			files, bytes = files+1, bytes+info.Size()
		}
	}
	return files, bytes
}

// inside opens a path below the directory. It follows no link and waits for no pipe.
func (d *Dir) inside(path string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(int(d.root.Fd()), path, &unix.OpenHow{
		Flags:   flags | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(d.path, path), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, path)), nil
}

// New is a transcript that is written and has no session yet.
type New interface {
	// Place gives it to a session, in place of what that had, in the transaction that changes the row of
	// the session; Placed follows when that has committed. Then it is there after a loss of power, too.
	Place(tx *sql.Tx, id string) error
	Placed(id string) error
	// Drop removes it, unless it has its place.
	Drop() error
}

// newFile is one on the disk.
type newFile struct {
	d    *Dir
	name string // in newDir; "" when it has its place
}

// create makes an empty file.
func (d *Dir) create() (*newFile, *os.File, error) {
	n := &newFile{d, rand.Text()}
	fd, err := unix.Openat(int(d.fresh.Fd()), n.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, nil, noRoom(&fs.PathError{Op: "create", Path: filepath.Join(d.path, newDir, n.name), Err: err})
	}
	f := os.NewFile(uintptr(fd), filepath.Join(d.path, newDir, n.name))
	if err := f.Chmod(0o600); err != nil {
		return nil, nil, errors.Join(err, f.Close(), n.Drop())
	}
	return n, f, nil
}

// Place does nothing: no transaction has files.
func (n *newFile) Place(*sql.Tx, string) error { return nil }

// Placed gives the file its place.
func (n *newFile) Placed(id string) error {
	dir, err := n.d.sessionDir(id)
	if err != nil {
		return noRoom(err)
	}
	defer dir.Close()
	if err := unix.Renameat(int(n.d.fresh.Fd()), n.name, int(dir.Fd()), fileName); err != nil {
		return noRoom(&fs.PathError{Op: "save", Path: filepath.Join(dir.Name(), fileName), Err: err})
	}
	n.name = ""
	return n.d.sync(dir)
}

// sync returns when the file, or the names in the directory, survive a loss of power.
func (d *Dir) sync(f *os.File) error {
	if d.testOnlySync != nil {
		return d.testOnlySync(f)
	}
	return f.Sync()
}

// Drop removes the file, unless it has its place.
func (n *newFile) Drop() error {
	if n.name == "" {
		return nil
	}
	return unix.Unlinkat(int(n.d.fresh.Fd()), n.name, 0)
}

// sessionDir opens the directory of a session, which it makes if there is none.
func (d *Dir) sessionDir(id string) (*os.File, error) {
	made := unix.Mkdirat(int(d.root.Fd()), id, 0o700)
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return nil, &fs.PathError{Op: "mkdir", Path: filepath.Join(d.path, id), Err: made}
	}
	dir, err := d.inside(id, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	if made == nil {
		if err := errors.Join(dir.Chmod(0o700), d.sync(d.root)); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	return dir, nil
}

// noRoom says what to do about a full disk.
func noRoom(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return &tool.Error{
		Code: "disk_reserve",
		Msg:  "the transcript is not saved, for the disk of the state directory is full; the one before is as it was",
		Hint: "delete sessions that are not needed (sandboxd sessions delete ID), or have an operator make room there",
	}
}

func corrupt(id, format string, args ...any) error {
	return &tool.Error{
		Code: "transcript_corrupt",
		Msg:  fmt.Sprintf("the transcript of session %q cannot be read: ", id) + fmt.Sprintf(format, args...),
		Hint: "PUT /sessions/ID/messages saves it anew; the file is below sessions in the state directory",
	}
}

// noFile is about what no save replaces: somebody else put it there.
func noFile(id string) error {
	return &tool.Error{
		Code: "transcript_corrupt",
		Msg:  fmt.Sprintf("the transcript of session %q cannot be read: no regular file in its place", id),
		Hint: fmt.Sprintf("no save replaces it; an operator removes sessions/%s/%s in the state directory",
			id, fileName),
	}
}
