package child

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// area hands out memory of an arena, from the front. It may be a copy that is sent to
// where the arena is.
type area struct {
	buf  []byte
	used int
	from int     // distance of buf from the beginning of the arena
	at   uintptr // address of buf where the operations run
}

// alloc gives n zeroed bytes. The area is sized for its call (see
// [Call.Room]); running out of it is a bug.
func (m *area) alloc(n int) []byte {
	if m.used+n > len(m.buf) {
		panic("the arena of a call is too small")
	}
	b := m.buf[m.used : m.used+n : m.used+n]
	m.used += (n + 15) &^ 15
	return b
}

func (m *area) offset(b []byte) int { return int(addr(b) - addr(m.buf)) }

// addr is where b is when the operations run.
func (m *area) addr(b []byte) uintptr { return m.at + uintptr(m.offset(b)) }

// slot is that of an int32 at off bytes into b.
func (m *area) slot(b []byte, off int) slot { return slot(m.from + m.offset(b) + off) }

// str keeps s with its NUL.
func (m *area) str(s string) uintptr {
	b := m.alloc(len(s) + 1)
	copy(b, s)
	return m.addr(b)
}

func (m *area) strs(list []string) uintptr {
	b := m.alloc(8 * (len(list) + 1))
	p := unsafe.Slice((*uintptr)(unsafe.Pointer(&b[0])), len(list)+1)
	for i, s := range list {
		p[i] = m.str(s)
	}
	return m.addr(b)
}

// ops keeps a list as it is run.
func (m *area) ops(list []Op) []rawOp {
	if len(list) == 0 {
		return nil
	}
	b := m.alloc(len(list) * rawOpSize)
	raw := unsafe.Slice((*rawOp)(unsafe.Pointer(&b[0])), len(list))
	for i, o := range list {
		raw[i] = rawOp{nr: o.nr, arg: o.arg, out: o.out, in: o.in, inAt: o.inAt, unless: o.unless, soft: o.soft}
	}
	return raw
}

// arena is memory outside the Go heap that one call's processes share with the
// launcher.
type arena struct {
	area
	init, ahead []rawOp
	entry       uintptr // of rawMain

	cmdArgs     cloneArgs
	waitMask    uint64
	initFailed  Failure
	aheadFailed Failure

	door    syscall.Msghdr // what the daemon sends: how to become a program
	doorIov [2]syscall.Iovec
	doorCtl [32]byte
	head    scriptHead

	keep   [3]uintptr // descriptors that the init process keeps, ascending: its socket and the counters
	keeps  int
	bare   bool    // there is no pid namespace
	parent uintptr // the launcher
	self   uintptr // the init process, when there is no pid namespace
	pidfd  int32
	began  int32 // not 0: head came through the door, and with it the rest
	cmdPid uintptr

	ended    ended
	handed   slot         // what handing the listener of the filter to the launcher gave, or 0
	news     int32        // acts that the launcher was asked about, and the end that it or its death brought
	counters [2][128]byte // of the control group, when it was joined
	told     int32        // not 0: the init process has told its end to the daemon itself
}

type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

const stackSize = 32 << 10

func newArena(size int) (*arena, error) {
	buf, err := syscall.Mmap(-1, 0, size+2*stackSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for a call: %w", size, err)
	}
	a := (*arena)(unsafe.Pointer(&buf[0]))
	a.area = area{buf: buf[:size], used: arenaHead, at: addr(buf)}
	return a, nil
}

func (a *arena) whole() []byte { return a.buf[:len(a.buf)+2*stackSize] }

func (a *arena) free() { _ = syscall.Munmap(a.whole()) }

// reset makes the arena as good as new. Nobody may use it any more.
func (a *arena) reset() {
	m := a.area
	clear(m.buf[:min(m.used+int(a.head.Size), len(m.buf))])
	m.used = arenaHead
	a.area = m
}

// room is what is left for the script of a call.
func (a *arena) room() int { return len(a.buf) - a.used }

// keepOnly says which descriptors the init process keeps.
func (a *arena) keepOnly(g *group, bare bool) {
	a.bare, a.parent, a.keep[0], a.keeps = bare, uintptr(os.Getpid()), socketFD, 1
	if g != nil {
		for i, fd := range g.counters() {
			a.keep[i+1] = uintptr(fd)
		}
		a.keeps = 3
	}
}

const arenaHead = (int(unsafe.Sizeof(arena{})) + 63) &^ 63

// stack is the beginning of the n-th stack, behind the area.
func (a *arena) stack(n int) uint64 { return uint64(a.at) + uint64(len(a.buf)+n*stackSize) }

func addr(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
