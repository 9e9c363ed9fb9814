package child

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const procFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

func (a *arena) mountOp(what, from, at, kind string, flags uintptr) Op {
	return Op{Name: what, nr: unix.SYS_MOUNT, arg: [6]uintptr{a.str(from), a.str(at), a.str(kind), flags, 0}}
}

// initOps run as the init process of a call, still with capabilities over the
// session's own namespaces.
func (a *arena) initOps(s *server) []Op {
	if s.t.Bare {
		return a.bareInitOps()
	}
	if s.t.Profile != "strict" {
		return nil
	}
	// Shared memory of its own: what a call leaves there would go on holding
	// memory, and the next call could read it.
	shm := a.mountOp("mount /dev/shm", "shm", "/dev/shm", "tmpfs", procFlags)
	shm.arg[4] = a.str(shmOptions)
	ops := []Op{shm, a.mountOp("mount /proc", "proc", "/proc", "proc", procFlags)}
	for _, p := range s.procMasks {
		ops = append(ops, a.mountOp("mask "+p, maskDir+"/file", p, "", unix.MS_BIND))
	}
	return ops
}

// procOps finish the /proc of a call.
func (a *arena) procOps(s *server, processes uint64) []Op {
	if s.t.Profile != "strict" || s.t.Bare {
		return nil
	}
	var ops []Op
	if processes > 0 {
		// Since Linux 6.14 this is a property of the pid namespace: a limit on
		// processes that holds for root too, and needs no control group. The
		// kernel takes no number below 301.
		fd := place(a.alloc(4), 0)
		*fd = -1
		text := fmt.Sprint(max(processes, 301))
		ops = append(ops,
			Op{Name: "open pid_max", nr: unix.SYS_OPENAT, soft: true, out: fd, arg: [6]uintptr{atFDCWD, a.str("/proc/sys/kernel/pid_max"), unix.O_WRONLY | unix.O_CLOEXEC}},
			Op{Name: "write pid_max " + text, nr: unix.SYS_WRITE, soft: true, in: fd, arg: [6]uintptr{0, a.str(text), uintptr(len(text))}},
			// Open for writing it would keep /proc from becoming read-only.
			Op{Name: "close pid_max", nr: unix.SYS_CLOSE, soft: true, in: fd},
		)
	}
	// With the uid of the host's root, the owner of /proc/sys, nothing but this
	// keeps a program from writing core_pattern.
	return append(ops, a.mountOp("make /proc read-only", "", "/proc", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|procFlags))
}

// opList collects operations.
type opList []Op

func (l *opList) add(name string, nr uintptr, args ...uintptr) *Op {
	o := Op{Name: name, nr: nr}
	copy(o.arg[:], args)
	*l = append(*l, o)
	return &(*l)[len(*l)-1]
}

// aheadOps confine the process that will be a program, before its call is known.
// All that is dear is here, so that it is done while nobody waits. door is the
// socket on which the call's descriptors come.
func (a *arena) aheadOps(s *server, processes uint64, door int) []Op {
	ops := opList(a.procOps(s, processes))
	// Away from the terminal and the process group of the daemon.
	ops.add("setsid", unix.SYS_SETSID)
	for c := range uintptr(s.lastCap + 1) {
		ops.add(fmt.Sprintf("drop capability %d from the bounding set", c), unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c).soft = !s.privileged
	}
	if s.privileged {
		ops.add("clear ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
		ops.add("lock securebits", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secureBits)
	}
	head, data := a.alloc(8), a.alloc(24)
	*(*uint32)(unsafe.Pointer(&head[0])) = unix.LINUX_CAPABILITY_VERSION_3
	ops.add("drop all capabilities", unix.SYS_CAPSET, addr(head), addr(data))
	ops.add("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	ops = append(ops, a.landlockOps(s.abi, s.rules, s.t.AllowBind)...)
	a.filterOps(&ops, s.t, door)
	// The launcher's own socket is 3, so the door never is.
	ops.add("keep the door", unix.SYS_DUP3, uintptr(door), doorFD, unix.O_CLOEXEC)
	ops.add("close other descriptors", sysCloseRange, doorFD+1, 1<<31-1, 0)
	return ops
}

// cmdOps turn the confined process into the program of a call.
func (a *arena) cmdOps(s *server, r *Request, path string) []Op {
	var ops opList
	for i := range 3 {
		// Received descriptors are never 0 to 2, where dup3 would be EINVAL.
		ops.add(fmt.Sprintf("dup3 %d", i), unix.SYS_DUP3, 0, uintptr(i), 0).in = a.received(i)
	}
	// After the mounts: an inherited directory could lie under one of them.
	ops.add("chdir "+r.Dir, unix.SYS_CHDIR, a.str(r.Dir))
	ops.add("umask", unix.SYS_UMASK, 0o022)
	for _, l := range []struct {
		name  string
		which int
		n     uint64
		extra uint64
	}{
		{"cpu", unix.RLIMIT_CPU, r.Limits.CPUSeconds, 1},
		{"data", unix.RLIMIT_DATA, r.Limits.Memory, 0},
		{"fsize", unix.RLIMIT_FSIZE, r.Limits.FileSize, 0},
		{"nofile", unix.RLIMIT_NOFILE, r.Limits.OpenFiles, 0},
		{"nproc", unix.RLIMIT_NPROC, r.Limits.Processes, 0},
		{"core", unix.RLIMIT_CORE, ^uint64(0), 0},
	} {
		if l.n == 0 {
			continue
		}
		n := lower(l.which, l.n, l.extra)
		b := a.alloc(16)
		*(*[2]uint64)(unsafe.Pointer(&b[0])) = n
		ops.add(fmt.Sprintf("setrlimit %s %d", l.name, n[0]), unix.SYS_PRLIMIT64, 0, uintptr(l.which), addr(b), 0)
	}
	ops.add("close other descriptors", sysCloseRange, 3, 1<<31-1, 0)
	ops.add("unblock signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, ptr64(&a.emptyMask), 0, 8)
	env := a.env
	if len(r.Env) > 0 {
		env = a.strs(withEnv(s.t.Env, r.Env))
	}
	ops.add("execve "+path, unix.SYS_EXECVE, a.str(path), a.strs(r.Argv), env)
	return ops
}

// secureBits: uid 0 is a user like any other, now and after every exec; all
// locked. (SECBIT_NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE and the locks,
// and the lock of KEEP_CAPS.)
const secureBits = 0xef

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

// program is a sock_fprog of the filter.
func (a *arena) program(filter []Insn) uintptr {
	code := a.alloc(8 * len(filter))
	for i, in := range filter {
		*(*Insn)(unsafe.Pointer(&code[8*i])) = in
	}
	b := a.alloc(16)
	*(*uint16)(unsafe.Pointer(&b[0])) = uint16(len(filter))
	*(*uintptr)(unsafe.Pointer(&b[8])) = addr(code)
	return addr(b)
}

// size is enough room in the arena for a call.
func (s *server) size(r *Request) int {
	n := 64<<10 + 8*(len(s.t.Filter)+len(s.t.Listen)) + 4*256*(len(s.rules)+64)
	for _, list := range [][]string{r.Argv, r.Env, s.t.Env, s.t.Env} { // the last as it is, and with what is over it
		for _, v := range list {
			n += len(v) + 64
		}
	}
	return n + len(r.Dir)
}
