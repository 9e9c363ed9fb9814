package child

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/identity"
	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

const procFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// mountOp is one mount(2).
func (a *arena) mountOp(what, from, at, kind string, flags uintptr) script.Op {
	return script.Op{Name: what, NR: unix.SYS_MOUNT, Arg: [6]uintptr{a.Str(from), a.Str(at), a.Str(kind), flags, 0}}
}

// initOps run in the init process of a call, which has capabilities over the session's own
// namespaces.
func (a *arena) initOps(s *server, g *group) []script.Op {
	ops := script.List(a.counterOps(g))
	if s.t.NoNamespaces {
		return append(ops, a.noNamespacesInitOps()...)
	}
	if !s.strict() {
		return ops
	}
	// Each call has its own shared memory. What a call leaves there would otherwise hold
	// memory, and the next call could read it.
	shm := a.mountOp("mount /dev/shm", "shm", "/dev/shm", "tmpfs", procFlags)
	shm.Arg[4] = a.Str(shmOptions)
	ops = append(ops, shm, a.mountOp("mount /proc", "proc", "/proc", "proc", procFlags))
	for _, p := range s.procMasks {
		ops = append(ops, a.mountOp("mask "+p, maskDir+"/file", p, "", unix.MS_BIND))
	}
	return ops
}

// procOps finish the /proc of a call, which its init process has mounted.
func (a *arena) procOps(s *server, processes uint64) []script.Op {
	if !s.strict() {
		return nil
	}
	var ops []script.Op
	if processes > 0 {
		// Since Linux 6.14 pid_max belongs to the pid namespace: a limit on processes that
		// also holds for root and needs no control group. The kernel accepts 301 and above.
		fd := a.Cell(a.Alloc(4), 0)
		text := fmt.Sprint(max(processes, 301))
		ops = append(ops,
			script.Op{
				Name: "open pid_max", NR: unix.SYS_OPENAT, Ignore: script.AnyError, Out: fd,
				Arg: [6]uintptr{script.AtFDCWD, a.Str("/proc/sys/kernel/pid_max"), unix.O_WRONLY | unix.O_CLOEXEC},
			},
			script.Op{
				Name: "write pid_max " + text, NR: unix.SYS_WRITE, Ignore: script.AnyError, In: fd,
				Arg: [6]uintptr{0, a.Str(text), uintptr(len(text))},
			},
			// A file that is open for writing would keep /proc from becoming read-only.
			script.Op{Name: "close pid_max", NR: unix.SYS_CLOSE, Ignore: script.AnyError, In: fd},
		)
	}
	// A program with the uid of the host's root owns /proc/sys. Only this keeps it from
	// writing core_pattern.
	const readOnly = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | procFlags
	return append(ops, a.mountOp("make /proc read-only", "", "/proc", "", readOnly))
}

// confineOps confine the process that will become a program, before its call is known.
// Everything that takes long is here, so that it is done while nobody waits. slot is the
// socket on which the script comes.
func (a *arena) confineOps(s *server, b *boundFiles, processes, id uint64, slot int) []script.Op {
	ops := script.List(a.procOps(s, processes))
	ops.Add("setpriority", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(s.nice))
	for c := range uintptr(s.lastCap + 1) {
		drop := ops.Add(fmt.Sprintf("drop capability %d from the bounding set", c), unix.SYS_PRCTL,
			unix.PR_CAPBSET_DROP, c)
		if !s.privileged {
			drop.Ignore = script.AnyError
		}
	}
	if s.privileged {
		ops.Add("clear ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
		ops.Add("lock securebits", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secureBits)
	}
	ops = append(ops, a.userOps(s.t.User)...)
	head, data := a.Alloc(8), a.Alloc(24)
	*(*uint32)(unsafe.Pointer(&head[0])) = unix.LINUX_CAPABILITY_VERSION_3
	ops.Add("drop all capabilities", unix.SYS_CAPSET, addr(head), addr(data))
	if s.t.NoNamespaces {
		// Without its init process nothing would end what the program starts. A change of the uid
		// would undo this.
		ops.Add("end with the init process", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	}
	ops.Add("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	ops = append(ops, a.landlockOps(s.abi, s.rules, s.t.AllowBind)...)
	a.filterOps(&ops, s.t, b, id, s.listeners[1])
	// The launcher's own socket is 3, so slot is another number, as dup3 requires.
	ops.Add("keep the slot", unix.SYS_DUP3, uintptr(slot), slotFD, unix.O_CLOEXEC)
	ops.Add("close other descriptors", script.SysCloseRange, slotFD+1, 1<<31-1, 0)
	return ops
}

// userOps make the process that of a user. It has joined its control group and finished its
// /proc before, as the launcher; the capabilities go after it, because secureBits keep them.
func (a *arena) userOps(u *identity.ID) []script.Op {
	if u == nil {
		return nil
	}
	groups := a.Alloc(4 * max(len(u.Groups), 1))
	for i, g := range u.Groups {
		binary.NativeEndian.PutUint32(groups[4*i:], uint32(g))
	}
	uid, gid := uintptr(u.UID), uintptr(u.GID)
	var ops script.List
	ops.Add("take the groups of the user", unix.SYS_SETGROUPS, uintptr(len(u.Groups)), addr(groups))
	ops.Add(fmt.Sprintf("take gid %d", u.GID), unix.SYS_SETRESGID, gid, gid, gid)
	ops.Add(fmt.Sprintf("take uid %d", u.UID), unix.SYS_SETRESUID, uid, uid, uid)
	return ops
}

// secureBits make uid 0 a user like any other, now and after every execve, and lock that:
// SECBIT_NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE with their locks, and the lock of
// KEEP_CAPS.
const secureBits = 0xef

// program stores a filter and returns the address of its sock_fprog.
func (a *arena) program(filter []wire.Insn) uintptr {
	code := a.Alloc(8 * len(filter))
	for i, in := range filter {
		*(*wire.Insn)(unsafe.Pointer(&code[8*i])) = in
	}
	b := a.Alloc(16)
	*(*uint16)(unsafe.Pointer(&b[0])) = uint16(len(filter))
	*(*uintptr)(unsafe.Pointer(&b[8])) = addr(code)
	return addr(b)
}
