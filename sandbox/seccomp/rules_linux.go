package seccomp

import "golang.org/x/sys/unix"

// rule is what the filter does with one system call. Without a condition the call is
// refused.
type rule struct {
	nr    uint32
	errno unix.Errno
	when  []condition // any of them refuses; nil: always
}

// condition compares the low half of one argument. The kernel does the same with flags,
// modes and ioctl numbers: they are 32 bits wide.
type condition struct {
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
	device          = unix.S_IFCHR // a bit that only S_IFBLK shares among what mknod makes
	mayCreate       = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
)

func refuse(errno unix.Errno, nrs ...uint32) []rule {
	var out []rule
	for _, nr := range nrs {
		out = append(out, rule{nr: nr, errno: errno})
	}
	return out
}

// rules returns the deny table of an isolation level. A call without a rule is allowed: the list of calls that
// developers need is the kernel's own list.
func rules(noNamespaces bool) []rule {
	t := append(commonRules(), archRules()...)
	if noNamespaces {
		return withoutNamespaces(t)
	}
	return append(t, socketRule())
}

// socketRule allows Unix sockets, IP, and the routing family that lists interfaces. It
// refuses packet sockets, the hypervisor (AF_VSOCK has no namespace) and all others.
func socketRule() rule {
	ip := []uint32{unix.AF_INET, unix.AF_INET6}
	return rule{nr: unix.SYS_SOCKET, errno: unix.EAFNOSUPPORT, when: []condition{
		{arg: 0, except: []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}},
		{
			arg: 2, except: []uint32{unix.NETLINK_ROUTE}, ifArg: 0, ifOneOf: []uint32{unix.AF_NETLINK},
			errno: unix.EPROTONOSUPPORT,
		},
		// Landlock's rule on TCP servers does not cover MPTCP, SCTP and the like.
		// Go's listeners try MPTCP first and fall back.
		{
			arg: 2, except: []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6},
			ifArg: 0, ifOneOf: ip, errno: unix.EPROTONOSUPPORT,
		},
	}}
}

// commonRules returns those of both isolation levels.
func commonRules() []rule {
	var t []rule
	add := func(r ...rule) { t = append(t, r...) }

	// Mounting, in its old and new form, and other roots.
	add(refuse(unix.EPERM, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE_ATTR)...)

	// A new namespace gives a program capabilities over a part of the kernel that
	// was written for root. clone3 keeps its flags in memory, which a filter cannot
	// read; ENOSYS makes every C library fall back to clone.
	add(rule{unix.SYS_CLONE, unix.EPERM, []condition{{arg: cloneFlagsArg, anyBit: cloneNamespaces}}},
		rule{unix.SYS_UNSHARE, unix.EPERM, []condition{{arg: 0, anyBit: namespaces}}})
	add(refuse(unix.ENOSYS, unix.SYS_CLONE3)...)
	add(refuse(unix.EPERM, unix.SYS_SETNS)...)

	// openat2 hides its flags in the same way; libraries fall back to openat.
	add(refuse(unix.ENOSYS, unix.SYS_OPENAT2)...)

	// A set-user-id bit would outlive the sandbox, in a file that somebody else runs.
	mode := func(nr uint32, arg int) rule {
		return rule{nr, unix.EPERM, []condition{{arg: arg, anyBit: setID}}}
	}
	add(mode(unix.SYS_FCHMOD, 1), mode(unix.SYS_FCHMODAT, 2), mode(unix.SYS_FCHMODAT2, 2))
	// Devices are refused too, although no file system in the sandbox honours them.
	add(rule{unix.SYS_MKNODAT, unix.EPERM, []condition{{arg: 2, anyBit: setID | device}}})
	add(rule{unix.SYS_OPENAT, unix.EPERM, []condition{{arg: 3, anyBit: setID, bitArg: 2, ifBits: mayCreate}}})

	// io_uring runs calls that no filter sees.
	add(refuse(unix.ENOSYS, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER)...)

	// Kernel keyrings are shared by all processes of a uid, the caller's included.
	add(refuse(unix.EPERM, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY)...)

	// Large parts of the kernel with a history of bugs, or access to other processes' memory.
	add(refuse(unix.EPERM, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD,
		unix.SYS_KCMP)...)

	// File handles reach files without a path, so no mount hides those.
	add(refuse(unix.EPERM, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
		unix.SYS_FANOTIFY_MARK)...)

	// Calls that change the machine itself, refused with or without capabilities.
	add(refuse(unix.EPERM, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETTIMEOFDAY,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_REBOOT,
		unix.SYS_SYSLOG, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
		unix.SYS_LSM_SET_SELF_ATTR)...) // a profile of another security module

	// Personalities turn off protections for every exec that follows, such as that a mapping at address 0 is refused.
	// Allowed are the usual one, the one without address randomisation, which debuggers use, and the question
	// which one it is.
	add(rule{unix.SYS_PERSONALITY, unix.EPERM, []condition{{arg: 0, except: []uint32{0, 0x0040000, 0xffffffff}}}})

	add(rule{unix.SYS_IOCTL, unix.EPERM, []condition{{arg: 1, equal: terminalIoctls}}})

	// A lease needs only read access to a file, and makes the host's writers wait.
	add(rule{unix.SYS_FCNTL, unix.EPERM, []condition{{arg: 1, equal: []uint32{unix.F_SETLEASE}}}})

	return t
}

// terminalIoctls are refused. TIOCSTI and TIOCLINUX put characters into the input of a
// terminal, where the caller's own shell reads them after the call. TIOCSETD loads line
// disciplines, old kernel modules that nobody maintains. TIOCCONS takes the console.
var terminalIoctls = []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.TIOCCONS}
