package sandbox

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// sysRule is what the filter does with one system call. Without a condition it is
// refused; everything that has no rule is allowed, for the list of what
// developers need is the kernel's.
type sysRule struct {
	nr    uint32
	errno unix.Errno
	when  []cond // any of them refuses; nil: always
}

// cond looks at the low half of one argument, as the kernel does with flags,
// modes and ioctl numbers: they are 32 bits wide.
type cond struct {
	errno   unix.Errno // instead of the rule's, if not 0
	arg     int
	anyBit  uint32   // one of these bits is set …
	bitArg  int      // … and, if ifBits is not 0, one of ifBits in this argument
	ifBits  uint32   //
	equal   []uint32 // it is one of these
	except  []uint32 // it is none of these …
	ifArg   int      // … and, if ifOneOf is not nil, this argument
	ifOneOf []uint32 // is one of these
}

const (
	namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME
	// CLONE_NEWTIME shares a bit with the exit signal of clone.
	cloneNamespaces = namespaces &^ unix.CLONE_NEWTIME
	setID           = unix.S_ISUID | unix.S_ISGID
	device          = unix.S_IFCHR // a bit that S_IFBLK has too, and nothing else that can be made
	mayCreate       = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
)

func refuse(errno unix.Errno, nrs ...uint32) []sysRule {
	var out []sysRule
	for _, nr := range nrs {
		out = append(out, sysRule{nr: nr, errno: errno})
	}
	return out
}

// sysRules is the deny table. sockets is false on the rung without a network
// namespace, where no family may be opened: Landlock lets Unix and UDP through.
func sysRules(sockets bool) []sysRule {
	var t []sysRule
	add := func(r ...sysRule) { t = append(t, r...) }

	// Mounting, in its old and new form, and other roots.
	add(refuse(unix.EPERM, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE_ATTR)...)

	// New namespaces give a program capabilities over a part of the kernel that
	// was written for root. clone3 keeps its flags in memory, where a filter
	// cannot look; ENOSYS makes every C library fall back to clone.
	add(sysRule{unix.SYS_CLONE, unix.EPERM, []cond{{arg: cloneFlagsArg, anyBit: cloneNamespaces}}},
		sysRule{unix.SYS_UNSHARE, unix.EPERM, []cond{{arg: 0, anyBit: namespaces}}})
	add(refuse(unix.ENOSYS, unix.SYS_CLONE3)...)
	add(refuse(unix.EPERM, unix.SYS_SETNS)...)

	// openat2 hides its flags in the same way; libraries fall back to openat.
	add(refuse(unix.ENOSYS, unix.SYS_OPENAT2)...)

	// Set-user-id bits would outlive the cage, in a file that somebody else runs.
	mode := func(nr uint32, arg int) sysRule {
		return sysRule{nr, unix.EPERM, []cond{{arg: arg, anyBit: setID}}}
	}
	add(mode(unix.SYS_FCHMOD, 1), mode(unix.SYS_FCHMODAT, 2), mode(unix.SYS_FCHMODAT2, 2))
	// Nor devices, which no file system in here would honour anyway.
	add(sysRule{unix.SYS_MKNODAT, unix.EPERM, []cond{{arg: 2, anyBit: setID | device}}})
	add(sysRule{unix.SYS_OPENAT, unix.EPERM, []cond{{arg: 3, anyBit: setID, bitArg: 2, ifBits: mayCreate}}})

	// io_uring runs calls that no filter sees.
	add(refuse(unix.ENOSYS, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER)...)

	// Kernel keyrings are shared by all processes of a uid, the caller's included.
	add(refuse(unix.EPERM, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY)...)

	// Large parts of the kernel with a history, or with other processes' memory.
	add(refuse(unix.EPERM, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP)...)

	// File handles reach files without a path, and so past every mount.
	add(refuse(unix.EPERM, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK)...)

	// The machine itself: it has no business here, with or without capabilities.
	add(refuse(unix.EPERM, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETTIMEOFDAY,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_REBOOT,
		unix.SYS_SYSLOG, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
		unix.SYS_LSM_SET_SELF_ATTR)...) // a profile of another security module

	// Personalities other than the usual one (and the one debuggers use) turn
	// off protections such as address randomisation for every exec that follows.
	add(sysRule{unix.SYS_PERSONALITY, unix.EPERM, []cond{{arg: 0, except: []uint32{0, 0x0040000, 0xffffffff}}}})

	add(sysRule{unix.SYS_IOCTL, unix.EPERM, []cond{{arg: 1, equal: terminalIoctls}}})

	// A lease on a file, for which reading it is enough, makes the host's writers wait.
	add(sysRule{unix.SYS_FCNTL, unix.EPERM, []cond{{arg: 1, equal: []uint32{unix.F_SETLEASE}}}})

	if !sockets {
		return bareRules(append(t, archRules()...))
	}
	// Unix sockets, IP, and the routing family that lists interfaces; not
	// packets, not the hypervisor (AF_VSOCK has no namespace), not the rest.
	add(sysRule{nr: unix.SYS_SOCKET, errno: unix.EAFNOSUPPORT, when: []cond{
		{arg: 0, except: []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}},
		{arg: 2, except: []uint32{unix.NETLINK_ROUTE}, ifArg: 0, ifOneOf: []uint32{unix.AF_NETLINK}, errno: unix.EPROTONOSUPPORT},
		// Landlock's rule on TCP servers does not see MPTCP, SCTP and the like.
		// Go's listeners try MPTCP first and fall back.
		{arg: 2, except: []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6}, ifArg: 0, ifOneOf: []uint32{unix.AF_INET, unix.AF_INET6}, errno: unix.EPROTONOSUPPORT},
	}})
	return append(t, archRules()...)
}

// terminalIoctls: the first two put characters into the input of a terminal, where the
// caller's own shell reads them when the call is over; TIOCSETD loads line disciplines,
// old kernel modules that nobody looks after; TIOCCONS takes the console.
var terminalIoctls = []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.TIOCCONS}

// Offsets into struct seccomp_data.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

func stmt(code uint16, k uint32) child.Insn { return child.Insn{Code: code, K: k} }

func jump(code uint16, k uint32, jt, jf uint8) child.Insn {
	return child.Insn{Code: code, Jt: jt, Jf: jf, K: k}
}

func fail(e unix.Errno) child.Insn {
	return stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(e))
}

var (
	load  = uint16(unix.BPF_LD | unix.BPF_W | unix.BPF_ABS)
	jeq   = uint16(unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K)
	jge   = uint16(unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K)
	jset  = uint16(unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K)
	allow = stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
)

// filter assembles the table, in which no call appears twice.
func filter(rules []sysRule) []child.Insn {
	p := []child.Insn{
		// Another architecture means other numbers for the same calls.
		stmt(load, dataArch), jump(jeq, auditArch, 1, 0), fail(unix.ENOSYS),
		stmt(load, dataNr),
	}
	if x32Bit != 0 {
		p = append(p, jump(jge, x32Bit, 0, 1), fail(unix.ENOSYS))
	}
	sorted := slices.SortedFunc(slices.Values(rules), func(a, b sysRule) int { return cmp.Compare(a.nr, b.nr) })
	return append(p, search(sorted)...)
}

// search finds the rule of a call by halving, and not only for the calls' sake:
// when the filter is installed, which happens for each program, the kernel runs it
// once for every number there is, to remember those that are always allowed. As a
// chain of comparisons that was a tenth of what a call costs.
func search(rules []sysRule) []child.Insn {
	if len(rules) <= 2 {
		var p []child.Insn
		for _, r := range rules {
			body := r.body()
			p = append(p, jump(jeq, r.nr, 0, uint8(len(body))))
			p = append(p, body...)
		}
		return append(p, allow)
	}
	mid := len(rules) / 2
	low, high := search(rules[:mid]), search(rules[mid:])
	// Conditional jumps reach 255 instructions, this one any number.
	p := []child.Insn{jump(jge, rules[mid].nr, 0, 1), stmt(unix.BPF_JMP|unix.BPF_JA, uint32(len(low)))}
	return slices.Concat(p, low, high)
}

// body ends every path with a return.
func (r sysRule) body() []child.Insn {
	if r.when == nil {
		return []child.Insn{fail(r.errno)}
	}
	var p []child.Insn
	for _, c := range r.when {
		fail := func(e unix.Errno) child.Insn {
			if c.errno != 0 {
				e = c.errno
			}
			return fail(e)
		}
		arg := func(n int) child.Insn { return stmt(load, uint32(dataArgs+8*n)) }
		switch {
		case c.ifBits != 0:
			p = append(p, arg(c.bitArg), jump(jset, c.ifBits, 0, 3), arg(c.arg), jump(jset, c.anyBit, 0, 1), fail(r.errno))
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
					// Into the test of the other argument, or, after the last, behind it.
					miss := uint8(0)
					if i == n-1 {
						miss = uint8(len(c.except) + 2)
					}
					p = append(p, jump(jeq, v, uint8(n-1-i), miss))
				}
			}
			p = append(p, arg(c.arg))
			for i, v := range c.except {
				// To behind the refusal when it is one of them.
				p = append(p, jump(jeq, v, uint8(len(c.except)-i), 0))
			}
			p = append(p, fail(r.errno))
		}
	}
	return append(p, allow)
}
