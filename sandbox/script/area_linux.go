package script

import "unsafe"

// Area allocates memory for the arguments of operations, from the front. Buf is that
// memory, or a copy that will be sent there.
type Area struct {
	Buf  []byte
	Used int
	At   uintptr // address of Buf where the operations run
	from int     // distance of Buf from the beginning of the shared memory
}

// Alloc returns n zeroed bytes. It panics when the area is full: an area is sized for
// its call by [Call.Room], so that is a bug.
func (m *Area) Alloc(n int) []byte {
	if m.Used+n > len(m.Buf) {
		panic("the area of a call is too small")
	}
	b := m.Buf[m.Used : m.Used+n : m.Used+n]
	m.Used += (n + 15) &^ 15
	return b
}

func (m *Area) offset(b []byte) int {
	return int(uintptr(unsafe.Pointer(&b[0])) - uintptr(unsafe.Pointer(&m.Buf[0])))
}

// addr returns the address of b where the operations run.
func (m *Area) addr(b []byte) uintptr { return m.At + uintptr(m.offset(b)) }

// Cell returns the int32 that lies off bytes into b.
func (m *Area) Cell(b []byte, off int) Cell { return Cell(m.from + m.offset(b) + off) }

// Str stores s with a NUL and returns its address.
func (m *Area) Str(s string) uintptr {
	b := m.Alloc(len(s) + 1)
	copy(b, s)
	return m.addr(b)
}

// strs stores a NULL-terminated array of strings.
func (m *Area) strs(list []string) uintptr {
	b := m.Alloc(8 * (len(list) + 1))
	p := unsafe.Slice((*uintptr)(unsafe.Pointer(&b[0])), len(list)+1)
	for i, s := range list {
		p[i] = m.Str(s)
	}
	return m.addr(b)
}

// Encode stores a list in the form in which it is run.
func (m *Area) Encode(list []Op) []Raw {
	if len(list) == 0 {
		return nil
	}
	b := m.Alloc(len(list) * RawSize)
	raw := unsafe.Slice((*Raw)(unsafe.Pointer(&b[0])), len(list))
	for i, o := range list {
		raw[i] = Raw{NR: o.NR, Arg: o.Arg, Out: o.Out, In: o.In, Unless: o.Unless, Ignore: o.Ignore}
	}
	return raw
}
