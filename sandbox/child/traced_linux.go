package child

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/bound"
	"golang.org/x/sys/unix"
)

// A program cannot be handed to execve as a descriptor without changing what it learns of
// its own path. So the kernel looks up the path, and somebody may have replaced the file at
// that moment. The launcher therefore traces the process over this one call: the kernel
// stops it before the first instruction of the new program, and the launcher looks at what
// the process has become. Nobody in the sandbox sees that stop.

// traced is a process that is about to execute a bound file, or to enter a directory above one.
type traced struct {
	call    *running
	name    string // for reports
	ways    []way  // from the directory that it enters; nil: it executes
	file    int
	path    string // as the process gave it
	words   int    // that it gave, its name among them
	tid, id int    // thread and process
}

// executeBound lets a process execute a file, and watches it.
func (s *server) executeBound(c *running, n *notif, i int, p string, words int) {
	s.trace(n, &traced{
		call: c, name: c.bound.names[i], file: i, path: p, words: words, tid: int(n.pid), id: processOf(int(n.pid)),
	})
}

// trace lets a process go on with its call, and stops it after that.
func (s *server) trace(n *notif, t *traced) {
	const options = unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(t.tid), 0, options, 0, 0)
	if e != 0 { // somebody else traces it, or the host forbids it
		s.refuse(t.call, n, unix.EACCES, fmt.Sprintf("%s %s, because it cannot be traced (%v)", t.act(), t.name, e))
		return
	}
	// If execve fails, this stops the process instead.
	_ = unix.PtraceInterrupt(t.tid)
	s.traced = append(s.traced, t)
	t.call.respond(verdict{id: n.id, flags: notifContinue})
}

func (t *traced) act() string {
	if t.ways != nil {
		return "enter"
	}
	return "execute"
}

// wordsOf counts the words that a process gives to a program, by the end of their list.
func wordsOf(pid uint32, at uint64) int {
	const size = 8 // of a pointer
	n := 0
	for at != 0 {
		b := peek(pid, at+uint64(n)*size, 16*size)
		if len(b) < size {
			return -1 // nothing has that many
		}
		for ; len(b) >= size; b, n = b[size:], n+1 {
			if binary.NativeEndian.Uint64(b) == 0 {
				return max(n, 1)
			}
		}
	}
	return 1 // the kernel adds a name where there is none
}

// processOf returns the process of a thread.
func processOf(tid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, rest, _ := strings.Cut(string(b), "\nTgid:")
	line, _, _ := strings.Cut(rest, "\n")
	if id, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
		return id
	}
	return tid
}

// checkTraced lets processes go that have become what was approved, or whose execve failed.
// It ends the call of any other.
func (s *server) checkTraced() {
	s.traced = slices.DeleteFunc(s.traced, func(t *traced) bool {
		return s.calls[t.call.id] != t.call || t.check(s)
	})
}

// check reports whether the process needs no more watching.
func (t *traced) check(s *server) bool {
	gone := 0
	// A thread that executes a program takes the id of its process.
	for _, id := range slices.Compact([]int{t.id, t.tid}) {
		var ws unix.WaitStatus
		got, err := unix.Wait4(id, &ws, unix.WALL|unix.WNOHANG, nil)
		switch {
		case err == unix.ECHILD:
			gone++
			continue
		case err != nil || got == 0:
			continue
		case !ws.Stopped():
			return true // it has ended
		}
		if !t.mayGo(s, id, int(uint32(ws)>>16)) {
			s.endReplaced(t)
			return false // its end must be waited for here, or its call never ends
		}
		return letGo(id)
	}
	return gone == len(slices.Compact([]int{t.id, t.tid}))
}

// letGo stops tracing a stopped process. It returns false if somebody has killed the process since it stopped: this
// launcher still is its tracer then, and must wait for its end. Otherwise no parent ever sees it end.
func letGo(id int) bool { return unix.PtraceDetach(id) == nil }

// mayGo looks at a stopped process.
func (t *traced) mayGo(s *server, id, event int) bool {
	switch {
	case event == unix.PTRACE_EVENT_EXEC: // of another thread, maybe
		by := s.caller(t, id)
		return by.ways == nil && by.approved(id)
	case t.ways != nil:
		return t.entered(id)
	}
	return true // its execve failed
}

// caller returns the entry of the thread that executed the program. Several threads of one
// process may try at once, and the kernel gives all of them the same id then.
func (s *server) caller(t *traced, id int) *traced {
	tid, err := unix.PtraceGetEventMsg(id)
	for _, other := range s.traced {
		if err == nil && other.call == t.call && other.tid == int(tid) {
			return other
		}
	}
	return t
}

// endReplaced ends the call of a stopped process. It stays stopped until it is killed with
// all others at once: if it ended first, its parent would go on.
func (s *server) endReplaced(t *traced) {
	c := t.call
	c.replaced = t.name
	c.a.launcherReports++
	s.signal(c.id, int(unix.SIGKILL))
}

// approved reports whether the stopped process has become what the content of its file says:
// that program itself, or its interpreter with the words that the kernel gives it.
func (t *traced) approved(id int) bool {
	b := t.call.bound
	exe := fmt.Sprintf("/proc/%d/exe", id)
	head := make([]byte, bound.HeadSize)
	n, err := unix.Pread(b.contents[t.file], head, 0)
	if err != nil {
		return false
	}
	words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id))
	if err != nil {
		return false
	}
	interpreter, arg := bound.Interpreter(head[:n])
	if interpreter == "" {
		// As the interpreter of another file it would have more words.
		return bytes.Count(words, []byte{0}) == t.words && sameContent(exe, b.contents[t.file])
	}
	first, more := interpreter+"\x00", 1
	if arg != "" {
		first, more = first+arg+"\x00", 2
	}
	if !bytes.HasPrefix(words, []byte(first+t.path+"\x00")) || bytes.Count(words, []byte{0}) != t.words+more {
		return false
	}
	// If the interpreter is not bound, nobody can change it, or the person was told that it is not.
	i, ok := b.find(interpreter, fmt.Sprintf("/proc/%d/cwd", id))
	return !ok || i != absent && sameContent(exe, b.contents[i])
}

// sameContent compares a running program with a sealed file. The kernel lets nobody write to a
// program while it runs. If a kernel allows that, the result is always false.
func sameContent(exe string, content int) bool {
	f, err := os.Open(exe)
	if err != nil {
		return false
	}
	defer f.Close()
	if fd, err := unix.Open(exe, unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(fd)
		return false
	}
	var want unix.Stat_t
	if unix.Fstat(content, &want) != nil {
		return false
	}
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := f.ReadAt(a, at)
		if err != nil && err != io.EOF {
			return false
		}
		m, err := unix.Pread(content, b, at)
		if err != nil || m != n || !bytes.Equal(a[:n], b[:m]) {
			return false
		}
		at += int64(n)
		if n < len(a) {
			return at == want.Size
		}
	}
}
