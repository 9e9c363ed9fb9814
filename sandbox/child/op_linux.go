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
	out  slot // where the result goes
	in   slot // replaces argument inAt
	inAt uint32
	soft soft
	// unless skips the operation when it holds a descriptor.
	unless slot
}

func (o Op) String() string { return o.Name }

// soft says which errors of an operation are not fatal.
type soft uint32

const (
	anyError soft = iota + 1 // the layer is reported as missing elsewhere
	absent                   // there is no such program
)

// slot is an int32 in an arena, by its distance from the arena's beginning; 0 is none.
type slot uint32

// rawOp is an Op without anything that the garbage collector looks at.
type rawOp struct {
	nr              uintptr
	arg             [6]uintptr
	out, in, unless slot
	inAt            uint32
	soft            soft
}

const rawOpSize = int(unsafe.Sizeof(rawOp{}))

func names(list []Op) []string {
	out := make([]string, len(list))
	for i, o := range list {
		out[i] = strings.ReplaceAll(o.Name, "\n", `\n`)
	}
	return out
}

// explain says which operation of a list failed.
func (f Failure) explain(what string, list []Op) string {
	name := "?"
	if i := int(f.Op) - 1; i >= 0 && i < len(list) {
		name = list[i].Name
	}
	return fmt.Sprintf("%s: op %d %s: %v", what, f.Op, name, syscall.Errno(f.Errno))
}
