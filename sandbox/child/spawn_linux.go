package child

import (
	"fmt"
	"reflect"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The flags of clone3 that x/sys types as int overflow on 32 bits, so here they are.
const cloneClearSighand = 0x100000000

// spawn clones the init process of a call and returns at once. The init process
// makes its namespaces and clones the process that confines itself and then waits
// at the door until it is told which program to become.
//
// It shares this process's memory: copying the page tables and then faulting on
// every page that either side touches costs a millisecond. No instruction of a
// caller ever runs there, and nobody can look into it, for it is not dumpable.
func (a *arena) spawn(flags uint64) (pid, pidfd int, err error) {
	a.waitMask = ^uint64(0)
	a.entry = reflect.ValueOf(rawMain).Pointer()
	a.cmdArgs = cloneArgs{
		flags:      unix.CLONE_VM | cloneClearSighand,
		exitSignal: uint64(unix.SIGCHLD),
		stack:      a.stack(1),
		stackSize:  stackSize,
	}
	a.doorIov = [2]syscall.Iovec{
		{Base: (*byte)(unsafe.Pointer(&a.head)), Len: uint64(headSize)}, {Base: &a.buf[a.used], Len: uint64(a.room())},
	}
	a.door = syscall.Msghdr{Iov: &a.doorIov[0], Iovlen: 2, Control: &a.doorCtl[0], Controllen: uint64(len(a.doorCtl))}
	// No signal at its end: the launcher polls, and Go's handler would run for
	// nothing.
	args := cloneArgs{
		flags:     flags | cloneClearSighand | unix.CLONE_VM | unix.CLONE_PIDFD,
		pidfd:     uint64(ptr32(&a.pidfd)),
		stack:     a.stack(0),
		stackSize: stackSize,
	}
	// With every signal blocked, the Go runtime's handlers cannot run in the new
	// process before they are cleared, and the init keeps the mask: what comes
	// in is taken by rt_sigtimedwait.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, old := ^uint64(0), uint64(0)
	if _, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, ptr64(&all), ptr64(&old), 8, 0, 0); e != 0 {
		return 0, 0, fmt.Errorf("block signals: %w", e)
	}
	pid = clone3(&args, cloneArgsSize, a, roleInit, a.entry)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, ptr64(&old), 0, 8, 0, 0)
	if pid < 0 {
		return 0, 0, fmt.Errorf("clone the init process of a call: %w", syscall.Errno(-pid))
	}
	return pid, int(a.pidfd), nil
}
