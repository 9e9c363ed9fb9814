package child

import (
	"fmt"
	"path"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Somebody may put another directory in the place of one above a bound file, let a process
// change to it, and move it away. A path from there leads to a file in a directory that
// nobody knows, and still means the bound file. So the launcher stops a process that has
// changed to such a directory, before its next instruction, and notes which one it is.

// maxPlaces bounds what an index learns in a call, in which somebody replaces directories all
// the time.
const maxPlaces = 1 << 17

// way is the rest of the name of a bound file below a directory.
type way struct {
	rest string
	file int
}

// ways returns how names go on from the directory that a path means for a process; see find.
func (x index) ways(p, dir string) []way {
	var out []way
	if at, ok := absolute(p, dir); ok {
		for name, i := range x.names {
			if rest, below := strings.CutPrefix(name, strings.TrimSuffix(at, "/")+"/"); below {
				out = append(out, way{rest, i})
			}
		}
	}
	parts(p+"/.", dir, func(dir, rest string) bool {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil {
			return true
		}
		for at, i := range x.below {
			if at.dev != st.Dev || at.ino != st.Ino {
				continue
			}
			if rest == "." {
				out = append(out, way{at.rest, i})
			} else if more, below := strings.CutPrefix(at.rest, rest+"/"); below {
				out = append(out, way{more, i})
			}
		}
		return true
	})
	return out
}

// learn notes that names go on from a directory. It reports false if that cannot be seen, or
// if there were too many already.
func (x index) learn(dir string, ways []way) bool {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err == unix.ENOENT || err == unix.ESRCH // the process is gone
	}
	if len(x.below) > maxPlaces {
		return false
	}
	for _, w := range ways {
		x.below[place{st.Dev, st.Ino, w.rest}] = w.file
	}
	return true
}

// enter lets a process change to a directory above bound files, and looks where it is then.
func (s *server) enter(c *running, n *notif, p string, ways []way) {
	if !c.bound.started {
		// The script that starts the program changes its directory once. Without namespaces
		// it cannot be traced, and other users than root cannot see its directory before it
		// has executed the program.
		c.bound.entered = ways
		c.respond(verdict{id: n.id, flags: notifContinue})
		return
	}
	s.trace(n, &traced{call: c, name: p, ways: ways, tid: int(n.pid), id: int(n.pid)})
}

// entered learns where a stopped process is. It reports false if that cannot be seen, or if
// the process would change its directory later.
func (t *traced) entered(id int) bool {
	r := returned(id)
	if r == 0 {
		return t.call.bound.learn(fmt.Sprintf("/proc/%d/cwd", id), t.ways)
	}
	return r > restarts
}

// restarts is ERESTARTSYS. Results from there on down are not those of the call.
const restarts = -512

// returned returns what the last call of a stopped process returned.
func returned(tid int) int64 {
	const status = 1         // NT_PRSTATUS
	var registers [64]uint64 // more than there are
	iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&registers)), Len: uint64(unsafe.Sizeof(registers))}
	_, _, e := unix.Syscall6(
		unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), status, uintptr(unsafe.Pointer(&iov)), 0, 0,
	)
	if e != 0 {
		return restarts
	}
	return int64(registers[resultRegister])
}

// parts takes a path apart into a directory and the rest, at each directory on the way, until
// visit returns false: any of them may have been renamed, or may have another name.
func parts(p, dir string, visit func(dir, rest string) bool) {
	if !path.IsAbs(p) {
		p = dir + "/" + p
	} else {
		dir = ""
	}
	for at := len(dir); at < len(p); at++ {
		if p[at] == '/' && !visit(p[:at]+"/", path.Clean(p[at+1:])) {
			return
		}
	}
}
