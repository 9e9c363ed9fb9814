package undo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// watch knows which names in a tree may have changed. The kernel queues an event before the system
// call that makes a change returns. The last event of a file comes when no process has it open for
// writing, or mapped, any more. So when all processes of a command have ended, the queue is complete.
// It is read when somebody looks; nothing runs in between.
type watch struct {
	fd, mounts int              // mounts becomes readable when something is mounted
	paths      map[int32]string // by the number of the watch of a directory
	ids        map[string]int32
	root       int32
	path       string
	inode      [2]uint64 // of the root
	unused     runtime.Cleanup
}

const (
	written = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB
	watched = written | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
)

// newWatch watches a directory. The caller adds those below it.
func newWatch(root string) (*watch, error) {
	w := &watch{mounts: -1, paths: map[int32]string{}, ids: map[string]int32{}, path: root}
	var err error
	if w.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return nil, err
	}
	w.mounts, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	w.unused = runtime.AddCleanup(w, closeBoth, [2]int{w.fd, w.mounts}) // a tree may be forgotten without close
	if err == nil {
		w.inode, err = inodeOf(root)
	}
	if err == nil {
		w.root, err = w.put(root, unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *watch) close() {
	w.unused.Stop()
	closeBoth([2]int{w.fd, w.mounts})
}

func closeBoth(fds [2]int) {
	unix.Close(fds[0])
	if fds[1] >= 0 {
		unix.Close(fds[1])
	}
}

func inodeOf(path string) ([2]uint64, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return [2]uint64{st.Dev, st.Ino}, err
}

// add watches one more directory. The caller lists it after that.
func (w *watch) add(path string) error {
	_, err := w.put(path, 0)
	return err
}

func (w *watch) put(path string, more uint32) (int32, error) {
	n, err := unix.InotifyAddWatch(w.fd, path, watched|more|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	if err != nil {
		return 0, fmt.Errorf("watch %s: %w", path, err)
	}
	id := int32(n)
	delete(w.ids, w.paths[id]) // the directory was moved: the kernel watches directories, not paths
	w.paths[id], w.ids[path] = path, id
	return id, nil
}

// drop ends the watches of directories and of everything below them.
func (w *watch) drop(dirs map[string]bool) {
	for path, id := range w.ids {
		if below(path, dirs) {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(id)) // an error: the watch went with its directory
			delete(w.ids, path)
			delete(w.paths, id)
		}
	}
}

// below reports whether a path is one of dirs or below one.
func below(path string, dirs map[string]bool) bool {
	for ; len(path) > 1; path = filepath.Dir(path) {
		if dirs[path] {
			return true
		}
	}
	return false
}

// news is what has changed since the last look.
type news struct {
	// paths are the paths where something changed. true means that a file was written under the name that it had
	// before; if the file is not known, nobody knows its old content.
	paths map[string]bool
	// doubt says that a file was written that may have another name: a link that is gone, or one in a directory that
	// had no watch yet.
	doubt bool
	all   bool // events were lost, or something was mounted
}

// name is a name in a watched directory, with what happened to it.
type name struct {
	fresh, gone bool // fresh: another file has this name now; gone: none has
	wrote       bool
	// former says that a file that came here, and was written, may live on under another name. A process that has it
	// open still writes it, and the kernel reports this name.
	former bool
}

// read reads all events in the queue.
func (w *watch) read() (n news, err error) {
	n.paths = map[string]bool{}
	poll := []unix.PollFd{{Fd: int32(w.mounts), Events: unix.POLLPRI}}
	if got, err := unix.Poll(poll, 0); err != nil || got > 0 {
		n.all = true
	}
	if now, err := inodeOf(w.path); err != nil || now != w.inode {
		n.all = true // a directory above was moved
	}
	s := story{watch: w, news: &n, names: map[place]*name{}, moved: map[uint32]bool{}}
	buf := make([]byte, 4<<10)
	for {
		got, err := unix.Read(w.fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			s.end()
			return n, nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return n, fmt.Errorf("read what changed: %w", err)
		}
		for b := buf[:max(got, 0)]; len(b) >= unix.SizeofInotifyEvent; {
			id, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			cookie, size := binary.NativeEndian.Uint32(b[8:]), binary.NativeEndian.Uint32(b[12:])
			b = b[unix.SizeofInotifyEvent:]
			text, _, _ := bytes.Cut(b[:size], []byte{0})
			b = b[size:]
			s.event(place{id, string(text)}, mask, cookie)
		}
	}
}

// place is a name in a watched directory. The directory may have moved since.
type place struct {
	dir  int32
	name string
}

// story follows the events in their order.
type story struct {
	*watch
	*news
	names map[place]*name
	moved map[uint32]bool // by cookie: whether what left its name had come there and was written
}

func (s story) event(at place, mask, cookie uint32) {
	if mask&(unix.IN_Q_OVERFLOW|unix.IN_UNMOUNT) != 0 {
		s.all = true
		return
	}
	if at.name == "" { // the event is about a directory itself; its parent gets one too
		s.all = s.all || at.dir == s.root && mask&unix.IN_IGNORED == 0
		return
	}
	dir, known := s.watch.paths[at.dir]
	if !known {
		return // the directory has no watch any more, and was listed again since
	}
	path := filepath.Join(dir, at.name)
	if _, told := s.news.paths[path]; !told {
		s.news.paths[path] = false
	}
	if mask&unix.IN_ISDIR != 0 {
		came := mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0
		s.doubt = s.doubt || came // links in it could be written without an event
		return
	}
	n := s.names[at]
	if n == nil {
		n = &name{}
		s.names[at] = n
	}
	switch {
	case mask&written != 0:
		s.doubt = s.doubt || n.gone || n.former
		n.wrote = true
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		s.leaves(n)
		n.fresh, n.gone = true, false
		if mask&unix.IN_MOVED_TO != 0 {
			n.wrote = n.wrote || s.moved[cookie]
			delete(s.moved, cookie)
		}
	case mask&unix.IN_DELETE != 0:
		s.leaves(n)
		n.fresh, n.gone = false, true
	default: // what has it open goes with it
		s.moved[cookie] = n.fresh && n.wrote
		n.fresh, n.gone, n.wrote = false, true, false
	}
}

// leaves notes that the file that came to a name has left it.
func (s story) leaves(n *name) {
	if n.fresh {
		n.former = true
		s.doubt = s.doubt || n.wrote
	}
}

// end decides what is left open: files that were moved out of the tree, and files that were written under a name
// that they had.
func (s story) end() {
	for _, wrote := range s.moved {
		s.doubt = s.doubt || wrote
	}
	for at, n := range s.names {
		if n.wrote && !n.fresh && !n.gone {
			s.news.paths[filepath.Join(s.watch.paths[at.dir], at.name)] = true
		}
	}
}
