package later

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/ctime"
)

// watcher reports what happens in directories and to files. The kernel queues an event
// during the act itself. So when a call has ended, all its events are in the queue, and one
// read tells that nothing happened. A path that cannot be watched is remembered by its
// change time; each of those costs a look.
type watcher struct {
	fd      int           // of inotify; -1 where the kernel gives none
	budget  *atomic.Int64 // watches that all watchers may still make
	made    int64         // watches that this one has taken from the budget
	stamps  *ctime.Set    // paths that are not watched; nil: all are watched
	tooMany bool          // there are more such paths than maxStamps lets remember
	buf     []byte
}

// unwatched is the watch of what is remembered by its change time.
const unwatched = -1

const (
	// dirEvents say which names of a directory may have changed. A name that is gone was
	// covered by a mount in every sandbox, or says so by fileEvents.
	dirEvents = unix.IN_CREATE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_EXCL_UNLINK
	// fileEvents say that a file has another content, other names, or none.
	fileEvents = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

func newWatcher(budget *atomic.Int64) *watcher {
	w := &watcher{fd: -1, budget: budget}
	if budget.Load() > 0 {
		if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
			w.fd = fd
		}
	}
	return w
}

// close gives all watches back.
func (w *watcher) close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
	}
	w.fd, w.stamps, w.tooMany = -1, nil, false
	w.budget.Add(w.made)
	w.made = 0
}

// dir watches an open directory. It uses the descriptor, because a program may have put
// another directory at the path.
func (w *watcher) dir(fd int, path string, self bool) int32 {
	mask := uint32(dirEvents)
	if self {
		mask |= unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	}
	return w.add("/proc/self/fd/"+strconv.Itoa(fd), path, mask|unix.IN_ONLYDIR)
}

// file watches a file, or a directory but not what is in it. It follows no link.
func (w *watcher) file(path string) int32 {
	return w.add(path, path, fileEvents|unix.IN_DONT_FOLLOW|unix.IN_MASK_ADD)
}

func (w *watcher) add(at, path string, mask uint32) int32 {
	if w.fd >= 0 && w.budget.Add(-1) >= 0 {
		if wd, err := unix.InotifyAddWatch(w.fd, at, mask); err == nil {
			w.made++
			return int32(wd)
		}
	}
	if w.fd >= 0 {
		w.budget.Add(1)
	}
	w.stamp(path)
	return unwatched
}

// stamp remembers a path by its change time. It need not exist.
func (w *watcher) stamp(path string) {
	if w.stamps == nil {
		w.stamps = &ctime.Set{}
	}
	if w.tooMany = w.tooMany || w.stamps.Size() > maxStamps; !w.tooMany {
		w.stamps.Add(path)
	}
}

// maxStamps bounds the memory of one watcher, in bytes. Above it everything is looked at
// again each time.
const maxStamps = 64 << 20

// forget removes a watch.
func (w *watcher) forget(wd int32) {
	if wd != unwatched {
		_, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) // the directory may be gone, and the watch with it
		w.gone()
	}
}

// gone says that a watch has ended.
func (w *watcher) gone() {
	w.made--
	w.budget.Add(1)
}

// event is one thing that happened.
type event struct {
	watch int32
	mask  uint32
	name  string // in a directory
}

// events passes on what has happened since the last call. It reports false if that is
// not known. Then everything must be looked at again.
func (w *watcher) events(each func(event)) bool {
	if w.tooMany || w.stamps != nil && !w.stamps.Unchanged() {
		return false
	}
	if w.fd < 0 {
		return true
	}
	if w.buf == nil {
		w.buf = make([]byte, 16<<10)
	}
	for {
		n, err := unix.Read(w.fd, w.buf)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			return true
		}
		if err != nil || n <= 0 {
			return false
		}
		for b := w.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			ev := event{watch: int32(binary.NativeEndian.Uint32(b)), mask: binary.NativeEndian.Uint32(b[4:])}
			if ev.mask&(unix.IN_Q_OVERFLOW|unix.IN_UNMOUNT) != 0 {
				return false
			}
			name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:size], []byte{0})
			ev.name = string(name)
			each(ev)
			b = b[size:]
		}
	}
}

// watchBudget returns how many watches all watchers may make: half of what the kernel gives this user. An editor of
// the user needs some too.
func watchBudget() int64 {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil {
		return 0
	}
	var most int64
	if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &most); err != nil {
		return 0
	}
	return most / 2
}
