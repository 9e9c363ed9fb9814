package seccomp

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Offsets into struct seccomp_data.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

func stmt(code uint16, k uint32) wire.Insn { return wire.Insn{Code: code, K: k} }

func jump(code uint16, k uint32, jt, jf uint8) wire.Insn {
	return wire.Insn{Code: code, Jt: jt, Jf: jf, K: k}
}

func fail(e unix.Errno) wire.Insn {
	return stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(e))
}

var (
	load  = uint16(unix.BPF_LD | unix.BPF_W | unix.BPF_ABS)
	jeq   = uint16(unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K)
	jge   = uint16(unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K)
	jset  = uint16(unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K)
	allow = stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
)

// filter assembles a table. No call may appear in it twice.
func filter(rules []rule) []wire.Insn {
	p := []wire.Insn{
		// Another architecture means other numbers for the same calls.
		stmt(load, dataArch), jump(jeq, auditArch, 1, 0), fail(unix.ENOSYS),
		stmt(load, dataNr),
	}
	if x32Bit != 0 {
		p = append(p, jump(jge, x32Bit, 0, 1), fail(unix.ENOSYS))
	}
	sorted := slices.SortedFunc(slices.Values(rules), func(a, b rule) int { return cmp.Compare(a.nr, b.nr) })
	return append(p, search(sorted)...)
}

// search finds the rule of a call by binary search. This is not only for the calls'
// sake: the filter is installed for each program, and the kernel then runs it once for
// every call number, to remember the calls that are always allowed.
func search(rules []rule) []wire.Insn {
	if len(rules) <= 2 {
		var p []wire.Insn
		for _, r := range rules {
			body := r.body()
			p = append(p, jump(jeq, r.nr, 0, uint8(len(body))))
			p = append(p, body...)
		}
		return append(p, allow)
	}
	mid := len(rules) / 2
	low, high := search(rules[:mid]), search(rules[mid:])
	// A conditional jump reaches 255 instructions, BPF_JA any number.
	p := []wire.Insn{jump(jge, rules[mid].nr, 0, 1), stmt(unix.BPF_JMP|unix.BPF_JA, uint32(len(low)))}
	return slices.Concat(p, low, high)
}

// body returns the instructions of a rule. Every path ends with a return.
func (r rule) body() []wire.Insn {
	if r.when == nil {
		return []wire.Insn{fail(r.errno)}
	}
	var p []wire.Insn
	for _, c := range r.when {
		fail := func(e unix.Errno) wire.Insn {
			if c.errno != 0 {
				e = c.errno
			}
			return fail(e)
		}
		arg := func(n int) wire.Insn { return stmt(load, uint32(dataArgs+8*n)) }
		switch {
		case c.ifBits != 0:
			p = append(p, arg(c.bitArg), jump(jset, c.ifBits, 0, 3), arg(c.arg), jump(jset, c.anyBit, 0, 1),
				fail(r.errno))
		case c.anyBit != 0:
			p = append(p, arg(c.arg), jump(jset, c.anyBit, 0, 1), fail(r.errno))
		case c.equal != nil:
			p = append(p, arg(c.arg))
			for _, v := range c.equal {
				p = append(p, jump(jeq, v, 0, 1), fail(r.errno))
			}
		case c.except != nil:
			if n := len(c.ifOneOf); n > 0 {
				p = append(p, arg(c.ifArg))
				for i, v := range c.ifOneOf {
					// A match continues with the other argument. The last miss skips it.
					miss := uint8(0)
					if i == n-1 {
						miss = uint8(len(c.except) + 2)
					}
					p = append(p, jump(jeq, v, uint8(n-1-i), miss))
				}
			}
			p = append(p, arg(c.arg))
			for i, v := range c.except {
				// A match skips the refusal.
				p = append(p, jump(jeq, v, uint8(len(c.except)-i), 0))
			}
			p = append(p, fail(r.errno))
		}
	}
	return append(p, allow)
}
