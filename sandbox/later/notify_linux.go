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

// ear hears what happens in directories and to files. The kernel queues what it hears
// while the act is done, so that after a call everything that it did is in the queue, and
// hearing that nothing happened is one read. What cannot be watched is remembered by its
// change time, which costs a look at each.
type ear struct {
	fd     int           // of inotify; -1 where the kernel gives none
	budget *atomic.Int64 // watches that all ears may still make
	made   int64         // watches that this one has taken from the budget
	stamps *ctime.Set    // what is not watched; nil: everything is
	deaf   bool          // there is too much that is not watched
	buf    []byte
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

func newEar(budget *atomic.Int64) *ear {
	e := &ear{fd: -1, budget: budget}
	if budget.Load() > 0 {
		if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
			e.fd = fd
		}
	}
	return e
}

// close gives all watches back.
func (e *ear) close() {
	if e.fd >= 0 {
		_ = unix.Close(e.fd)
	}
	e.fd, e.stamps, e.deaf = -1, nil, false
	e.budget.Add(e.made)
	e.made = 0
}

// dir watches an open directory. Through the descriptor, for a program may have put
// another one in its place.
func (e *ear) dir(fd int, path string, self bool) int32 {
	mask := uint32(dirEvents)
	if self {
		mask |= unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	}
	return e.add("/proc/self/fd/"+strconv.Itoa(fd), path, mask|unix.IN_ONLYDIR)
}

// file watches a file, or a directory of which only the outside counts. It follows no link.
func (e *ear) file(path string) int32 {
	return e.add(path, path, fileEvents|unix.IN_DONT_FOLLOW|unix.IN_MASK_ADD)
}

func (e *ear) add(at, path string, mask uint32) int32 {
	if e.fd >= 0 && e.budget.Add(-1) >= 0 {
		if wd, err := unix.InotifyAddWatch(e.fd, at, mask); err == nil {
			e.made++
			return int32(wd)
		}
	}
	if e.fd >= 0 {
		e.budget.Add(1)
	}
	e.stamp(path)
	return unwatched
}

// stamp remembers a path by its change time. It need not exist.
func (e *ear) stamp(path string) {
	if e.stamps == nil {
		e.stamps = &ctime.Set{}
	}
	if e.deaf = e.deaf || e.stamps.Size() > maxStamps; !e.deaf {
		e.stamps.Add(path)
	}
}

// maxStamps bounds the memory of one ear, in bytes. Above it everything is looked at again
// each time.
const maxStamps = 64 << 20

// forget removes a watch.
func (e *ear) forget(wd int32) {
	if wd != unwatched {
		_, _ = unix.InotifyRmWatch(e.fd, uint32(wd)) // the directory may be gone, and the watch with it
		e.gone()
	}
}

// gone says that a watch has ended.
func (e *ear) gone() {
	e.made--
	e.budget.Add(1)
}

// event is one thing that was heard.
type event struct {
	watch int32
	mask  uint32
	name  string // in a directory
}

// hear passes on what has happened since it was called last. It reports false if that is
// not known, and everything must be looked at again.
func (e *ear) hear(each func(event)) bool {
	if e.deaf || e.stamps != nil && !e.stamps.Unchanged() {
		return false
	}
	if e.fd < 0 {
		return true
	}
	if e.buf == nil {
		e.buf = make([]byte, 16<<10)
	}
	for {
		n, err := unix.Read(e.fd, e.buf)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			return true
		}
		if err != nil || n <= 0 {
			return false
		}
		for b := e.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
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

// watchBudget is how many watches all ears may make: half of what the kernel gives this
// user, who has an editor that needs some too.
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
