package script

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// Call is the program that a waiting process becomes.
type Call struct {
	Argv   []string
	Env    []string // the whole environment
	Dir    string
	Limits wire.Limits
	// Terminal says that standard input is a terminal for this program alone, to be controlled by it.
	Terminal bool
	Devices  [3]Device // for each stream that is no device, a descriptor is sent
}

// Device is opened inside the sandbox, from its own /dev. The zero value is none.
type Device struct {
	Path  string
	Flags int // of open(2)
}

// Script is a [Call] as operations for the memory behind one slot.
type Script struct {
	Ops []Op // for display; what is sent is encoded already

	name string // of the program, as the caller gave it
	area Area
	head Head
}

// Head comes before the area of a script.
type Head struct {
	Ops   uint32 // offset of the operations in the area
	Count uint32 // of the operations
	Size  uint32 // of the area
	File  Cell   // the descriptor of a file that holds the area, or 0
}

// HeadSize is the number of bytes of a [Head].
const HeadSize = int(unsafe.Sizeof(Head{}))

// Mailbox is where a process receives a script. It lies at the beginning of the shared
// memory, because the operations name the descriptors in it by [Cell].
type Mailbox struct {
	Control [32]byte // the control message with the descriptors
	Head    Head
}

// Room returns how much memory the script of the call needs.
func (c Call) Room() int {
	const ops = 8 << 10
	n := ops + len(c.Dir)
	for _, list := range [][]string{c.Argv, c.Env} {
		for _, v := range list {
			n += len(v) + 64
		}
	}
	path := searchPath(c.Env)
	return n + len(path) + (strings.Count(path, ":")+1)*(len(c.Argv[0])+RawSize+64)
}

// Compile makes the script of a call for the memory behind a slot that fits it.
func Compile(slot wire.Slot, c Call) *Script {
	area := Area{Buf: make([]byte, c.Room()), from: int(slot.Area - slot.Arena), At: uintptr(slot.Area)}
	s := &Script{name: c.Argv[0], area: area}
	s.Ops = s.area.programOps(c, slot.OtherThreads)
	raw := s.area.Encode(s.Ops)
	s.head = Head{
		Ops:   uint32(s.area.offset(unsafe.Slice((*byte)(unsafe.Pointer(&raw[0])), RawSize))),
		Count: uint32(len(raw)), Size: uint32(s.area.Used),
	}
	return s
}

// maxInMessage is the size up to which a script is sent in the message itself; the
// kernel bounds what may wait in a socket.
const maxInMessage = 96 << 10

// Send lets the process behind the slot become the program. fds are the streams that
// are not devices. After an error no program was run: close the slot and no program was run.
func (s *Script) Send(slot int, fds []int) error {
	head, body := s.head, s.area.Buf[:s.area.Used]
	if len(body) > maxInMessage {
		f, err := wire.FileOf(body)
		if err != nil {
			return err
		}
		defer f.Close()
		head.File = received(len(fds))
		fds = append(fds[:len(fds):len(fds)], int(f.Fd()))
		body = nil
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	parts := [][]byte{unsafe.Slice((*byte)(unsafe.Pointer(&head)), HeadSize), body}
	for {
		n, err := unix.SendmsgBuffers(slot, parts, oob, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("hand a call to its process: %w", err)
		case n != HeadSize+len(body):
			return fmt.Errorf("hand a call to its process: %d of %d bytes were sent", n, HeadSize+len(body))
		}
		return nil
	}
}

// Failed explains why the program was not started, with the status that a shell would
// return: 127 if it was not found, 126 if it cannot be executed. 125 means that the
// failure is not the program's.
func (s *Script) Failed(r wire.Reply) (status int, why string) {
	at := int(r.Failed.Op) - 1
	if at < 0 || at >= len(s.Ops) || s.Ops[at].NR != unix.SYS_EXECVE {
		return 125, Explain(r.Failed, "start the program", s.Ops)
	}
	errno := unix.Errno(r.Failed.Errno)
	if s.name == "" {
		return 127, "the name of the program is empty"
	}
	if !strings.Contains(s.name, "/") && at == len(s.Ops)-1 {
		return 127, s.name + ": not found in PATH (or the interpreter of a script there)"
	}
	why = fmt.Sprintf("%s: %v", strings.TrimPrefix(s.Ops[at].Name, "execve "), errno)
	if errno == unix.ENOENT {
		return 127, why
	}
	return 126, why
}

// received returns the n-th descriptor that came with the script.
func received(n int) Cell {
	return Cell(unsafe.Offsetof(Mailbox{}.Control) + uintptr(unix.CmsgLen(4*n)))
}

// programOps turn the confined process into the program of a call. others are threads
// outside the call that the kernel counts with it.
func (m *Area) programOps(c Call, others uint64) []Op {
	var ops List
	sent := 0
	for i, dev := range c.Devices {
		from := received(sent)
		if dev.Path != "" {
			from = m.Cell(m.Alloc(4), 0)
			flags := uintptr(dev.Flags) | unix.O_CLOEXEC | unix.O_NOCTTY
			ops.Add("open "+dev.Path, unix.SYS_OPENAT, AtFDCWD, m.Str(dev.Path), flags).Out = from
		} else {
			sent++
		}
		// from is never 0 to 2, for which dup3 would fail with EINVAL.
		ops.Add(fmt.Sprintf("dup3 %d", i), unix.SYS_DUP3, 0, uintptr(i), 0).In = from
	}
	if c.Terminal {
		ops.Add("setsid", unix.SYS_SETSID)
		ops.Add("take the terminal", unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	} else {
		// Not a session: the kernel can weigh each session as much as the daemon (autogroups, sched(7)).
		// That of the launcher has no terminal either.
		ops.Add("setpgid", unix.SYS_SETPGID, 0, 0)
	}
	// The inherited directory could lie under a mount that was made since.
	ops.Add("chdir "+c.Dir, unix.SYS_CHDIR, m.Str(c.Dir))
	ops.Add("umask", unix.SYS_UMASK, 0o022)
	processes := c.Limits.Processes
	if processes > 0 {
		processes += others
	}
	for _, l := range []struct {
		name  string
		which int
		n     uint64
		extra uint64
	}{
		{"cpu", unix.RLIMIT_CPU, c.Limits.CPUSeconds, 1},
		{"data", unix.RLIMIT_DATA, c.Limits.Memory, 0},
		{"fsize", unix.RLIMIT_FSIZE, c.Limits.FileSize, 0},
		{"nofile", unix.RLIMIT_NOFILE, fewerThanOurs(c.Limits.OpenFiles), 0},
		{"nproc", unix.RLIMIT_NPROC, processes, 0},
		{"core", unix.RLIMIT_CORE, ^uint64(0), 0},
	} {
		if l.n == 0 {
			continue
		}
		n := lower(l.which, l.n, l.extra)
		b := m.Alloc(16)
		*(*[2]uint64)(unsafe.Pointer(&b[0])) = n
		ops.Add(fmt.Sprintf("setrlimit %s %d", l.name, n[0]), unix.SYS_PRLIMIT64, 0, uintptr(l.which), m.addr(b), 0)
	}
	ops.Add("close other descriptors", SysCloseRange, 3, 1<<31-1, 0)
	ops.Add("unblock signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, m.addr(m.Alloc(8)), 0, 8)
	argv, env := m.strs(c.Argv), m.strs(c.Env)
	if strings.Contains(c.Argv[0], "/") { // relative to Dir: chdir comes before
		ops.Add("execve "+c.Argv[0], unix.SYS_EXECVE, m.Str(c.Argv[0]), argv, env)
		return ops
	}
	for _, dir := range filepath.SplitList(searchPath(c.Env)) {
		if filepath.IsAbs(dir) { // a relative directory would find programs of the workspace
			p := filepath.Join(dir, c.Argv[0])
			ops.Add("execve "+p, unix.SYS_EXECVE, m.Str(p), argv, env).Ignore = NotFound
		}
	}
	// The last operation fails for sure: a list that finds no program must not succeed.
	ops.Add("execve "+c.Argv[0], unix.SYS_EXECVE, m.Str(""), argv, env)
	return ops
}

// searchPath returns the PATH of an environment.
func searchPath(env []string) string {
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			return list
		}
	}
	return ""
}

// fewerThanOurs keeps the limit on open files below that of this process. The kernel
// counts descriptors in unread messages for the user, and refuses a process that sends
// more than its own limit. The reserve is what the launcher and the daemon can still send
// when programs use theirs up.
func fewerThanOurs(files uint64) uint64 {
	const reserve = 512
	var now unix.Rlimit
	if files == 0 || unix.Getrlimit(unix.RLIMIT_NOFILE, &now) != nil {
		return files
	}
	return min(files, max(now.Max/2, now.Max-min(now.Max, reserve)))
}

// lower keeps a limit at or below that of this process: a limit cannot be raised.
func lower(which int, soft, extra uint64) [2]uint64 {
	if soft == ^uint64(0) {
		return [2]uint64{0, 0}
	}
	var now unix.Rlimit
	if unix.Getrlimit(which, &now) != nil {
		return [2]uint64{soft, soft + extra}
	}
	return [2]uint64{min(soft, now.Max), min(soft+extra, now.Max)}
}
