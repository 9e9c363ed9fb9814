package script

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Op is one system call of a list.
type Op struct {
	Name string // "mount /proc", for errors and golden files

	NR     uintptr    // number of the system call
	Arg    [6]uintptr // pointers point into the [Area]
	Out    Cell       // the result is stored here; after an error, -1
	In     Cell       // replaces the first argument
	Unless Cell       // the operation is skipped if this holds a descriptor
	Ignore Ignored    // errors that do not end the list
}

func (o Op) String() string { return o.Name }

// Ignored says which errors of an operation do not end its list. The zero value is none.
type Ignored uint32

const (
	AnyError Ignored = iota + 1 // no error ends the list; the launcher reports what is missing
	NotFound                    // the errors after which a shell tries the next directory of PATH
)

const (
	AtFDCWD       = ^uintptr(99) // AT_FDCWD is -100
	SysCloseRange = 436          // the same on every architecture
)

// Cell is an int32 in shared memory, by its distance from the beginning. 0 is none.
type Cell uint32

// Raw is an Op without anything that the garbage collector follows.
type Raw struct {
	NR              uintptr
	Arg             [6]uintptr
	Out, In, Unless Cell
	Ignore          Ignored
}

// RawSize is the distance of two encoded operations.
const RawSize = int(unsafe.Sizeof(Raw{}))

// List collects operations.
type List []Op

// Add appends an operation and returns it, valid until the next Add.
func (l *List) Add(name string, nr uintptr, args ...uintptr) *Op {
	o := Op{Name: name, NR: nr}
	copy(o.Arg[:], args)
	*l = append(*l, o)
	return &(*l)[len(*l)-1]
}

// Explain says which operation of a list failed, and why.
func Explain(f wire.Failure, what string, list []Op) string {
	name := "?"
	if i := int(f.Op) - 1; i >= 0 && i < len(list) {
		name = list[i].Name
	}
	return fmt.Sprintf("%s: op %d %s: %v", what, f.Op, name, syscall.Errno(f.Errno))
}
