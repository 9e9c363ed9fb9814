package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/ctime"
)

// found are the paths of a tree, or those that may have changed.
type found struct {
	paths map[string]seen // the zero value is nothing
	again map[string]bool // files to read again, even if the inode has not changed
}

// largeFor is how long a tree with too many files is not looked at again.
const largeFor = 10 * time.Minute

// maxOpen bounds a file that is read at each look because a process has it open. A larger file is read if its change
// time has moved.
const maxOpen = 16 << 20

// find lists the paths that may have changed. If it does not know which, it lists all.
func (s *snapshot) find(g glance, c Config, out *looked) (f found, err error) {
	f = found{paths: map[string]seen{}, again: map[string]bool{}}
	if time.Since(s.large) < largeFor {
		return f, s.tooLarge()
	}
	watches := g.user.Rights() + "\n" + strings.Join(c.Exclude, "\n")
	if s.watch != nil && s.watches == watches && g.may != nil {
		n, err := s.watch.read()
		if err == nil && !n.all {
			n.doubt = n.doubt || len(c.Exclude) > 0 // excluded files have no watch
			return f, g.user.Do(func() error { return s.findNews(g, n, f, out) })
		}
	}
	s.unwatch()
	s.skips = false
	s.closed, s.links, s.open = map[string]bool{}, map[string]bool{}, map[string]bool{}
	may := c.Mode == "auto" && g.may != nil && time.Since(s.unwatched) > largeFor && ctime.Local(s.root)
	err = g.user.Do(func() (err error) {
		top, err := lstat(s.root)
		if err != nil {
			return err
		}
		if top.Type != isDir {
			if s.noteLinks(s.root, top); top.Type == isFile {
				f.paths[s.root] = top
			}
			return nil
		}
		if s.mounts == nil {
			s.mounts, s.learns = map[string]uint64{}, true
			defer func() {
				if s.learns = false; err != nil {
					s.mounts = nil
				}
			}()
		}
		if out.doubt = true; may {
			s.watches = watches
			if s.watch, err = newWatch(s.root); err != nil {
				s.unwatched = time.Now() // everything is looked at then
			}
		}
		return s.walk(s.root, f, out)
	})
	for path := range s.known {
		if _, there := f.paths[path]; !there {
			f.paths[path] = seen{}
		}
	}
	return f, err
}

// unwatch ends the watch. The next look is at everything.
func (s *snapshot) unwatch() {
	if s.watch != nil {
		s.watch.close()
	}
	s.watch = nil
}

// findNews looks at the paths that have changed, and at those for which the kernel sends no events.
func (s *snapshot) findNews(g glance, n news, f found, out *looked) error {
	trees := map[string]bool{} // directories that are new, gone or changed
	linked := false
	for path, had := range n.paths {
		is, err := lstat(path)
		if err != nil {
			continue // its directory was closed, which the events report too
		}
		was, known := s.known[path]
		n.doubt = n.doubt || had && !known && is.Type == nothing
		linked = linked || is.linked && !s.links[path]
		if is.Type == isDir || was.Type == isDir {
			trees[path] = true
		}
	}
	for path, closed := range s.closed {
		if n.doubt = n.doubt || closed; closed { // a name in it may be another name of a file elsewhere
			trees[path] = true
		} else {
			out.closed = append(out.closed, path)
		}
	}
	for path := range n.paths {
		if !below(path, trees) {
			f.again[path] = true
			s.findOne(path, f)
		}
	}
	if len(trees) > 0 {
		if err := s.findTrees(trees, f, out); err != nil {
			return err
		}
	}
	out.doubt = n.doubt || linked
	ask := s.links
	if out.doubt || g.all {
		ask = nil
		for path, was := range s.known {
			if was.Type != isDir {
				s.findOne(path, f)
			}
		}
	}
	for path := range ask {
		s.findOne(path, f)
	}
	for path, open := range s.open {
		s.findOne(path, f)
		f.again[path] = f.again[path] || open && f.paths[path].Size <= maxOpen
	}
	return nil
}

// findOne looks at a path that is no directory.
func (s *snapshot) findOne(path string, f found) {
	if _, done := f.paths[path]; done {
		return
	}
	is, err := lstat(path)
	if err != nil || s.excluded(path, false) {
		return
	}
	f.paths[path] = is
	s.noteLinks(path, is)
}

func (s *snapshot) noteLinks(path string, is seen) {
	if is.linked {
		s.links[path] = true
	} else {
		delete(s.links, path)
	}
}

// findTrees looks at directories and watches them again.
func (s *snapshot) findTrees(trees map[string]bool, f found, out *looked) error {
	s.watch.drop(trees)
	maps.DeleteFunc(s.closed, func(path string, _ bool) bool { return below(path, trees) })
	for path := range trees {
		if below(filepath.Dir(path), trees) {
			continue
		}
		if err := s.walk(path, f, out); err != nil {
			return err
		}
	}
	for path := range s.known {
		if _, there := f.paths[path]; !there && below(path, trees) {
			f.paths[path] = seen{}
		}
	}
	return nil
}

// lstat returns what lies at a path. An error says that it cannot be seen.
func lstat(path string) (is seen, err error) {
	var st unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	const wanted = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE // unique since Linux 6.8
	switch err := unix.Statx(unix.AT_FDCWD, path, flags, wanted, &st); {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return seen{}, nil
	case err != nil:
		return seen{}, err
	}
	is = seen{
		inode: st.Ino, changed: st.Ctime.Sec*1e9 + int64(st.Ctime.Nsec), device: unix.Mkdev(st.Dev_major, st.Dev_minor),
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		is.mount = st.Mnt_id
	}
	switch mode := uint32(st.Mode); mode & unix.S_IFMT {
	case unix.S_IFREG:
		is.Type, is.Size, is.linked = isFile, int64(st.Size), st.Nlink > 1
	case unix.S_IFDIR:
		is.Type, is.Mode = isDir, mode&dirMode
	case unix.S_IFLNK:
		is.Type = isLink
	case unix.S_IFIFO:
		is.Type, is.Mode = isPipe, mode&0o777
	default:
		return seen{}, nil // a socket is of no use without the program that listens
	}
	return is, nil
}

// walk lists a directory of the tree, or the whole tree, without contents. It watches each directory before it lists
// it.
func (s *snapshot) walk(from string, f found, out *looked) error {
	top, err := lstat(s.root)
	if err != nil {
		return err
	}
	close := func(path string, unreadable bool) { // nobody knows what lies below it
		s.closed[path] = unreadable
		out.closed = append(out.closed, path)
		for known, is := range s.known {
			_, there := f.paths[known]
			if strings.HasPrefix(known, path+"/") || known == path && !there {
				f.paths[known] = is
			}
		}
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			close(path, true)
			return fs.SkipDir
		}
		if path == s.root { // it has a watch already
			f.paths[path] = top
			s.reopen(path, top)
			return nil
		}
		if s.excluded(path, d.IsDir()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		is, err := lstat(path)
		if err != nil {
			close(filepath.Dir(path), true)
			return fs.SkipDir
		}
		if is.Type == nothing {
			return nil
		}
		if len(f.paths) == maxTree {
			return s.tooLarge()
		}
		if is.Type == isDir && is.device != top.device {
			close(path, false)
			return fs.SkipDir
		}
		if !s.isMountAsBefore(path, is) {
			if close(path, false); d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		f.paths[path] = is
		s.noteLinks(path, is)
		if is.Type == isDir {
			s.reopen(path, is)
			s.addWatch(path)
		}
		return nil
	})
}

// isMountAsBefore reports whether the mount at a path, if there is one, was there at the first look. A sandbox that
// is older than a mount does not see it, and one that is older than the end of a mount still does. So nobody knows
// what a command changes there.
func (s *snapshot) isMountAsBefore(path string, is seen) bool {
	if s.learns && is.mount != 0 {
		s.mounts[path] = is.mount
	}
	return s.mounts == nil || s.mounts[path] == is.mount
}

// looks are the rights that the owner of a directory needs to look into it.
const looks = 0o500

// reopen lets its owner look into a directory that a command has closed, until the look has ended. Without that
// nobody would know what the command had deleted there.
func (s *snapshot) reopen(path string, is seen) {
	if was := s.known[path]; !s.reopens || is.Mode&looks == looks || was.Type != isDir || was.Mode&looks != looks {
		return
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Ino != is.inode || st.Dev != is.device || st.Mode&dirMode != is.Mode {
		dir.Close()
		return // a process has put another one there
	}
	chmod := func(mode uint32) error { return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), mode) }
	if chmod(is.Mode|looks) != nil {
		dir.Close()
		return // another user owns it
	}
	s.reopened = append(s.reopened, func() error { return errors.Join(chmod(is.Mode), dir.Close()) })
}

// closeAgain closes what reopen has opened, the innermost first.
func (s *snapshot) closeAgain(u sandbox.User) error {
	all := s.reopened
	s.reopened = nil
	return u.Do(func() (err error) {
		for _, again := range slices.Backward(all) {
			err = errors.Join(err, again())
		}
		return err
	})
}

// addWatch watches a directory. If that fails, each look is at everything.
func (s *snapshot) addWatch(path string) {
	if s.watch == nil {
		return
	}
	err := s.watch.add(path)
	if err == nil || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return // it cannot be listed either
	}
	s.unwatch()
	s.unwatched = time.Now()
}

// tooLarge notes that the tree has too many files, and returns the error of a look at it.
func (s *snapshot) tooLarge() error {
	if time.Since(s.large) >= largeFor {
		s.large = time.Now()
	}
	return fmt.Errorf("%s has %w than %d", s.root, errTooLarge, maxTree)
}

// excluded reports whether the configuration excludes a path from the journal.
func (s *snapshot) excluded(path string, isDir bool) bool {
	out := false
	if isDir {
		out = s.exclude.IgnoredDir(s.root, path)
	} else {
		out = s.exclude.Ignored(s.root, path)
	}
	s.skips = s.skips || out
	return out
}

// errTooLarge is in the error of each look at a tree that has too many files to compare.
var errTooLarge = errors.New("more files")

// count returns how many paths the tree has after a look.
func (s *snapshot) count(f found) int {
	n := len(s.known)
	for path, is := range f.paths {
		_, known := s.known[path]
		switch {
		case known && is.Type == nothing:
			n--
		case !known && is.Type != nothing:
			n++
		}
	}
	return n
}

// findKnown looks only at the paths that the tree had before. So a command cannot hide that it deleted everything by
// making many files.
func (s *snapshot) findKnown(u sandbox.User, out *looked) (f found, err error) {
	f = found{paths: map[string]seen{}, again: map[string]bool{}}
	closed := map[string]bool{}
	err = u.Do(func() error {
		for _, path := range slices.Sorted(maps.Keys(s.known)) { // a directory before what is in it
			dir := filepath.Dir(path)
			if is, known := f.paths[dir]; known && is.Type != isDir {
				f.paths[path] = seen{} // a link there may lead to another file
				continue
			}
			is, err := lstat(path)
			if err != nil {
				closed[dir] = true
				continue
			}
			if f.paths[path] = is; is.Type == isDir {
				s.reopen(path, is)
			}
		}
		return nil
	})
	out.closed = append(out.closed, slices.Sorted(maps.Keys(closed))...)
	return f, err
}
