package child

import (
	"syscall"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Everything in this file runs in a process without a Go runtime. It has one thread and a small
// stack, and shares its memory with the launcher. So nothing here may allocate, grow the stack,
// lock, panic or return, and the race detector is off.

// clone3 starts a process that runs entry(a, role) on the stack named in args. It returns
// the pid or a negative errno.
//
// entry is the code of rawMain itself. Assembly that names rawMain would get a wrapper,
// which the race detector instruments.
//
//go:noescape
func clone3(args *cloneArgs, size uintptr, a *arena, role, entry uintptr) int

const (
	roleInit = 0
	roleCmd  = 1
)

// rawMain is called by the assembly of clone3 in the new process.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func rawMain(a *arena, role uintptr) {
	if role == roleCmd {
		confined := rawRun(a, unsafe.Pointer(unsafe.SliceData(a.confine)), len(a.confine), &a.confineFailed)
		if confined && (!a.noNamespaces || rawParent() == a.self) && rawAwaitScript(a) {
			rawRun(a, unsafe.Add(unsafe.Pointer(a.slotIov[1].Base), a.mail.Head.Ops), int(a.mail.Head.Count),
				&a.ended.Failed)
		}
		rawExit(127)
	}
	if !rawRun(a, unsafe.Pointer(unsafe.SliceData(a.init)), len(a.init), &a.initFailed) {
		rawExit(127)
	}
	// The parent may have died before a signal was set for its death.
	if a.noNamespaces && rawParent() != a.parent {
		rawExit(127)
	}
	a.self, _, _ = syscall.RawSyscall6(syscall.SYS_GETPID, 0, 0, 0, 0, 0, 0)
	pid := clone3(&a.cmdArgs, cloneArgsSize, a, roleCmd, a.entry)
	if pid < 0 {
		a.initFailed.Op, a.initFailed.Errno = -1, int32(-pid)
		rawExit(127)
	}
	a.cmdPid = uintptr(pid)
	rawClose(a)
	rawReap(a)
	rawSweep()
	rawReport(a)
	rawExit(0)
}

//go:nosplit
//go:norace
func rawParent() uintptr {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_GETPPID, 0, 0, 0, 0, 0, 0)
	return pid
}

// rawClose closes all descriptors except the socket and the counters. Without a pid
// namespace it keeps the standard streams too: when the launcher's standard error closes,
// the daemon knows that this process is gone.
//
//go:nosplit
//go:norace
func rawClose(a *arena) {
	next := uintptr(0)
	if a.noNamespaces {
		next = 3
	}
	for i := 0; i < len(a.keep) && i < a.keeps; i++ {
		if next < a.keep[i] {
			syscall.RawSyscall6(script.SysCloseRange, next, a.keep[i]-1, 0, 0, 0, 0)
		}
		next = a.keep[i] + 1
	}
	syscall.RawSyscall6(script.SysCloseRange, next, 1<<31-1, 0, 0, 0, 0)
}

// rawAwaitScript waits at the slot for a script. It comes as one message with the streams of
// the call, or in a file that comes with them.
//
//go:nosplit
//go:norace
//go:nocheckptr
func rawAwaitScript(a *arena) bool {
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_RECVMSG, slotFD, ptrMsg(&a.slot), syscall.MSG_CMSG_CLOEXEC, 0, 0, 0)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 || n < unsafe.Sizeof(a.mail.Head) {
			return false
		}
		if a.mail.Head.File != 0 {
			fd := *rawCell(a, a.mail.Head.File)
			at := uintptr(unsafe.Pointer(a.slotIov[1].Base))
			n, _, _ = syscall.RawSyscall6(syscall.SYS_PREAD64, uintptr(fd), at, uintptr(a.mail.Head.Size), 0, 0, 0)
			if n != uintptr(a.mail.Head.Size) {
				return false
			}
		}
		a.gotScript = 1
		return true
	}
}

// rawReport reports the end of the call to the daemon, if there is nothing to add to its
// status. Otherwise the launcher reports it, which knows the rest.
//
//go:nosplit
//go:norace
//go:nocheckptr
func rawReport(a *arena) {
	syscall.RawSyscall6(syscall.SYS_GETRUSAGE, ^uintptr(0), ptrUsage(&a.ended.Usage), 0, 0, 0, 0) // RUSAGE_CHILDREN
	if a.gotScript == 0 || a.launcherReports != 0 || a.listenerSent == 0 || *rawCell(a, a.listenerSent) <= 0 {
		return
	}
	for i := 1; i < len(a.keep) && i < a.keeps; i++ {
		var now [128]byte
		before := &a.counters[i-1]
		syscall.RawSyscall6(syscall.SYS_PREAD64, a.keep[i], uintptr(unsafe.Pointer(&now)), unsafe.Sizeof(now), 0, 0, 0)
		for k := range now {
			if now[k] != before[k] {
				return
			}
		}
	}
	n, _, _ := syscall.RawSyscall6(syscall.SYS_SENDTO, wire.SocketFD, uintptr(unsafe.Pointer(&a.ended)),
		unsafe.Sizeof(a.ended), syscall.MSG_NOSIGNAL, 0, 0)
	if n == unsafe.Sizeof(a.ended) {
		a.reported = 1
	}
}

// rawReap waits for the program, reaps orphans, and passes on signals of the launcher.
//
//go:nosplit
//go:norace
//go:nocheckptr
func rawReap(a *arena) {
	for {
		r, _, e := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), ptr32(&a.ended.Status),
			syscall.WNOHANG|syscall.WALL, 0, 0, 0)
		if e == syscall.ECHILD {
			return
		}
		if stopped := uintptr(a.ended.Status); r != 0 && e == 0 && stopped&0xff == 0x7f {
			// A child that stops has asked to be traced. Detached, it goes on.
			syscall.RawSyscall6(syscall.SYS_PTRACE, syscall.PTRACE_DETACH, r, 0, stopped>>8&0xff, 0, 0)
			continue
		}
		if r == a.cmdPid {
			return
		}
		if r != 0 && e == 0 {
			continue
		}
		sig, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGTIMEDWAIT, ptr64(&a.waitMask), 0, 0, 8, 0, 0)
		if e == 0 && sig == endSignal && a.noNamespaces {
			sig = uintptr(syscall.SIGKILL)
			a.launcherReports++
		}
		if e == 0 && syscall.Signal(sig) != syscall.SIGCHLD {
			syscall.RawSyscall6(syscall.SYS_KILL, ^uintptr(0), sig, 0, 0, 0, 0)
		}
	}
}

// rawSweep ends what a call has left, before its end is reported. The signal goes to every
// other process of this pid namespace or, without one, of this Landlock domain. The kernel
// sends it under a lock that fork needs, so no process escapes by forking. Orphans become
// children of this process.
//
//go:nosplit
//go:norace
func rawSweep() {
	syscall.RawSyscall6(syscall.SYS_KILL, ^uintptr(0), uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	for {
		_, _, e := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), 0, syscall.WALL, 0, 0, 0)
		if e != 0 && e != syscall.EINTR {
			return
		}
	}
}

// rawRun runs a list. It stops at the first operation that fails and stores which in f.
//
//go:nosplit
//go:norace
//go:nocheckptr
func rawRun(a *arena, list unsafe.Pointer, n int, f *wire.Failure) bool {
	for i := 0; i < n; i++ {
		o := (*script.Raw)(unsafe.Add(list, i*script.RawSize))
		if o.Unless != 0 && *rawCell(a, o.Unless) >= 0 {
			continue
		}
		if o.In != 0 {
			o.Arg[0] = uintptr(*rawCell(a, o.In))
		}
		r, _, e := syscall.RawSyscall6(o.NR, o.Arg[0], o.Arg[1], o.Arg[2], o.Arg[3], o.Arg[4], o.Arg[5])
		if e != 0 && o.Ignore != script.AnyError && (o.Ignore != script.NotFound || !rawAbsent(e)) {
			f.Op, f.Errno = int32(i+1), int32(e)
			return false
		}
		if o.Out != 0 {
			*rawCell(a, o.Out) = int32(r)
			if e != 0 {
				*rawCell(a, o.Out) = -1
			}
		}
	}
	return true
}

// rawAbsent reports whether a shell would try the next directory of PATH after an error.
//
//go:nosplit
//go:norace
func rawAbsent(e syscall.Errno) bool {
	return e == syscall.ENOENT || e == syscall.ENOTDIR || e == syscall.EACCES || e == syscall.ELOOP ||
		e == syscall.ENAMETOOLONG ||
		e == syscall.ESTALE || e == syscall.ENODEV ||
		e == syscall.ETIMEDOUT
}

// rawCell returns the address of a cell of the script in the arena.
//
//go:nosplit
//go:norace
//go:nocheckptr
func rawCell(a *arena, s script.Cell) *int32 {
	return (*int32)(unsafe.Add(unsafe.Pointer(a), uintptr(s)))
}

// rawExit ends the process and never returns: a process without a Go runtime has nothing to return to.
//
//go:nosplit
//go:norace
func rawExit(code uintptr) {
	for {
		syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}
