package child

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is what a process behind a [Door] becomes.
type Call struct {
	Argv    []string
	Env     []string // all of it
	Dir     string
	Limits  Limits
	Devices [3]Device // the streams that are devices; for each other one a descriptor is sent
}

// Device is opened inside, where it is the sandbox's own. The zero value is none.
type Device struct {
	Path  string
	Flags int // of open(2)
}

// Script is a [Call] as the operations that are sent through its door.
type Script struct {
	name string // of the program, as it was given
	area area
	ops  []Op
	head scriptHead
}

// scriptHead comes before the area of a script.
type scriptHead struct {
	Ops   uint32 // where the operations begin
	Count uint32
	Size  uint32 // of the area
	File  slot   // of the descriptor of a file that holds the area, or 0
}

const headSize = int(unsafe.Sizeof(scriptHead{}))

// usualRoom is enough for most calls.
const usualRoom = 64 << 10

// Room is as much of an arena as the call needs.
func (c Call) Room() int {
	const ops = 8 << 10
	n := ops + len(c.Dir)
	for _, list := range [][]string{c.Argv, c.Env} {
		for _, v := range list {
			n += len(v) + 64
		}
	}
	path := searchPath(c.Env)
	return n + len(path) + (strings.Count(path, ":")+1)*(len(c.Argv[0])+rawOpSize+64)
}

// Script compiles the call for the arena behind the door, which has the room for it.
func (d Door) Script(c Call) *Script {
	s := &Script{name: c.Argv[0], area: area{buf: make([]byte, c.Room()), from: int(d.Area - d.Arena), at: uintptr(d.Area)}}
	s.ops = s.area.programOps(c, d.Others)
	raw := s.area.ops(s.ops)
	s.head = scriptHead{
		Ops:   uint32(s.area.offset(unsafe.Slice((*byte)(unsafe.Pointer(&raw[0])), rawOpSize))),
		Count: uint32(len(raw)), Size: uint32(s.area.used),
	}
	return s
}

// maxScript is how large a script in a message may be; the kernel bounds what waits in
// a socket.
const maxScript = 96 << 10

// Open lets the process behind the door become the program. fds are the streams that
// are not devices. An error means that the process is gone and no program was run.
func (s *Script) Open(door int, fds []int) error {
	head, body := s.head, s.area.buf[:s.area.used]
	if len(body) > maxScript {
		f, err := FileOf(body)
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
	for {
		n, err := unix.SendmsgBuffers(door, [][]byte{unsafe.Slice((*byte)(unsafe.Pointer(&head)), headSize), body}, oob, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("hand a call to its process: %w", err)
		case n != headSize+len(body):
			return fmt.Errorf("hand a call to its process: %d of %d bytes went through the door", n, headSize+len(body))
		}
		return nil
	}
}

// Failed says why the program was not started, and with which status a shell would
// end: 127 for one that is not there, 126 for one that cannot be executed, and 125
// when that is no fault of the program's.
func (s *Script) Failed(r Reply) (status int, why string) {
	at := int(r.Failed.Op) - 1
	if at < 0 || at >= len(s.ops) || s.ops[at].nr != unix.SYS_EXECVE {
		return 125, r.Failed.explain("start the program", s.ops)
	}
	errno := unix.Errno(r.Failed.Errno)
	if s.name == "" {
		return 127, "the name of the program is empty"
	}
	if !strings.Contains(s.name, "/") && at == len(s.ops)-1 {
		return 127, s.name + ": not found in PATH (or the interpreter of a script there)"
	}
	why = fmt.Sprintf("%s: %v", strings.TrimPrefix(s.ops[at].Name, "execve "), errno)
	if errno == unix.ENOENT {
		return 127, why
	}
	return 126, why
}

// received is the n-th descriptor that came through the door.
func received(n int) slot {
	return slot(unsafe.Offsetof(arena{}.doorCtl) + uintptr(unix.CmsgLen(4*n)))
}

// programOps turn the confined process into the program of a call. others are threads
// that are counted with those of the call.
func (m *area) programOps(c Call, others uint64) []Op {
	var ops opList
	sent := 0
	for i, dev := range c.Devices {
		from := received(sent)
		if dev.Path != "" {
			from = m.slot(m.alloc(4), 0)
			ops.add("open "+dev.Path, unix.SYS_OPENAT, atFDCWD, m.str(dev.Path), uintptr(dev.Flags)|unix.O_CLOEXEC|unix.O_NOCTTY).out = from
		} else {
			sent++
		}
		// Neither is ever 0 to 2, where dup3 would be EINVAL.
		ops.add(fmt.Sprintf("dup3 %d", i), unix.SYS_DUP3, 0, uintptr(i), 0).in = from
	}
	// After the mounts: an inherited directory could lie under one of them.
	ops.add("chdir "+c.Dir, unix.SYS_CHDIR, m.str(c.Dir))
	ops.add("umask", unix.SYS_UMASK, 0o022)
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
		b := m.alloc(16)
		*(*[2]uint64)(unsafe.Pointer(&b[0])) = n
		ops.add(fmt.Sprintf("setrlimit %s %d", l.name, n[0]), unix.SYS_PRLIMIT64, 0, uintptr(l.which), m.addr(b), 0)
	}
	ops.add("close other descriptors", sysCloseRange, 3, 1<<31-1, 0)
	ops.add("unblock signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, m.addr(m.alloc(8)), 0, 8)
	argv, env := m.strs(c.Argv), m.strs(c.Env)
	if strings.Contains(c.Argv[0], "/") { // relative to Dir, for this comes after chdir
		ops.add("execve "+c.Argv[0], unix.SYS_EXECVE, m.str(c.Argv[0]), argv, env)
		return ops
	}
	for _, dir := range filepath.SplitList(searchPath(c.Env)) {
		if filepath.IsAbs(dir) { // a program of the workspace by a bare name is never meant
			p := filepath.Join(dir, c.Argv[0])
			ops.add("execve "+p, unix.SYS_EXECVE, m.str(p), argv, env).soft = absent
		}
	}
	// So that the list does not end well where nothing was found.
	ops.add("execve "+c.Argv[0], unix.SYS_EXECVE, m.str(""), argv, env)
	return ops
}

// searchPath is the PATH of an environment.
func searchPath(env []string) string {
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			return list
		}
	}
	return ""
}

// fewerThanOurs leaves the launcher and the daemon descriptors that a program cannot
// take from them: those in messages that nobody has read are counted for the user, and
// each process is refused to send more by its own limit.
func fewerThanOurs(files uint64) uint64 {
	const reserve = 512
	var now unix.Rlimit
	if files == 0 || unix.Getrlimit(unix.RLIMIT_NOFILE, &now) != nil {
		return files
	}
	return min(files, max(now.Max/2, now.Max-min(now.Max, reserve)))
}

// lower keeps a limit at or below what this process has, for it cannot be raised.
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
