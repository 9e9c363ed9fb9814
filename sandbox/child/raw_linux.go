package child

import (
	"syscall"
	"unsafe"
)

// Everything in this file runs in a process that has no Go runtime: one thread,
// a small stack, possibly memory that the launcher is using. So: no allocation, no
// stack growth, no locks, no race detector, no panics, and no return.

// clone3 starts a process at entry(a, role) on the stack named in args, and
// returns its pid or a negative errno.
//
// entry is the code of rawMain itself and not the wrapper that assembly would
// get by name: the race detector instruments wrappers.
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
		if rawRun(a, unsafe.Pointer(unsafe.SliceData(a.ahead)), len(a.ahead), &a.aheadFailed) && (!a.bare || rawParent() == a.self) && rawAnswer(a) {
			rawRun(a, unsafe.Add(unsafe.Pointer(a.doorIov[1].Base), a.head.Ops), int(a.head.Count), &a.ended.failed)
		}
		rawExit(127)
	}
	if !rawRun(a, unsafe.Pointer(unsafe.SliceData(a.init)), len(a.init), &a.initFailed) {
		rawExit(127)
	}
	// A parent may have died before its death had a signal.
	if a.bare && rawParent() != a.parent {
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
	rawTell(a)
	rawExit(0)
}

//go:nosplit
//go:norace
func rawParent() uintptr {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_GETPPID, 0, 0, 0, 0, 0, 0)
	return pid
}

// rawClose keeps the socket and the counters, and without a pid namespace the standard
// streams: the end of the launcher's standard error tells the daemon that it is gone.
//
//go:nosplit
//go:norace
func rawClose(a *arena) {
	next := uintptr(0)
	if a.bare {
		next = 3
	}
	for i := 0; i < len(a.keep) && i < a.keeps; i++ {
		if next < a.keep[i] {
			syscall.RawSyscall6(sysCloseRange, next, a.keep[i]-1, 0, 0, 0, 0)
		}
		next = a.keep[i] + 1
	}
	syscall.RawSyscall6(sysCloseRange, next, 1<<31-1, 0, 0, 0, 0)
}

// rawAnswer waits at the door for a script, which comes as one message with the
// streams of the call, or in a file that comes with them.
//
//go:nosplit
//go:norace
//go:nocheckptr
func rawAnswer(a *arena) bool {
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_RECVMSG, doorFD, ptrMsg(&a.door), syscall.MSG_CMSG_CLOEXEC, 0, 0, 0)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 || n < unsafe.Sizeof(a.head) {
			return false
		}
		if a.head.File != 0 {
			fd := *rawSlot(a, a.head.File)
			n, _, _ = syscall.RawSyscall6(syscall.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(a.doorIov[1].Base)), uintptr(a.head.Size), 0, 0, 0)
			if n != uintptr(a.head.Size) {
				return false
			}
		}
		a.began = 1
		return true
	}
}

// rawTell tells the daemon the end of the call, when there is nothing to add to its
// status. What else happened only the launcher knows, which tells it then.
//
//go:nosplit
//go:norace
//go:nocheckptr
func rawTell(a *arena) {
	syscall.RawSyscall6(syscall.SYS_GETRUSAGE, ^uintptr(0), ptrUsage(&a.ended.usage), 0, 0, 0, 0) // RUSAGE_CHILDREN
	if a.began == 0 || a.news != 0 || a.handed == 0 || *rawSlot(a, a.handed) <= 0 {
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
	n, _, _ := syscall.RawSyscall6(syscall.SYS_SENDTO, socketFD, uintptr(unsafe.Pointer(&a.ended)), unsafe.Sizeof(a.ended), syscall.MSG_NOSIGNAL, 0, 0)
	if n == unsafe.Sizeof(a.ended) {
		a.told = 1
	}
}

// rawReap waits for the program, reaps what it orphans, and passes on polite
// signals.
//
//go:nosplit
//go:norace
//go:nocheckptr
func rawReap(a *arena) {
	for {
		r, _, e := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), ptr32(&a.ended.status), syscall.WNOHANG|syscall.WALL, 0, 0, 0)
		if e == syscall.ECHILD {
			return
		}
		if stopped := uintptr(a.ended.status); r != 0 && e == 0 && stopped&0xff == 0x7f {
			// Only who has asked to be traced is seen to stop. It goes on alone.
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
		if e == 0 && sig == endSignal && a.bare {
			sig = uintptr(syscall.SIGKILL)
			a.news++
		}
		if e == 0 && syscall.Signal(sig) != syscall.SIGCHLD {
			syscall.RawSyscall6(syscall.SYS_KILL, ^uintptr(0), sig, 0, 0, 0, 0)
		}
	}
}

// rawSweep ends what a call has left, so that nothing of it is there when its end is
// told. The signal goes to every process of this one's pid namespace, or of its
// Landlock domain where there is none, and to none besides, and is sent under a lock
// that no fork passes, so nobody escapes it by forking. Orphans become this one's
// children.
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

//go:nosplit
//go:norace
//go:nocheckptr
func rawRun(a *arena, list unsafe.Pointer, n int, f *Failure) bool {
	for i := 0; i < n; i++ {
		o := (*rawOp)(unsafe.Add(list, i*rawOpSize))
		if o.unless != 0 && *rawSlot(a, o.unless) >= 0 {
			continue
		}
		if o.in != 0 && o.inAt < 6 {
			o.arg[o.inAt] = uintptr(*rawSlot(a, o.in))
		}
		r, _, e := syscall.RawSyscall6(o.nr, o.arg[0], o.arg[1], o.arg[2], o.arg[3], o.arg[4], o.arg[5])
		if e != 0 && o.soft != anyError && (o.soft != absent || !rawAbsent(e)) {
			f.Op, f.Errno = int32(i+1), int32(e)
			return false
		}
		if o.out != 0 {
			*rawSlot(a, o.out) = int32(r)
			if e != 0 {
				*rawSlot(a, o.out) = -1
			}
		}
	}
	return true
}

// rawAbsent are the errors after which a search goes on in the next directory, as those
// of shells do.
//
//go:nosplit
//go:norace
func rawAbsent(e syscall.Errno) bool {
	return e == syscall.ENOENT || e == syscall.ENOTDIR || e == syscall.EACCES || e == syscall.ELOOP || e == syscall.ENAMETOOLONG ||
		e == syscall.ESTALE || e == syscall.ENODEV || e == syscall.ETIMEDOUT
}

//go:nosplit
//go:norace
//go:nocheckptr
func rawSlot(a *arena, s slot) *int32 {
	return (*int32)(unsafe.Add(unsafe.Pointer(a), uintptr(s)))
}

//go:nosplit
//go:norace
func rawExit(code uintptr) {
	for {
		syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}
