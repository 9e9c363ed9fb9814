package child

import (
	"fmt"
	"reflect"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"golang.org/x/sys/unix"
)

// cloneClearSighand is CLONE_CLEAR_SIGHAND. The constant of x/sys overflows an int of 32 bits.
const cloneClearSighand = 0x100000000

// spawn clones the init process of a call and returns at once. The init process is in the
// namespaces of the flags; it clones the process that confines itself and waits at the slot
// until a script says which program to become.
//
// The init process shares this process's memory. To copy the page tables, and to fault on
// every page that either side touches, would cost a millisecond. It never runs an instruction
// of a caller, and no other process can read it, because it is not dumpable.
func (a *arena) spawn(flags uint64) (pid, pidfd int, err error) {
	a.waitMask = ^uint64(0)
	a.entry = reflect.ValueOf(rawMain).Pointer()
	a.cmdArgs = cloneArgs{
		flags:      unix.CLONE_VM | cloneClearSighand,
		exitSignal: uint64(unix.SIGCHLD),
		stack:      a.stack(1),
		stackSize:  stackSize,
	}
	a.slotIov = [2]syscall.Iovec{
		{
			Base: (*byte)(unsafe.Pointer(&a.mail.Head)),
			Len:  uint64(script.HeadSize),
		}, {Base: &a.Buf[a.Used], Len: uint64(a.room())},
	}
	a.slot = syscall.Msghdr{
		Iov:        &a.slotIov[0],
		Iovlen:     2,
		Control:    &a.mail.Control[0],
		Controllen: uint64(len(a.mail.Control)),
	}
	// No signal at its end: the launcher polls its pidfd.
	args := cloneArgs{
		flags:     flags | cloneClearSighand | unix.CLONE_VM | unix.CLONE_PIDFD,
		pidfd:     uint64(ptr32(&a.pidfd)),
		stack:     a.stack(0),
		stackSize: stackSize,
	}
	// All signals are blocked, so that no handler of the Go runtime can run in the new
	// process before the handlers are cleared. The init process keeps the mask, and
	// receives signals by rt_sigtimedwait.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, old := ^uint64(0), uint64(0)
	_, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, ptr64(&all), ptr64(&old), 8, 0, 0)
	if e != 0 {
		return 0, 0, fmt.Errorf("block signals: %w", e)
	}
	pid = clone3(&args, cloneArgsSize, a, roleInit, a.entry)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, ptr64(&old), 0, 8, 0, 0)
	if pid < 0 {
		return 0, 0, fmt.Errorf("clone the init process of a call: %w", syscall.Errno(-pid))
	}
	return pid, int(a.pidfd), nil
}
