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
func (a *arena) initOps(s *server, g *group) []Op {
	ops := opList(a.counterOps(g))
	if s.t.Bare {
		return append(ops, a.bareInitOps()...)
	}
	if s.t.Profile != "strict" {
		return ops
	}
	// Shared memory of its own: what a call leaves there would go on holding
	// memory, and the next call could read it.
	shm := a.mountOp("mount /dev/shm", "shm", "/dev/shm", "tmpfs", procFlags)
	shm.arg[4] = a.str(shmOptions)
	ops = append(ops, shm, a.mountOp("mount /proc", "proc", "/proc", "proc", procFlags))
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
		fd := a.slot(a.alloc(4), 0)
		text := fmt.Sprint(max(processes, 301))
		ops = append(ops,
			Op{Name: "open pid_max", nr: unix.SYS_OPENAT, soft: anyError, out: fd, arg: [6]uintptr{atFDCWD, a.str("/proc/sys/kernel/pid_max"), unix.O_WRONLY | unix.O_CLOEXEC}},
			Op{Name: "write pid_max " + text, nr: unix.SYS_WRITE, soft: anyError, in: fd, arg: [6]uintptr{0, a.str(text), uintptr(len(text))}},
			// Open for writing it would keep /proc from becoming read-only.
			Op{Name: "close pid_max", nr: unix.SYS_CLOSE, soft: anyError, in: fd},
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
// socket on which the call's script comes.
func (a *arena) aheadOps(s *server, processes, id uint64, door int) []Op {
	ops := opList(a.procOps(s, processes))
	if s.t.Bare {
		// Without its init process nobody would end what it starts.
		ops.add("end with the init process", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	}
	// Away from the terminal and the process group of the daemon.
	ops.add("setsid", unix.SYS_SETSID)
	for c := range uintptr(s.lastCap + 1) {
		drop := ops.add(fmt.Sprintf("drop capability %d from the bounding set", c), unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c)
		if !s.privileged {
			drop.soft = anyError
		}
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
	a.filterOps(&ops, s.t, id, s.ears[1])
	// The launcher's own socket is 3, so the door never is.
	ops.add("keep the door", unix.SYS_DUP3, uintptr(door), doorFD, unix.O_CLOEXEC)
	ops.add("close other descriptors", sysCloseRange, doorFD+1, 1<<31-1, 0)
	return ops
}

// secureBits: uid 0 is a user like any other, now and after every exec; all
// locked. (SECBIT_NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE and the locks,
// and the lock of KEEP_CAPS.)
const secureBits = 0xef

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
