package sandbox

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// moreAttempts are those that somebody thought of later: second ways to what the
// others try directly.
var moreAttempts = []attempt{
	// Sockets whose name in the kernel's table is not where they are.
	{
		"host's socket bound by a relative name", hiddenSocket,
		func(w world) error { return dial("unix", w.Workspace+"/relative.sock") },
	},
	{"host's socket renamed since", hiddenSocket, func(w world) error {
		return dial("unix",
			w.Workspace+"/renamed.sock")
	}},
	{
		"host's socket bound through a link", hiddenSocket,
		func(w world) error { return dial("unix", w.Workspace+"/linked.sock") },
	},
	{
		"host's socket moved away by its parent",
		[]error{unix.EBUSY, unix.EXDEV},
		func(w world) error { return unix.Rename(w.Workspace+"/socks", w.Workspace+"/socks2") },
	},
	{"host's socket removed", []error{unix.EBUSY}, func(w world) error { return unix.Unlink(w.Socket) }},

	// Descriptors that refer to what may not be opened.
	{"secret by a path descriptor opened again", append(hidden, unix.ELOOP), func(w world) error {
		fd, err := unix.Open(w.Secret, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return open(fmt.Sprint("/proc/self/fd/", fd), unix.O_RDONLY)
	}},
	{"file outside by a path descriptor opened for writing", readOnly, func(w world) error {
		fd, err := unix.Open(w.Outside+"/file", unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return open(fmt.Sprint("/proc/self/fd/", fd), unix.O_WRONLY)
	}},
	{"file outside opened again for writing", readOnly, func(w world) error {
		fd, err := unix.Open(w.Outside+"/file", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return open(fmt.Sprint("/proc/self/fd/", fd), unix.O_RDWR)
	}},
	{"file outside changed through its descriptor", append(readOnly, unix.EPERM), func(w world) error {
		fd, err := unix.Open(w.Outside+"/file", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fchmod(fd, 0o777)
	}},
	{
		"flags of a file outside changed through its descriptor", append(readOnly, unix.EPERM, unix.ENOTTY),
		func(w world) error {
			fd, err := unix.Open(w.Outside+"/file", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
			if err != nil {
				return err
			}
			return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags))
		},
	},
	{"file outside leased, so that its writers wait", eperm, func(w world) error {
		fd, err := unix.Open(w.Outside+"/file", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		return err
	}},
	{"file outside written by its mapping", readOnly, func(w world) error {
		fd, err := unix.Open(w.Outside+"/file", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return err
	}},
	{"file outside linked by its descriptor alone", append(notOurs, unix.ENOENT, unix.EXDEV), func(w world) error {
		fd, err := unix.Open(w.Outside+"/file", unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Linkat(fd, "", unix.AT_FDCWD, w.Workspace+"/free/linked", unix.AT_EMPTY_PATH)
	}},
	{"file outside exchanged with one inside", append(readOnly, unix.EXDEV), func(w world) error {
		return own(w, func(f string) error {
			return unix.Renameat2(unix.AT_FDCWD, f, unix.AT_FDCWD, w.Outside+"/file", unix.RENAME_EXCHANGE)
		})
	}},
	{"secret through the thread's root", hidden, func(w world) error {
		return read("/proc/thread-self/root" +
			w.Secret)
	}},
	{
		"secret through the working directory", hidden,
		func(w world) error { return read("/proc/self/cwd/../../../../../.." + w.Secret) },
	},
	{"access list given to a file outside", append(readOnly, unix.EPERM, unix.EOPNOTSUPP), func(w world) error {
		return unix.Setxattr(w.Outside+"/file", "system.posix_acl_access", []byte{2, 0, 0, 0}, 0)
	}},

	// What a program lays on itself takes nothing away from what is there.
	{"mount under a filter that allows it", eperm, func(w world) error {
		code := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
		prog := unix.SockFprog{Len: 1, Filter: &code[0]}
		if err := sys(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		return unix.Mount("tmpfs", w.Workspace, "tmpfs", 0, "")
	}},
	{"owner of the namespaces entered", append(notOurs, unix.EINVAL, unix.ENOENT), func(world) error {
		fd, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		owner, err := unix.IoctlRetInt(fd, unix.NS_GET_USERNS)
		if err != nil {
			return err
		}
		defer unix.Close(owner)
		return unix.Setns(owner, 0)
	}},

	{"mode of a device", append(readOnly, unix.EPERM), func(world) error { return sameMode("/dev/zero") }},
	{"mode of the terminal device", append(readOnly, unix.EPERM), func(world) error { return sameMode("/dev/tty") }},
	{"times of a device", append(readOnly, unix.EPERM), func(world) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, "/dev/full", []unix.Timespec{
			{Nsec: unix.UTIME_OMIT},
			{Nsec: unix.UTIME_NOW},
		}, 0)
	}},
	{
		"secret's mask changed through a path descriptor", append(readOnly, unix.EPERM, unix.EBADF, unix.EOPNOTSUPP),
		func(w world) error {
			fd, err := unix.Open(w.Secret, unix.O_PATH, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Chmod(fmt.Sprint("/proc/self/fd/", fd), 0o644)
		},
	},
	{
		"standard input's file linked into the workspace",
		[]error{unix.EXDEV, unix.EACCES, unix.EPERM},
		func(w world) error {
			return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/0", unix.AT_FDCWD, w.Workspace+"/free/stdin",
				unix.AT_SYMLINK_FOLLOW)
		},
	},
	{"secret's directory entered", hidden, func(w world) error { return unix.Chdir(w.SecretDir) }},
	{"secret executed", hidden, func(w world) error { return unix.Exec(w.SecretDir+"/key", []string{"key"}, nil) }},
	{
		"secret's mask removed with its directory",
		[]error{unix.EBUSY, unix.ENOTEMPTY},
		func(w world) error { return unix.Rmdir(w.Workspace + "/deep/er") },
	},
	{"parent of a secret replaced by a link", []error{unix.EBUSY, unix.EXDEV}, func(w world) error {
		if err := os.MkdirAll(w.Workspace+"/free/fake", 0o755); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		return unix.Rename(w.Workspace+"/free/fake", w.Workspace+"/deep")
	}},
	{"whiteout made over a secret", []error{unix.EBUSY, unix.EXDEV, unix.EINVAL, unix.EPERM}, func(w world) error {
		return unix.Renameat2(unix.AT_FDCWD, w.Secret, unix.AT_FDCWD, w.Workspace+"/free/white", unix.RENAME_WHITEOUT)
	}},
	{"git hook by another name", readOnly, func(w world) error {
		return write(w.Workspace +
			"/.git/./hooks/../hooks/post-checkout")
	}},
	{
		"git hook directory replaced",
		[]error{unix.EBUSY, unix.EXDEV},
		func(w world) error { return unix.Rename(w.Workspace+"/.git/hooks", w.Workspace+"/free/hooks") },
	},
	{
		"git hook made executable", append(readOnly, unix.EPERM, unix.ENOENT),
		func(w world) error { return unix.Chmod(w.Workspace+"/.git/hooks/sample", 0o755) },
	},
	{"git config linked elsewhere", []error{unix.EXDEV, unix.EPERM, unix.EACCES}, func(w world) error {
		return unix.Link(w.Workspace+"/.git/config", w.Workspace+"/free/config")
	}},
	{
		"git config of a submodule written", readOnly,
		func(w world) error { return open(w.Workspace+"/.git/modules/sub/config", unix.O_WRONLY) },
	},
	{"git hook of a submodule written", readOnly, func(w world) error {
		return write(w.Workspace +
			"/.git/modules/sub/hooks/update")
	}},
	{
		"git hook of a submodule with a slash in its name written", readOnly,
		func(w world) error { return write(w.Workspace + "/.git/modules/libs/deep/hooks/pre-commit") },
	},
	{
		"git config of a repository further down written", readOnly,
		func(w world) error { return write(w.Workspace + "/far/down/below/.git/config") },
	},
	{
		"git hook of a repository further down written", readOnly,
		func(w world) error { return write(w.Workspace + "/far/down/below/.git/hooks/pre-commit") },
	},
	{
		"repository further down moved away",
		[]error{unix.EBUSY, unix.EXDEV},
		func(w world) error { return unix.Rename(w.Workspace+"/far", w.Workspace+"/far2") },
	},
	{
		"hook where git's configuration says that they are", readOnly,
		func(w world) error { return write(w.Workspace + "/.githooks/pre-commit") },
	},
	{
		"file that git's configuration includes written", readOnly,
		func(w world) error { return write(w.Workspace + "/team.gitconfig") },
	},
	{"start-up file written through a link", readOnly, func(w world) error { return write(w.Workspace + "/.envrc") }},
	{
		"start-up file that a link leads to written", readOnly,
		func(w world) error { return write(w.Workspace + "/conf/envrc") },
	},
	{
		"git config of a nested repository written", readOnly,
		func(w world) error { return open(w.Workspace+"/nested/.git/config", unix.O_WRONLY) },
	},
	{
		"git config of the worktree's repository written", readOnly,
		func(w world) error { return open(w.Workspace+"/main.git/config", unix.O_WRONLY) },
	},
	{
		"git hook of the worktree's repository written", readOnly,
		func(w world) error { return write(w.Workspace + "/main.git/hooks/update") },
	},
	{"worktree's .git file written", readOnly, func(w world) error {
		return open(w.Workspace+"/tree/.git",
			unix.O_WRONLY)
	}},

	// What every mount must say.
	{"a mount that honours set-user-id", eperm, func(w world) error { return mountsLack(w, unix.ST_NOSUID) }},
	{"a mount that honours devices", eperm, func(w world) error { return mountsLack(w, unix.ST_NODEV) }},
	{"name of the host", eperm, func(world) error {
		if name, err := os.Hostname(); err != nil || name == "sandbox" {
			return unix.EPERM
		}
		return nil
	}},

	// /proc and /sys.
	{"physical pages listed", hidden, func(world) error { return open("/proc/kpageflags", unix.O_RDONLY) }},
	{"page counts listed", hidden, func(world) error { return open("/proc/kpagecount", unix.O_RDONLY) }},
	{"kernel addresses listed", hidden, func(world) error { return open("/proc/vmallocinfo", unix.O_RDONLY) }},
	{"slabs listed", hidden, func(world) error { return open("/proc/slabinfo", unix.O_RDONLY) }},
	{"keys listed", hidden, func(world) error { return open("/proc/keys", unix.O_RDONLY) }},
	{"kernel log by /proc", append(hidden, unix.EPERM), func(world) error { return open("/proc/kmsg", unix.O_RDONLY) }},
	{"own memory written by its file", readOnly, func(world) error { return open("/proc/self/mem", unix.O_RDWR) }},
	{"own login uid written", readOnly, func(world) error { return open("/proc/self/loginuid", unix.O_WRONLY) }},
	{
		"own profile changed", append(readOnly, unix.ENOENT),
		func(world) error { return open("/proc/self/attr/exec", unix.O_WRONLY) },
	},
	{"caches dropped", readOnly, func(world) error { return open("/proc/sys/vm/drop_caches", unix.O_WRONLY) }},
	{"overcommit changed", readOnly, func(world) error {
		return open("/proc/sys/vm/overcommit_memory",
			unix.O_WRONLY)
	}},
	{"randomisation changed", readOnly, func(world) error {
		return open("/proc/sys/kernel/randomize_va_space",
			unix.O_WRONLY)
	}},
	{"forwarding changed", readOnly, func(world) error { return open("/proc/sys/net/ipv4/ip_forward", unix.O_WRONLY) }},
	{
		"binfmt registered", append(readOnly, unix.ENOENT),
		func(world) error { return open("/proc/sys/fs/binfmt_misc/register", unix.O_WRONLY) },
	},
	{
		"memory types changed", append(readOnly, unix.ENOENT, unix.EPERM),
		func(world) error { return open("/proc/mtrr", unix.O_WRONLY) },
	},
	{"time namespace offsets", readOnly, func(world) error { return open("/proc/self/timens_offsets", unix.O_WRONLY) }},
	{"gid map written", readOnly, func(world) error { return open("/proc/self/gid_map", unix.O_WRONLY) }},
	{"launcher's program read", notOurs, func(world) error { return open("/proc/1/exe", unix.O_RDONLY) }},
	{"launcher's program written", notOurs, func(world) error { return open("/proc/1/exe", unix.O_WRONLY) }},
	{
		"launcher's memory written", append(notOurs, unix.EROFS),
		func(world) error { return open("/proc/1/mem", unix.O_RDWR) },
	},
	{
		"launcher's score changed", append(notOurs, unix.EROFS),
		func(world) error { return open("/proc/1/oom_score_adj", unix.O_WRONLY) },
	},
	{"efi variables", hidden, func(world) error { return list("/sys/firmware") }},
	{"kernel modules listed", hidden, func(world) error { return list("/sys/module") }},
	{"block devices listed", hidden, func(world) error { return list("/sys/block") }},
	{"power state", hidden, func(world) error { return open("/sys/power/state", unix.O_WRONLY) }},
	{
		"processor switched off", append(readOnly, unix.ENOENT),
		func(world) error { return open("/sys/devices/system/cpu/cpu1/online", unix.O_WRONLY) },
	},

	// Processes.
	{"signal of a descriptor's owner", []error{unix.ESRCH, unix.EPERM}, func(w world) error {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
		if err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		defer unix.Close(fd)
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETOWN, w.Pid)
		return err
	}},
	{"priority of all processes of the uid", []error{unix.EPERM}, func(world) error {
		// Those in here may be changed; newWorld looks at those outside.
		_ = unix.Setpriority(unix.PRIO_USER, os.Getuid(), 1)
		return unix.EPERM
	}},
	{"real-time I/O", eperm, func(world) error { return sys(unix.SYS_IOPRIO_SET, 1, 0, 1<<13) }},
	{"deadline scheduling", notOurs, func(world) error {
		attr := [12]uint64{48 | 6<<32, 0, 0, 1e6, 2e6, 2e6}
		return sys(unix.SYS_SCHED_SETATTR, 0, uintptr(unsafe.Pointer(&attr)), 0)
	}},
	{"securebits unlocked", eperm, func(world) error { return unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0) }},
	{"uid 0 that is more than a user", eperm, func(world) error {
		// no root, no fix-ups of set-user-id, no ambient capabilities, and all that locked
		if bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0); err != nil || bits != 0xef {
			return err
		}
		return unix.EPERM
	}},
	{"ambient capability raised", append(eperm, unix.EINVAL), func(world) error {
		return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0)
	}},
	{"memory layout rewritten", eperm, func(world) error {
		return unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_EXE_FILE, 0,
			0, 0)
	}},
	{"profile of another security module", eperm, func(world) error {
		return sys(unix.SYS_LSM_SET_SELF_ATTR, 100, 0, 0,
			0)
	}},
	{"file system uid", eperm, func(world) error {
		// setfsuid has no error: it answers with the uid that holds.
		if _, _ = unix.SetfsuidRetUid(1); true {
			if now, err := unix.SetfsuidRetUid(-1); err == nil && now == 1 && os.Getuid() != 1 {
				return nil
			}
		}
		return unix.EPERM
	}},
	{"groups of the caller", eperm, func(world) error {
		groups, err := unix.Getgroups()
		if err != nil {
			return err
		}
		for _, g := range groups {
			if g != os.Getgid() && g != 65534 && g != 0 {
				return nil
			}
		}
		return unix.EPERM
	}},
	{"line discipline of an own terminal", eperm, func(world) error { return onPty(unix.TIOCSETD) }},
	{"console taken by an own terminal", eperm, func(world) error { return onPty(unix.TIOCCONS) }},
	{"input pushed into an own terminal", eperm, func(world) error { return onPty(unix.TIOCSTI) }},
}

var hiddenSocket = append([]error{unix.ECONNREFUSED, unix.ENOENT}, notOurs...)

// sameMode changes nothing where it is let.
func sameMode(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	return unix.Chmod(path, st.Mode&0o7777)
}

// mountsLack is the refusal when every mount that holds files has the flag.
func mountsLack(w world, flag int64) error {
	for _, p := range []string{"/", "/usr", "/etc", "/tmp", "/var/tmp", "/dev/shm", "/proc", w.Workspace, w.Outside} {
		var st unix.Statfs_t
		if err := unix.Statfs(p, &st); err != nil {
			return fmt.Errorf("prepare: %s: %w", p, err)
		}
		if st.Flags&flag == 0 {
			return nil
		}
	}
	return unix.EPERM
}

func onPty(request uint) error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	defer unix.Close(fd)
	return sys(unix.SYS_IOCTL, uintptr(fd), uintptr(request), zero(8))
}

// leakAttempts look for what should not be known in here.
var leakAttempts = []attempt{
	{"processes of the host in /proc", eperm, func(world) error {
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		for _, e := range entries {
			b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			if err == nil && strings.Contains(string(b), "sleep\x001000") {
				return nil
			}
		}
		return unix.EPERM
	}},
	{"host's sockets in /proc", eperm, func(w world) error {
		for _, f := range []string{"unix", "tcp", "tcp6", "udp"} {
			b, _ := os.ReadFile("/proc/net/" + f)
			if strings.Contains(string(b), w.Workspace) || strings.Contains(string(b),
				strings.TrimPrefix(w.Abstract, "@")) || strings.Contains(string(b), fmt.Sprintf(":%04X", w.Port)) {
				return nil
			}
		}
		return unix.EPERM
	}},
	{"secret of an earlier environment in /proc", eperm, func(world) error {
		for _, pid := range []string{"1", "self"} {
			b, _ := os.ReadFile("/proc/" + pid + "/environ")
			if strings.Contains(string(b), "hunter2") {
				return nil
			}
		}
		return unix.EPERM
	}},
	{"daemon's socket named in the environment", eperm, func(world) error {
		for _, e := range os.Environ() {
			if strings.HasPrefix(e, "SANDBOXD_") || strings.HasPrefix(e, "SSH_") || strings.HasPrefix(e, "DBUS_") ||
				strings.HasPrefix(e, "XDG_RUNTIME") {
				return nil
			}
		}
		return unix.EPERM
	}},
	{
		"file of the call before in shared memory", append(hidden, unix.EPERM),
		func(world) error { return read("/dev/shm/of-the-call-before") },
	},
	{"control group of the host", eperm, func(world) error {
		if err := write("/sys/fs/cgroup/cgroup.procs"); err == nil {
			return nil
		}
		return unix.EPERM
	}},
}
