package child

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// arena is memory outside the Go heap that the processes of one call share with the
// launcher. The mailbox is at its beginning: a script finds there the descriptors that came
// with it.
type arena struct {
	mail script.Mailbox
	script.Area
	init, confine []script.Raw // what the init process runs, and what confines the other one
	entry         uintptr      // of rawMain

	cmdArgs       cloneArgs
	waitMask      uint64
	initFailed    wire.Failure
	confineFailed wire.Failure

	slot    syscall.Msghdr // how to receive the script
	slotIov [2]syscall.Iovec

	keep         [3]uintptr // descriptors that the init process keeps, ascending: its socket and the counters
	keeps        int        // how many of those
	noNamespaces bool       // there is no pid namespace
	parent       uintptr    // pid of the launcher
	self         uintptr    // pid of the init process, if there is no pid namespace
	pidfd        int32
	gotScript    int32 // not 0: the script has come
	cmdPid       uintptr

	ended           wire.Ended
	listenerSent    script.Cell  // result of sending the listener of the filter to the launcher, or 0
	launcherReports int32        // not 0: the launcher has something to add to the end of the call
	counters        [2][128]byte // of the control group, before the call joined it
	reported        int32        // not 0: the init process has reported the end to the daemon itself
}

// usualRoom is enough for the scripts of most calls.
const usualRoom = 64 << 10

// cloneArgs is struct clone_args.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

const stackSize = 32 << 10

// newArena maps an arena of size bytes, and two stacks behind it.
func newArena(size int) (*arena, error) {
	const access, kind = syscall.PROT_READ | syscall.PROT_WRITE, syscall.MAP_PRIVATE | syscall.MAP_ANONYMOUS
	buf, err := syscall.Mmap(-1, 0, size+2*stackSize, access, kind)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for a call: %w", size, err)
	}
	a := (*arena)(unsafe.Pointer(&buf[0]))
	a.Area = script.Area{Buf: buf[:size], Used: arenaHead, At: addr(buf)}
	return a, nil
}

// whole returns the arena with its stacks.
func (a *arena) whole() []byte { return a.Buf[:len(a.Buf)+2*stackSize] }

func (a *arena) free() { _ = syscall.Munmap(a.whole()) }

// reset clears the arena for the next call. No process may use it any more.
func (a *arena) reset() {
	m := a.Area
	clear(m.Buf[:min(m.Used+int(a.mail.Head.Size), len(m.Buf))])
	m.Used = arenaHead
	a.Area = m
}

// room returns how many bytes are left for the script of a call.
func (a *arena) room() int { return len(a.Buf) - a.Used }

// keepOnly sets which descriptors the init process keeps.
func (a *arena) keepOnly(g *group, noNamespaces bool) {
	a.noNamespaces, a.parent, a.keep[0], a.keeps = noNamespaces, uintptr(os.Getpid()), wire.SocketFD, 1
	if g != nil {
		for i, fd := range g.counters() {
			a.keep[i+1] = uintptr(fd)
		}
		a.keeps = 3
	}
}

const arenaHead = (int(unsafe.Sizeof(arena{})) + 63) &^ 63

// stack returns the address of the n-th stack.
func (a *arena) stack(n int) uint64 { return uint64(a.At) + uint64(len(a.Buf)+n*stackSize) }

// The mailbox is at the beginning of every arena.
var _ [0]struct{} = [unsafe.Offsetof(arena{}.mail)]struct{}{}
