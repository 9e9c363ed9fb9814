package child

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/bound"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// boundFiles are what a person approved for a call. Its programs get these contents by
// those names, whatever others put there.
type boundFiles struct {
	index
	contents []int    // sealed files of memory
	names    []string // one of each, for reports
	listen   wire.Program
	started  bool  // the program of the call was executed, or tried to
	entered  []way // where its directory leads to, until then
}

// newBoundFiles returns the files of a request, and nil if there are none.
func newBoundFiles(b *wire.Bound, contents []int) (*boundFiles, error) {
	if b == nil && len(contents) == 0 {
		return nil, nil
	}
	if b == nil || len(b.Names) != len(contents) {
		return nil, fmt.Errorf("a request has %d contents of bound files, and not as many names", len(contents))
	}
	f := &boundFiles{index: newIndex(b.Names, b.Absent), contents: contents, listen: b.Listen}
	for _, names := range b.Names {
		f.names = append(f.names, strings.Join(names[:min(1, len(names))], ""))
	}
	return f, nil
}

// room returns how much memory of its call the filter needs.
func (b *boundFiles) room() int {
	if b == nil {
		return 0
	}
	return 8 * len(b.listen)
}

func (b *boundFiles) close() {
	if b != nil {
		closeAll(b.contents)
	}
}

// index finds the bound file that a path means. A path that is one of the names is always found,
// whatever the file system answers.
type index struct {
	names map[string]int  // absolute and clean
	bases map[string]bool // last segments of names: a path with another one is none of them
	below map[place]int   // from the directories above a name
}

// place is the rest of a name below a directory. Programs and others may rename
// directories, and a path that begins in one still means the same file.
type place struct {
	dev, ino uint64
	rest     string
}

// absent is what an index finds for a path at which nothing is.
const absent = -1

func newIndex(files [][]string, nothing []string) index {
	x := index{names: map[string]int{}, bases: map[string]bool{}, below: map[place]int{}}
	for _, name := range nothing {
		x.add(name, absent)
	}
	for i, names := range files {
		for _, name := range names {
			x.add(name, i)
		}
	}
	return x
}

func (x index) add(name string, i int) {
	x.names[name], x.bases[path.Base(name)] = i, true
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			rest := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
			x.below[place{st.Dev, st.Ino, rest}] = i
		}
		if dir == "/" {
			return
		}
	}
}

// find returns the file that a path means for a process. dir is the link in /proc to the
// directory in which a relative path begins.
func (x index) find(p, dir string) (i int, ok bool) {
	if !x.bases[path.Base(p)] {
		return 0, false
	}
	at, ok := absolute(p, dir)
	if !ok {
		return 0, false
	}
	if i, ok = x.names[at]; ok {
		return i, true
	}
	parts(p, dir, func(dir, rest string) bool {
		i, ok = x.in(dir, rest)
		return !ok
	})
	return i, ok
}

// absolute reports false if the process is gone.
func absolute(p, dir string) (string, bool) {
	if path.IsAbs(p) {
		return path.Clean(p), true
	}
	where, err := os.Readlink(dir)
	return path.Join(where, p), err == nil
}

// above returns a file that lies below a path: if that is moved, the name of the file leads to
// nothing, or to another file.
func (x index) above(p, dir string) (int, bool) {
	p, ok := absolute(p, dir)
	if !ok {
		return 0, false
	}
	for name, i := range x.names {
		if strings.HasPrefix(name, strings.TrimSuffix(p, "/")+"/") {
			return i, true
		}
	}
	return 0, false
}

// in finds a file by a directory and the rest of its name.
func (x index) in(dir, rest string) (int, bool) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0, false
	}
	i, ok := x.below[place{st.Dev, st.Ino, rest}]
	return i, ok
}

// answerBound answers one question about a call that package bound lists.
func (s *server) answerBound(c *running, n *notif) {
	if c.bound.entered != nil && c.bound.learn(fmt.Sprintf("/proc/%d/cwd", n.pid), c.bound.entered) {
		c.bound.entered = nil
	}
	for _, k := range bound.Calls {
		if k.NR != uint32(n.data.nr) {
			continue
		}
		given, ok := peekPath(n.pid, n.data.args[k.Path])
		if !ok {
			// It may be one of the names. Of memory that nobody can read the kernel would
			// say the same.
			s.refuse(c, n, unix.EFAULT, "")
			return
		}
		at := given
		if rest, ok := strings.CutPrefix(given, "/proc/self/"); ok {
			at = fmt.Sprintf("/proc/%d/%s", n.pid, rest)
		}
		dir := fmt.Sprintf("/proc/%d/cwd", n.pid)
		if k.Dir >= 0 && int32(n.data.args[k.Dir]) != unix.AT_FDCWD {
			dir = fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.data.args[k.Dir]))
			if k.Kind == bound.Execute && !path.IsAbs(given) { // so the kernel names it to an interpreter
				given = fmt.Sprintf("/dev/fd/%d/%s", int32(n.data.args[k.Dir]), given)
			}
		}
		c.bound.started = c.bound.started || k.Kind == bound.Execute
		if k.Kind == bound.Enter {
			if ways := c.bound.ways(at, dir); len(ways) > 0 {
				s.enter(c, n, at, ways)
				return
			}
			continue
		}
		i, ok := c.bound.find(at, dir)
		if !ok && k.Kind == bound.Change {
			i, ok = c.bound.above(at, dir)
		}
		if !ok {
			continue
		}
		switch {
		case i == absent:
			s.openNothing(c, n, k, at)
		case k.Kind == bound.Make:
			continue // the kernel says that it exists
		case k.Kind == bound.Open:
			s.openBound(c, n, i, k.Flags)
		case k.Kind == bound.Execute:
			s.executeBound(c, n, i, given, wordsOf(n.pid, n.data.args[k.Path+1]))
		default:
			s.refuse(c, n, unix.EROFS, "change "+c.bound.names[i])
		}
		return
	}
	c.respond(verdict{id: n.id, flags: notifContinue})
}

// peekPath reads a path from a process.
func peekPath(pid uint32, at uint64) (string, bool) {
	p, _, ended := strings.Cut(string(peek(pid, at, unix.PathMax)), "\x00")
	return p, ended
}

// openNothing answers for a path at which nothing is. Nothing can be made there either: the
// call would find it.
func (s *server) openNothing(c *running, n *notif, k bound.Call, at string) {
	creates := k.Kind == bound.Open && (k.Flags < 0 || n.data.args[k.Flags]&unix.O_CREAT != 0)
	if creates || k.Kind == bound.Change || k.Kind == bound.Make {
		s.refuse(c, n, unix.EROFS, "change "+at)
		return
	}
	s.refuse(c, n, unix.ENOENT, "")
}

// openBound opens the content of a file for a process. The kernel looks up no path.
func (s *server) openBound(c *running, n *notif, i, flagsArg int) {
	flags := unix.O_WRONLY
	if flagsArg >= 0 {
		flags = int(n.data.args[flagsArg])
	}
	switch {
	case flags&unix.O_CREAT != 0 && flags&unix.O_EXCL != 0:
		s.refuse(c, n, unix.EEXIST, "")
		return
	case flags&unix.O_PATH == 0 && (flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0):
		s.refuse(c, n, unix.EROFS, "change "+c.bound.names[i])
		return
	case flags&unix.O_DIRECTORY != 0:
		s.refuse(c, n, unix.ENOTDIR, "")
		return
	}
	// Opened again each time: each has a position of its own.
	own := fmt.Sprintf("/proc/self/fd/%d", c.bound.contents[i])
	fd, err := unix.Open(own, unix.O_RDONLY|unix.O_CLOEXEC|flags&unix.O_PATH, 0)
	if err != nil {
		s.refuse(c, n, unix.EIO, "open "+c.bound.names[i])
		return
	}
	defer unix.Close(fd)
	// Not with SECCOMP_ADDFD_FLAG_SEND, which answers at the same time: if a signal comes
	// here meanwhile, and Go sends some, the kernel (6.18) answers with descriptor 0.
	add := addFD{id: n.id, srcFD: uint32(fd), newFDOptions: uint32(flags & unix.O_CLOEXEC)}
	theirs, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), notifAddFD, uintptr(unsafe.Pointer(&add)))
	if e != 0 {
		s.refuse(c, n, e, "")
		return
	}
	c.respond(verdict{id: n.id, val: int64(theirs)})
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	id                                uint64
	flags, srcFD, newFD, newFDOptions uint32
}

const notifAddFD = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD

// refuse answers with an error. The report names the act, if it is not "".
func (s *server) refuse(c *running, n *notif, errno unix.Errno, act string) {
	if act != "" {
		c.a.launcherReports++
		c.note(wire.Denied{Act: act, Layer: "approval"})
	}
	c.respond(verdict{id: n.id, errno: -int32(errno)})
}

// respond answers a question of the kernel. An error means that the process is gone.
func (c *running) respond(v verdict) {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), notifSend, uintptr(unsafe.Pointer(&v)))
}

// note adds an act to the report, once.
func (c *running) note(d wire.Denied) {
	if len(c.denied) < maxDenied && !slices.Contains(c.denied, d) {
		c.denied = append(c.denied, d)
	}
}
