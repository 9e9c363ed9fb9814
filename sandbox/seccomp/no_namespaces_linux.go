package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// withoutNamespaces returns the rules of the isolation level without namespaces: the
// common ones, and one for each thing that a namespace would otherwise isolate.
func withoutNamespaces(common []rule) []rule {
	var t []rule
	add := func(r ...rule) { t = append(t, r...) }
	const self = 0 // the number by which a process names itself

	// No socket of any family: Landlock lets Unix and UDP sockets through. connect and
	// bind are refused too, because a datagram socket that the caller passed in could be
	// pointed elsewhere.
	add(refuse(unix.EPERM, unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND)...)
	// A pair of datagram sockets can send to any name; SOCK_RAW becomes one.
	var kinds []uint32
	for _, kind := range []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET} {
		kinds = append(kinds, kind, kind|unix.SOCK_CLOEXEC, kind|unix.SOCK_NONBLOCK,
			kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	}
	add(rule{unix.SYS_SOCKETPAIR, unix.EPERM, []condition{
		{arg: 0, except: []uint32{unix.AF_UNIX}},
		{arg: 1, except: kinds},
	}})

	// The host's queues and segments can be reached by number and by name.
	add(refuse(unix.EPERM, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP,
		unix.SYS_SEMTIMEDOP,
		unix.SYS_SEMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN,
		unix.SYS_MQ_UNLINK)...)

	// Landlock has no right for these, so they would change any file of the user.
	add(refuse(unix.EPERM, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
		unix.SYS_FILE_SETATTR)...)
	add(refuse(unix.EPERM, archNoNamespacesCalls...)...)
	add(rule{unix.SYS_IOCTL, unix.EPERM, []condition{{arg: 1, equal: slices.Concat(terminalIoctls, fileIoctls)}}})

	// Landlock has no right for these either. They would slow processes of the user.
	for _, nr := range []uint32{
		unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER,
		unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
	} {
		add(rule{nr, unix.EPERM, []condition{{arg: 0, except: []uint32{self}}}})
	}
	add(rule{unix.SYS_SETPRIORITY, unix.EPERM, []condition{{arg: 0, except: []uint32{
		unix.PRIO_PROCESS,
		unix.PRIO_PGRP,
	}}, {arg: 1, except: []uint32{self}}}})
	const ioprioUser = 3
	add(rule{unix.SYS_IOPRIO_SET, unix.EPERM, []condition{
		{arg: 0, equal: []uint32{ioprioUser}},
		{arg: 1, except: []uint32{self}},
	}})
	add(rule{unix.SYS_FCNTL, unix.EPERM, []condition{{arg: 1, equal: []uint32{
		unix.F_SETOWN, unix.F_SETOWN_EX,
		unix.F_SETLEASE,
	}}}})

	// These rules replace common rules for the same calls.
	kept := slices.DeleteFunc(slices.Clone(common), func(r rule) bool {
		return slices.ContainsFunc(t, func(own rule) bool { return own.nr == r.nr })
	})
	return append(kept, t...)
}

// fileIoctls change a file or directory that is open only for reading.
var fileIoctls = []uint32{
	unix.FS_IOC_SETFLAGS, 0x40046602, 0x401c5820, // flags in both widths, flags and project
	0x40087602, 0x40086604, // version, version of ext4
	unix.FS_IOC_ENABLE_VERITY, unix.FS_IOC_SET_ENCRYPTION_POLICY, unix.FS_IOC_ADD_ENCRYPTION_KEY,
	unix.FS_IOC_REMOVE_ENCRYPTION_KEY,
	// make, remove and mark subvolumes of btrfs
	0x50009401, 0x5000940e, 0x5000940f, 0x50009417, 0x50009418, 0x5000943f, 0x4008941a,
	0x40047211, // attributes of FAT
}
