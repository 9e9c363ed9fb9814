package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func zero(n int) uintptr { return uintptr(unsafe.Pointer(&make([]byte, n)[0])) }

// refused are calls that the filter answers whatever their arguments.
func refused(want []error, calls map[string]uintptr) []attempt {
	var out []attempt
	for name, nr := range calls {
		out = append(out, attempt{name, want, func(world) error { return sys(nr, 0, 0, 0, 0, 0, 0) }})
	}
	return out
}

var kernelAttempts = append(append(refused(eperm, map[string]uintptr{
	"umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT,
	"open_tree": unix.SYS_OPEN_TREE, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN,
	"fsconfig": unix.SYS_FSCONFIG,
	"fsmount":  unix.SYS_FSMOUNT, "fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR,
	"open_tree_attr": unix.SYS_OPEN_TREE_ATTR,
	"setns":          unix.SYS_SETNS, "keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY,
	"request_key": unix.SYS_REQUEST_KEY,
	"bpf":         unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD,
	"name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
	"fanotify_init": unix.SYS_FANOTIFY_INIT, "fanotify_mark": unix.SYS_FANOTIFY_MARK,
	"kexec_load": unix.SYS_KEXEC_LOAD, "kexec_file_load": unix.SYS_KEXEC_FILE_LOAD, "init_module": unix.SYS_INIT_MODULE,
	"finit_module": unix.SYS_FINIT_MODULE, "delete_module": unix.SYS_DELETE_MODULE,
	"clock_settime": unix.SYS_CLOCK_SETTIME, "clock_adjtime": unix.SYS_CLOCK_ADJTIME, "adjtimex": unix.SYS_ADJTIMEX,
	"settimeofday": unix.SYS_SETTIMEOFDAY,
	"swapon":       unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF, "quotactl": unix.SYS_QUOTACTL,
	"quotactl_fd": unix.SYS_QUOTACTL_FD,
	"acct":        unix.SYS_ACCT, "reboot": unix.SYS_REBOOT, "syslog": unix.SYS_SYSLOG, "sethostname": unix.SYS_SETHOSTNAME,
	"setdomainname": unix.SYS_SETDOMAINNAME, "vhangup": unix.SYS_VHANGUP, "migrate_pages": unix.SYS_MIGRATE_PAGES,
	"move_pages": unix.SYS_MOVE_PAGES,
}), refused(enosys, map[string]uintptr{
	"clone3": unix.SYS_CLONE3, "io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER,
	"io_uring_register": unix.SYS_IO_URING_REGISTER,
})...), append([]attempt{
	{"mount", eperm, func(w world) error { return unix.Mount("tmpfs", w.Workspace, "tmpfs", 0, "") }},
	{"bind mount over a mask", eperm, func(w world) error {
		return unix.Mount(w.Workspace, w.SecretDir, "",
			unix.MS_BIND, "")
	}},
	{"mask unmounted", eperm, func(w world) error { return unix.Unmount(w.Secret, unix.MNT_DETACH) }},
	{"system remounted writable", eperm, func(world) error {
		return unix.Mount("", "/usr", "",
			unix.MS_REMOUNT|unix.MS_BIND, "")
	}},
	{"new user namespace", eperm, func(world) error { return unix.Unshare(unix.CLONE_NEWUSER) }},
	{"new user namespace by clone", eperm, func(world) error { return clone(unix.CLONE_NEWUSER) }},
	{"new mount namespace", eperm, func(world) error { return unix.Unshare(unix.CLONE_NEWNS) }},
	{"new mount namespace by clone", eperm, func(world) error { return clone(unix.CLONE_NEWNS) }},
	{"new pid namespace", eperm, func(world) error { return unix.Unshare(unix.CLONE_NEWPID) }},
	{"new pid namespace by clone", eperm, func(world) error { return clone(unix.CLONE_NEWPID) }},
	{"new net namespace", eperm, func(world) error { return unix.Unshare(unix.CLONE_NEWNET) }},
	{"new net namespace by clone", eperm, func(world) error { return clone(unix.CLONE_NEWNET) }},
	{"new ipc namespace", eperm, func(world) error { return unix.Unshare(unix.CLONE_NEWIPC) }},
	{"new uts namespace", eperm, func(world) error { return unix.Unshare(unix.CLONE_NEWUTS) }},
	{"new cgroup namespace", eperm, func(world) error { return unix.Unshare(unix.CLONE_NEWCGROUP) }},
	{"new time namespace", eperm, func(world) error { return unix.Unshare(unix.CLONE_NEWTIME) }},
	{"user and mount namespace at once", eperm, func(world) error {
		return unix.Unshare(unix.CLONE_NEWUSER |
			unix.CLONE_NEWNS)
	}},
	{
		"personality without randomisation of code", eperm,
		func(world) error { return sys(unix.SYS_PERSONALITY, 0x0400000) },
	},
	{
		"terminal on another discipline",
		[]error{unix.EPERM, unix.ENOTTY, unix.ENXIO},
		func(world) error { return sys(unix.SYS_IOCTL, 0, unix.TIOCSETD, zero(4)) },
	},
}, archAttempts...)...)

// clone asks for a child in new namespaces; none is made when that is refused.
func clone(flags uintptr) error {
	pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		for {
			syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
		}
	}
	return nil
}

var networkAttempts = []attempt{
	{
		"host's loopback",
		[]error{unix.ECONNREFUSED},
		func(w world) error { return dial("tcp", fmt.Sprint("127.0.0.1:", w.Port)) },
	},
	{
		"host's loopback by IPv6",
		[]error{unix.ECONNREFUSED, unix.EADDRNOTAVAIL, unix.ENETUNREACH},
		func(w world) error { return dial("tcp6", fmt.Sprint("[::1]:", w.Port)) },
	},
	{
		"host's loopback by another address",
		[]error{unix.ECONNREFUSED, unix.ENETUNREACH},
		func(w world) error { return dial("tcp", fmt.Sprint("127.0.0.2:", w.Port)) },
	},
	{"another host", []error{unix.ENETUNREACH}, func(world) error { return dial("tcp", "192.0.2.1:80") }},
	{
		"another host by IPv6",
		[]error{unix.ENETUNREACH, unix.EAFNOSUPPORT},
		func(world) error { return dial("tcp", "[2001:db8::1]:80") },
	},
	{"cloud metadata", []error{unix.ENETUNREACH}, func(world) error { return dial("tcp", "169.254.169.254:80") }},
	{"datagram to another host", []error{unix.ENETUNREACH}, func(world) error { return dial("udp", "192.0.2.1:53") }},
	{
		"broadcast",
		[]error{unix.ENETUNREACH, unix.EACCES},
		func(world) error { return dial("udp", "255.255.255.255:9") },
	},
	{"multicast", []error{unix.ENETUNREACH}, func(world) error { return dial("udp", "224.0.0.1:9") }},
	{"raw socket", eperm, func(world) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	{
		"raw IPv6 socket", append(eperm, unix.EAFNOSUPPORT),
		func(world) error { return socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6) },
	},
	{"packet socket", []error{unix.EAFNOSUPPORT}, func(world) error {
		return socket(unix.AF_PACKET, unix.SOCK_RAW,
			0)
	}},
	{
		"packet datagram socket",
		[]error{unix.EAFNOSUPPORT},
		func(world) error { return socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0) },
	},
	{"vsock", []error{unix.EAFNOSUPPORT}, func(world) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
	{
		"kernel crypto socket",
		[]error{unix.EAFNOSUPPORT},
		func(world) error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) },
	},
	{"bluetooth", []error{unix.EAFNOSUPPORT}, func(world) error { return socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 0) }},
	{"can bus", []error{unix.EAFNOSUPPORT}, func(world) error { return socket(unix.AF_CAN, unix.SOCK_RAW, 1) }},
	{"xdp", []error{unix.EAFNOSUPPORT}, func(world) error { return socket(unix.AF_XDP, unix.SOCK_RAW, 0) }},
	{"tipc", []error{unix.EAFNOSUPPORT}, func(world) error { return socket(unix.AF_TIPC, unix.SOCK_STREAM, 0) }},
	{"rds", []error{unix.EAFNOSUPPORT}, func(world) error { return socket(unix.AF_RDS, unix.SOCK_SEQPACKET, 0) }},
	{"key socket", []error{unix.EAFNOSUPPORT}, func(world) error { return socket(unix.AF_KEY, unix.SOCK_RAW, 2) }},
	{
		"netlink audit",
		[]error{unix.EPROTONOSUPPORT},
		func(world) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT) },
	},
	{
		"netlink netfilter",
		[]error{unix.EPROTONOSUPPORT},
		func(world) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER) },
	},
	{
		"netlink uevent",
		[]error{unix.EPROTONOSUPPORT},
		func(world) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT) },
	},
	{"loopback reconfigured", eperm, func(world) error {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		req, _ := unix.NewIfreq("lo")
		return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req)
	}},
	{"tunnel", hidden, func(world) error { return open("/dev/net/tun", unix.O_RDWR) }},
	{"daemon's socket", hidden, func(w world) error { return dial("unix", w.Private) }},
	{
		"daemon's abstract socket", append(notOurs, unix.ECONNREFUSED),
		func(w world) error { return dial("unix", w.Abstract) },
	},
	{
		"host's socket in the workspace", append(notOurs, unix.ECONNREFUSED),
		func(w world) error { return dial("unix", w.Socket) },
	},
	{
		"host's socket in the workspace moved away", append([]error{unix.EBUSY, unix.ECONNREFUSED}, notOurs...),
		func(w world) error {
			if err := unix.Rename(w.Socket, w.Workspace+"/s"); err != nil {
				return err
			}
			return dial("unix", w.Workspace+"/s")
		},
	},
	{"server on a port when that is not allowed", []error{unix.EACCES}, func(world) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	}},
}

var descriptorAttempts = []attempt{
	{"descriptors inherited", eperm, func(world) error {
		for fd := 3; fd < 1024; fd++ {
			link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
			// The runtime's own: epoll, eventfd, its control group file.
			if err == nil && (len(link) < 5 || link[:5] != "anon_") {
				if fi, err := os.Stat(fmt.Sprint("/proc/self/fd/", fd)); err == nil && !fi.IsDir() {
					return nil
				}
			}
		}
		return unix.EPERM
	}},
	{
		"host file on standard input reopened", append(notOurs, unix.ENOENT, unix.EROFS),
		func(world) error { return open("/proc/self/fd/0", unix.O_RDWR) },
	},
	{
		"host file on standard input reopened by its device name", append(notOurs, unix.ENOENT, unix.EROFS),
		func(world) error { return open("/dev/stdin", unix.O_RDWR) },
	},
	{
		"host directory above standard input", append(notOurs, unix.ENOENT, unix.ENOTDIR),
		func(world) error { return list("/proc/self/fd/0/..") },
	},
	{
		"controlling terminal",
		[]error{unix.ENXIO, unix.EACCES},
		func(world) error { return open("/dev/tty", unix.O_RDWR) },
	},
	{"input pushed into a terminal", eperm, func(world) error { return sys(unix.SYS_IOCTL, 0, unix.TIOCSTI, zero(1)) }},
	{
		"input pushed with dirt in the high half", eperm,
		func(world) error { return sys(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, zero(1)) },
	},
	{"selection pasted into a console", eperm, func(world) error {
		return sys(unix.SYS_IOCTL, 0, unix.TIOCLINUX,
			zero(8))
	}},
	{"terminal of the host", hidden, func(world) error { return open("/dev/tty1", unix.O_RDWR) }},
	{"console of the host", hidden, func(world) error { return open("/dev/console", unix.O_RDWR) }},
	{"another terminal of the host", hidden, func(world) error { return open("/dev/pts/0", unix.O_RDWR) }},
}

var ipcAttempts = []attempt{
	{
		"shared memory segment of the host",
		[]error{unix.ENOENT},
		func(w world) error { return sys(unix.SYS_SHMGET, uintptr(w.ShmKey), 0, 0) },
	},
	{"segments of the host listed", []error{unix.ENOENT}, func(world) error {
		b, err := os.ReadFile("/proc/sysvipc/shm")
		if err != nil {
			return unix.ENOENT
		}
		lines := 0
		for _, c := range b {
			if c == '\n' {
				lines++
			}
		}
		if lines > 1 {
			return nil
		}
		return unix.ENOENT
	}},
	{"shared memory file of the host", hidden, func(w world) error { return read(w.Shm) }},
	{"message queue of POSIX", notOurs, func(world) error {
		return sys(unix.SYS_MQ_OPEN, cstr("sandboxd"), unix.O_CREAT|unix.O_RDWR, 0o600, 0)
	}},
	{"message queues of the host", hidden, func(world) error { return list("/dev/mqueue") }},
}

var resourceAttempts = []attempt{
	{"limit of files raised", eperm, func(world) error {
		var l unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		l.Max++
		return unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
	}},
	{"limit of CPU raised", eperm, func(world) error {
		return unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	}},
	{"core dump", append(eperm, unix.EINVAL), func(world) error {
		return unix.Setrlimit(unix.RLIMIT_CORE,
			&unix.Rlimit{Cur: 1, Max: 1})
	}},
	{"priority raised", notOurs, func(world) error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
	{"real-time scheduling", eperm, func(world) error {
		param := int32(50)
		return sys(unix.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&param)))
	}},
	{"memory locked without bound", []error{unix.EPERM, unix.ENOMEM, unix.EAGAIN}, func(world) error {
		b, err := unix.Mmap(-1, 0, 1<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		return unix.Mlock(b)
	}},
	{"secret of the daemon's environment", eperm, func(world) error {
		if os.Getenv("CAGE_TEST_SECRET") != "" {
			return nil
		}
		return unix.EPERM
	}},
	{
		"own oom score lowered",
		[]error{unix.EROFS, unix.EACCES},
		func(world) error { return write("/proc/self/oom_score_adj") },
	},
	{"more memory than the limit", []error{unix.ENOMEM}, func(world) error {
		// tail keeps all of it; without control groups it is refused, with them killed.
		out, _ := exec.Command("sh", "-c", "head -c 800000000 /dev/zero | tail -c 800000000 | wc -c").Output()
		if strings.TrimSpace(string(out)) == "800000000" {
			return nil
		}
		return unix.ENOMEM
	}},
	{"more files than the limit", []error{unix.EMFILE}, func(world) error {
		for range 100000 {
			if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
				for fd := 100; fd < 10000; fd++ {
					unix.Close(fd)
				}
				return err
			}
		}
		return nil
	}},
}
