package child

import (
	"fmt"
	"strings"
	"syscall"
	"unsafe"
)

// Op is one system call of a list that is run where no Go code may run. Memory
// that its arguments point at lies in the call's arena.
type Op struct {
	Name string // "mount /proc", for errors and goldens

	nr   uintptr
	arg  [6]uintptr
	out  *int32 // where the result goes, if not nil
	in   *int32 // replaces argument inAt when not nil
	inAt uintptr
	soft bool // an error is not fatal: the layer is reported as missing elsewhere
	// unless skips the operation when it is a descriptor.
	unless *int32
}

func (o Op) String() string { return o.Name }

// rawOp is an Op without anything that the garbage collector looks at.
type rawOp struct {
	nr   uintptr
	arg  [6]uintptr
	out  *int32
	in   *int32
	inAt uintptr
	soft bool

	unless *int32
}

// arena is memory outside the Go heap that one call's processes share with the
// launcher.
type arena struct {
	init, ahead, cmd []rawOp
	entry            uintptr // of rawMain
	env              uintptr // the environment of a call that adds nothing to it

	cmdArgs     cloneArgs
	emptyMask   uint64
	waitMask    uint64
	noWait      [2]uint64
	initFailed  failure
	aheadFailed failure
	cmdFailed   failure

	door    syscall.Msghdr // one byte and the three streams of a call
	doorIov syscall.Iovec
	doorCtl [32]byte
	knock   byte

	keep    uintptr // descriptors that the init process keeps; not 0: there is no pid namespace
	pidfd   int32
	ready   int32 // not 0: cmd is complete
	status  int32
	cmdPid  uintptr
	usage   syscall.Rusage
	scratch syscall.Rusage

	buf  []byte
	used int
}

type failure struct {
	op    int32 // 1-based
	errno int32
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
	a.buf, a.used = buf, arenaHead
	return a, nil
}

func (a *arena) free() { _ = syscall.Munmap(a.buf) }

// reset makes the arena as good as new. Nobody may use it any more.
func (a *arena) reset() {
	buf := a.buf
	clear(buf[:a.used])
	a.buf, a.used = buf, arenaHead
}

const arenaHead = (int(unsafe.Sizeof(arena{})) + 63) &^ 63

// alloc gives n zeroed bytes. The arena is sized for its call; running out of it
// is a bug, and the panic ends the launcher and so every call in it.
func (a *arena) alloc(n int) []byte {
	if a.used+n > len(a.buf)-2*stackSize {
		panic("the arena of a call is too small")
	}
	b := a.buf[a.used : a.used+n : a.used+n]
	a.used += (n + 15) &^ 15
	return b
}

// str keeps s with its NUL.
func (a *arena) str(s string) uintptr {
	b := a.alloc(len(s) + 1)
	copy(b, s)
	return addr(b)
}

func (a *arena) strs(list []string) uintptr {
	b := a.alloc(8 * (len(list) + 1))
	p := unsafe.Slice((*uintptr)(unsafe.Pointer(&b[0])), len(list)+1)
	for i, s := range list {
		p[i] = a.str(s)
	}
	return addr(b)
}

func (a *arena) ops(list []Op) []rawOp {
	if len(list) == 0 {
		return nil
	}
	b := a.alloc(len(list) * int(unsafe.Sizeof(rawOp{})))
	raw := unsafe.Slice((*rawOp)(unsafe.Pointer(&b[0])), len(list))
	for i, o := range list {
		raw[i] = rawOp{o.nr, o.arg, o.out, o.in, o.inAt, o.soft, o.unless}
	}
	return raw
}

// stack is the top of the n-th stack at the end of the arena.
func (a *arena) stack(n int) uint64 {
	return uint64(addr(a.buf)) + uint64(len(a.buf)-(2-n)*stackSize)
}

func addr(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// place is an int32 in the arena at off bytes into the memory at b.
func place(b []byte, off int) *int32 { return (*int32)(unsafe.Pointer(&b[off])) }

func names(list []Op) []string {
	out := make([]string, len(list))
	for i, o := range list {
		out[i] = strings.ReplaceAll(o.Name, "\n", `\n`)
	}
	return out
}

// explain says which operation of a list failed.
func (f failure) explain(what string, list []Op) string {
	name := "?"
	if i := int(f.op) - 1; i >= 0 && i < len(list) {
		name = list[i].Name
	}
	return fmt.Sprintf("%s: op %d %s: %v", what, f.op, name, syscall.Errno(f.errno))
}
