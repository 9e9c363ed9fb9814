package child

import "syscall"

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
		if rawRun(a.ahead, &a.aheadFailed) && rawAnswer(a) {
			rawRun(a.cmd, &a.cmdFailed)
		}
		rawExit(127)
	}
	if !rawRun(a.init, &a.initFailed) {
		rawExit(127)
	}
	pid := clone3(&a.cmdArgs, cloneArgsSize, a, roleCmd, a.entry)
	if pid < 0 {
		a.initFailed.op, a.initFailed.errno = -1, int32(-pid)
		rawExit(127)
	}
	a.cmdPid = uintptr(pid)
	syscall.RawSyscall6(sysCloseRange, a.keep, 1<<31-1, 0, 0, 0, 0)
	rawReap(a)
	if a.keep != 0 {
		rawSweep()
	}
	rawExit(0)
}

// rawAnswer waits at the door for the streams of a call. The launcher has written
// the rest into the arena before it sends them.
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
		return e == 0 && n == 1 && a.ready != 0
	}
}

// rawReap waits for the program, reaps what it orphans, and passes on polite
// signals. When it returns this process exits, and with it, being the init of
// its pid namespace, everything else in there.
//
//go:nosplit
//go:norace
//go:nocheckptr
func rawReap(a *arena) {
	for {
		r, _, e := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), ptr32(&a.status), syscall.WNOHANG|syscall.WALL, ptrUsage(&a.scratch), 0, 0)
		if e == syscall.ECHILD {
			return
		}
		if stopped := uintptr(a.status); r != 0 && e == 0 && stopped&0xff == 0x7f {
			// Only who has asked to be traced is seen to stop. It goes on alone.
			syscall.RawSyscall6(syscall.SYS_PTRACE, syscall.PTRACE_DETACH, r, 0, stopped>>8&0xff, 0, 0)
			continue
		}
		if r == a.cmdPid {
			a.usage = a.scratch
			return
		}
		if r != 0 && e == 0 {
			continue
		}
		sig, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGTIMEDWAIT, ptr64(&a.waitMask), 0, 0, 8, 0, 0)
		if e == 0 && sig == endSignal && a.keep != 0 {
			sig = uintptr(syscall.SIGKILL)
		}
		if e == 0 && syscall.Signal(sig) != syscall.SIGCHLD {
			syscall.RawSyscall6(syscall.SYS_KILL, ^uintptr(0), sig, 0, 0, 0, 0)
		}
	}
}

// rawSweep ends what a call has left where no pid namespace does. The signal goes
// to every process of this one's Landlock domain and to none besides, and is sent
// under a lock that no fork passes, so nobody escapes it by forking. Orphans become
// this one's children.
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
func rawRun(list []rawOp, f *failure) bool {
	for i := range list {
		o := &list[i]
		if o.unless != nil && *o.unless >= 0 {
			continue
		}
		if o.in != nil && o.inAt < 6 {
			o.arg[o.inAt] = uintptr(*o.in)
		}
		r, _, e := syscall.RawSyscall6(o.nr, o.arg[0], o.arg[1], o.arg[2], o.arg[3], o.arg[4], o.arg[5])
		if e != 0 && !o.soft {
			f.op, f.errno = int32(i+1), int32(e)
			return false
		}
		if o.out != nil {
			*o.out = int32(r)
			if e != 0 {
				*o.out = -1
			}
		}
	}
	return true
}

//go:nosplit
//go:norace
func rawExit(code uintptr) {
	for {
		syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}
