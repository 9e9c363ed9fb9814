package child

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// callData is struct seccomp_data.
type callData struct {
	nr   int32
	arch uint32
	ip   uint64
	args [6]uint64
}

// runFilter decides about a system call as the kernel does. It knows the instructions that
// package seccomp uses.
func runFilter(filter []wire.Insn, d *callData) uint32 {
	var acc uint32
	for pc := 0; pc < len(filter); pc++ {
		in := filter[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			if in.K > uint32(unsafe.Sizeof(*d))-4 {
				return unix.SECCOMP_RET_KILL_PROCESS
			}
			acc = *(*uint32)(unsafe.Add(unsafe.Pointer(d), in.K))
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(acc == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(acc >= in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(acc&in.K != 0)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			return unix.SECCOMP_RET_KILL_PROCESS
		}
	}
	return unix.SECCOMP_RET_KILL_PROCESS
}
