package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// world is what the host has that a caged program would like to reach.
type world struct {
	Workspace    string
	Outside      string // visible, not writable
	Secret       string // a denied file inside the workspace: ws/deep/er/secret
	SecretDir    string // a denied directory outside it, with "key" in it
	Daemon       string // the daemon's own directory
	Socket       string // a listening socket of the host in the workspace
	Private      string // a listening socket in the daemon's directory
	Abstract     string // a listening abstract socket
	Port         int    // a listening TCP port on the host's loopback
	Pid          int    // a process of the same uid
	ShmKey       int    // a System V segment
	Shm          string // a file in the host's /dev/shm
	HostTmp      string // a file in the host's /tmp
	NoNamespaces bool   // there are no namespaces: Landlock and the filter stop it
}

// attempt is one act that must not work. It runs in the cage, in a copy of the
// test binary, and returns what the kernel said; nil means that it got out.
type attempt struct {
	name string
	want []error
	try  func(w world) error
}

var (
	readOnly = []error{unix.EROFS, unix.EACCES}
	hidden   = []error{unix.EACCES, unix.ENOENT}
	notOurs  = []error{unix.EPERM, unix.EACCES}
	eperm    = []error{unix.EPERM}
	enosys   = []error{unix.ENOSYS}
	notThere = []error{unix.ESRCH, unix.ENOENT}
)

func sys(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

func cstr(s string) uintptr {
	b, _ := syscall.BytePtrFromString(s)
	keep = append(keep, b)
	return uintptr(unsafe.Pointer(b))
}

var keep []*byte // of the process that makes the attempts

func read(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func list(path string) error {
	_, err := os.ReadDir(path)
	return err
}

func write(path string) error { return os.WriteFile(path, []byte("out\n"), 0o644) }

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags, 0o644)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func dial(network, addr string) error {
	c, err := net.Dial(network, addr)
	if err == nil {
		c.Close()
	}
	return err
}

func socket(family, kind, proto int) error {
	_, err := unix.Socket(family, kind, proto)
	return err
}

// runAttempts is the inside of the cage: every attempt, one line of answer each.
func runAttempts() {
	var w world
	if err := json.Unmarshal([]byte(os.Getenv("ATTEMPT_WORLD")), &w); err != nil {
		fmt.Println("broken", err)
		os.Exit(3)
	}
	only := os.Getenv("ATTEMPT_ONLY") // one in each line
	for _, a := range allAttempts() {
		if only != "" && !slices.Contains(strings.Split(only, "\n"), a.name) {
			continue
		}
		fmt.Printf("%s\t%s\n", a.name, a.outcome(w))
	}
	os.Exit(0)
}

func (a attempt) outcome(w world) string {
	err := a.try(w)
	if err == nil {
		return "ESCAPED"
	}
	if strings.HasPrefix(err.Error(), "prepare: ") {
		return "NOT TRIED: " + err.Error()
	}
	want := a.want
	if w.NoNamespaces {
		want = append(slices.Clone(want), wantWithoutNamespaces...)
	}
	for _, want := range want {
		if errors.Is(err, want) {
			return "stopped"
		}
	}
	return fmt.Sprintf("WRONG ERROR: %v, want one of %v", err, a.want)
}

// wantWithoutNamespaces is how the level without namespaces says no. Which errno it is says
// which layer stopped it, and here it is always one of two.
var wantWithoutNamespaces = []error{unix.EACCES, unix.EPERM}

func allAttempts() []attempt {
	var all []attempt
	for _, group := range [][]attempt{
		descriptorAttempts, // before the others leave descriptors open
		fileAttempts, modeAttempts, processAttempts, kernelAttempts, networkAttempts, ipcAttempts, moreAttempts,
		leakAttempts, resourceAttempts,
	} {
		all = append(all, group...)
	}
	return all
}

var fileAttempts = []attempt{
	{"secret read", hidden, func(w world) error { return read(w.SecretDir + "/key") }},
	{"secret listed", hidden, func(w world) error { return list(w.SecretDir) }},
	{"secret in the workspace read", hidden, func(w world) error { return read(w.Secret) }},
	{"secret in the workspace overwritten", readOnly, func(w world) error { return write(w.Secret) }},
	{
		"secret in the workspace appended to", readOnly,
		func(w world) error { return open(w.Secret, unix.O_WRONLY|unix.O_APPEND) },
	},
	{"secret in the workspace truncated", readOnly, func(w world) error { return unix.Truncate(w.Secret, 0) }},
	{"secret in the workspace removed", []error{unix.EBUSY}, func(w world) error { return unix.Unlink(w.Secret) }},
	{
		"secret in the workspace renamed",
		[]error{unix.EBUSY, unix.EXDEV},
		func(w world) error { return unix.Rename(w.Secret, w.Workspace+"/free/x") },
	},
	{"secret replaced by rename", []error{unix.EBUSY, unix.EXDEV}, func(w world) error {
		if err := write(w.Workspace + "/free/mine"); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		return unix.Rename(w.Workspace+"/free/mine", w.Secret)
	}},
	{
		"parent of a secret renamed",
		[]error{unix.EBUSY, unix.EXDEV},
		func(w world) error { return unix.Rename(filepath.Dir(w.Secret), w.Workspace+"/free/x") },
	},
	{
		"grandparent of a secret renamed",
		[]error{unix.EBUSY},
		func(w world) error { return unix.Rename(filepath.Dir(filepath.Dir(w.Secret)), w.Workspace+"/free/x") },
	},
	{"grandparent of a secret exchanged", []error{unix.EBUSY}, func(w world) error {
		if err := os.MkdirAll(w.Workspace+"/free/swap", 0o755); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		return unix.Renameat2(unix.AT_FDCWD, filepath.Dir(filepath.Dir(w.Secret)), unix.AT_FDCWD,
			w.Workspace+"/free/swap", unix.RENAME_EXCHANGE)
	}},
	{
		"secret linked",
		[]error{unix.EXDEV, unix.EPERM, unix.EACCES},
		func(w world) error { return unix.Link(w.Secret, w.Workspace+"/free/hard") },
	},
	{
		"key linked into the workspace",
		[]error{unix.EXDEV, unix.EPERM, unix.EACCES, unix.ENOENT},
		func(w world) error { return unix.Link(w.SecretDir+"/key", w.Workspace+"/free/hard2") },
	},
	{"secret through a symlink", hidden, func(w world) error {
		_ = unix.Symlink(w.SecretDir+"/key", w.Workspace+"/free/soft")
		return read(w.Workspace + "/free/soft")
	}},
	{"mask made readable", append(readOnly, unix.EPERM), func(w world) error { return unix.Chmod(w.Secret, 0o644) }},
	{"mask given away", append(readOnly, unix.EPERM), func(w world) error { return unix.Chown(w.Secret, 1, 1) }},
	{
		"secret's attributes", append(readOnly, unix.EPERM, unix.EOPNOTSUPP),
		func(w world) error { return unix.Setxattr(w.Secret, "user.x", []byte("y"), 0) },
	},
	{"secret through /proc/self/root", hidden, func(w world) error {
		return read("/proc/self/root" + w.SecretDir +
			"/key")
	}},
	{"secret through dot dot", hidden, func(w world) error {
		return read(w.Workspace + "/../" +
			filepath.Base(w.SecretDir) + "/key")
	}},
	{"secret opened without a trace", hidden, func(w world) error {
		return open(w.SecretDir+"/key",
			unix.O_RDONLY|unix.O_NOATIME)
	}},
	{"write outside", readOnly, func(w world) error { return write(w.Outside + "/new") }},
	{"overwrite outside", readOnly, func(w world) error { return open(w.Outside+"/file", unix.O_WRONLY) }},
	{"truncate outside", readOnly, func(w world) error { return unix.Truncate(w.Outside+"/file", 0) }},
	{"remove outside", readOnly, func(w world) error { return unix.Unlink(w.Outside + "/file") }},
	{
		"rename outside", append(readOnly, unix.EXDEV),
		func(w world) error { return unix.Rename(w.Outside+"/file", w.Workspace+"/file") },
	},
	{
		"link from outside", append(readOnly, unix.EXDEV),
		func(w world) error { return unix.Link(w.Outside+"/file", w.Workspace+"/file") },
	},
	{"mkdir outside", readOnly, func(w world) error { return unix.Mkdir(w.Outside+"/dir", 0o755) }},
	{"symlink made outside", readOnly, func(w world) error { return unix.Symlink("x", w.Outside+"/soft") }},
	{
		"chmod outside", append(readOnly, unix.EPERM),
		func(w world) error { return unix.Chmod(w.Outside+"/file", 0o777) },
	},
	{
		"touch outside", append(readOnly, unix.EPERM),
		func(w world) error { return unix.Utimes(w.Outside+"/file", make([]unix.Timeval, 2)) },
	},
	{
		"xattr outside", append(readOnly, unix.EPERM, unix.EOPNOTSUPP),
		func(w world) error { return unix.Setxattr(w.Outside+"/file", "user.x", []byte("y"), 0) },
	},
	{"symlink out", readOnly, func(w world) error {
		_ = unix.Symlink(w.Outside, w.Workspace+"/free/out")
		return write(w.Workspace + "/free/out/new")
	}},
	{
		"tmpfile outside", append(readOnly, unix.EOPNOTSUPP),
		func(w world) error { return open(w.Outside, unix.O_TMPFILE|unix.O_WRONLY) },
	},
	{"write to /etc", readOnly, func(world) error { return write("/etc/cage") }},
	{"write to /usr/bin", readOnly, func(world) error { return write("/usr/bin/cage") }},
	{"write to the root", readOnly, func(world) error { return write("/cage") }},
	{
		"write to home", append(readOnly, unix.ENOENT),
		func(world) error { return write(os.Getenv("HOME") + "/.bashrc") },
	},
	{"write to /dev", readOnly, func(world) error { return write("/dev/cage") }},
	{"shadow read", hidden, func(world) error { return read("/etc/shadow") }},
	{"daemon's directory read", hidden, func(w world) error { return read(w.Daemon + "/state.db") }},
	{"daemon's directory listed", hidden, func(w world) error { return list(w.Daemon) }},
	{"host's /tmp read", hidden, func(w world) error { return read(w.HostTmp) }},
	{
		"host's /tmp through /proc/1/root", append(hidden, unix.EPERM),
		func(w world) error { return read("/proc/1/root" + w.HostTmp) },
	},
	{"host's /run listed", hidden, func(world) error { return list("/run/user") }},
	{"device of the disk", hidden, func(world) error { return open("/dev/vda", unix.O_RDONLY) }},
	{"memory device", hidden, func(world) error { return open("/dev/mem", unix.O_RDONLY) }},
	{"kernel log device", hidden, func(world) error { return open("/dev/kmsg", unix.O_RDONLY) }},
	{"fuse device", hidden, func(world) error { return open("/dev/fuse", unix.O_RDWR) }},
	{"kvm device", hidden, func(world) error { return open("/dev/kvm", unix.O_RDWR) }},
	{"core_pattern written", readOnly, func(world) error {
		return open("/proc/sys/kernel/core_pattern",
			unix.O_WRONLY)
	}},
	{
		"modprobe path written", append(readOnly, unix.ENOENT),
		func(world) error { return open("/proc/sys/kernel/modprobe", unix.O_WRONLY) },
	},
	{
		"sysrq written", append(readOnly, unix.ENOENT),
		func(world) error { return open("/proc/sysrq-trigger", unix.O_WRONLY) },
	},
	{"kcore read", append(hidden, unix.EPERM), func(world) error { return open("/proc/kcore", unix.O_RDONLY) }},
	{"uid map written", append(readOnly, unix.EPERM), func(world) error { return write("/proc/self/uid_map") }},
	{"own limits on pids raised", readOnly, func(world) error {
		return open("/proc/sys/kernel/pid_max",
			unix.O_WRONLY)
	}},
	{"control groups", hidden, func(world) error { return list("/sys/fs/cgroup") }},
	{"kernel debug files", hidden, func(world) error { return list("/sys/kernel/debug") }},
	{"host's interfaces", hidden, func(world) error { return list("/sys/class/net") }},
	{"thp setting written", readOnly, func(world) error {
		return open("/sys/kernel/mm/transparent_hugepage/enabled",
			unix.O_WRONLY)
	}},
	{"git hook written", readOnly, func(w world) error { return write(w.Workspace + "/.git/hooks/pre-commit") }},
	{"git config written", readOnly, func(w world) error { return open(w.Workspace+"/.git/config", unix.O_WRONLY) }},
	{"git config replaced", []error{unix.EBUSY}, func(w world) error {
		if err := write(w.Workspace + "/.git/config.lock"); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		return unix.Rename(w.Workspace+"/.git/config.lock", w.Workspace+"/.git/config")
	}},
	{"git directory renamed", []error{unix.EBUSY}, func(w world) error {
		return unix.Rename(w.Workspace+"/.git",
			w.Workspace+"/.git2")
	}},
	{
		"workspace renamed", append(readOnly, unix.EBUSY),
		func(w world) error { return unix.Rename(w.Workspace, w.Workspace+"2") },
	},
}

var modeAttempts = []attempt{
	{"chmod set-user-id", eperm, func(w world) error {
		return own(w, func(f string) error { return sys(unix.SYS_FCHMODAT, at(), cstr(f), 0o4755) })
	}},
	{"chmod set-group-id", eperm, func(w world) error {
		return own(w, func(f string) error { return sys(unix.SYS_FCHMODAT, at(), cstr(f), 0o2755) })
	}},
	{"chmod set-group-id of a directory", eperm, func(w world) error {
		return sys(unix.SYS_FCHMODAT, at(), cstr(w.Workspace+"/free"), 0o2755)
	}},
	{"fchmod set-user-id", eperm, func(w world) error {
		return own(w, func(f string) error {
			fd, err := unix.Open(f, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return sys(unix.SYS_FCHMOD, uintptr(fd), 0o4755)
		})
	}},
	{"fchmodat2 set-user-id", eperm, func(w world) error {
		return own(w, func(f string) error { return sys(unix.SYS_FCHMODAT2, at(), cstr(f), 0o6755, 0) })
	}},
	{"openat with set-user-id", eperm, func(w world) error {
		return sys(unix.SYS_OPENAT, at(), cstr(w.Workspace+"/free/suid"), unix.O_CREAT|unix.O_WRONLY, 0o4755)
	}},
	{"O_TMPFILE with set-user-id", eperm, func(w world) error {
		return sys(unix.SYS_OPENAT, at(), cstr(w.Workspace+"/free"), unix.O_TMPFILE|unix.O_WRONLY, 0o4755)
	}},
	{"mknodat with set-user-id", eperm, func(w world) error {
		return sys(unix.SYS_MKNODAT, at(), cstr(w.Workspace+"/free/suid2"), unix.S_IFREG|0o4755, 0)
	}},
	{"openat2", enosys, func(w world) error {
		how := unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o4755}
		_, err := unix.Openat2(unix.AT_FDCWD, w.Workspace+"/free/suid3", &how)
		return err
	}},
	{"character device made", notOurs, func(w world) error {
		return unix.Mknod(w.Workspace+"/free/mem", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1)))
	}},
	{"block device made", notOurs, func(w world) error {
		return unix.Mknod(w.Workspace+"/free/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0)))
	}},
	{
		"file given away", append(eperm, unix.EINVAL),
		func(w world) error { return own(w, func(f string) error { return unix.Chown(f, 1, 1) }) },
	},
	{"file capability set", eperm, func(w world) error {
		return own(w, func(f string) error {
			return unix.Setxattr(f, "security.capability", []byte{
				1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
				0, 0,
			}, 0)
		})
	}},
}

// own makes a file to try something on.
func own(w world, try func(file string) error) error {
	f := filepath.Join(w.Workspace, "free/own")
	if err := write(f); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	return try(f)
}

func at() uintptr { return ^uintptr(99) }

var processAttempts = []attempt{
	{"host process seen", notThere, func(w world) error { return list(fmt.Sprint("/proc/", w.Pid)) }},
	{"signal to the host", notThere, func(w world) error { return unix.Kill(w.Pid, unix.SIGTERM) }},
	{"signal 0 to the host", notThere, func(w world) error { return unix.Kill(w.Pid, 0) }},
	{"queued signal to the host", []error{unix.ESRCH, unix.EPERM}, func(w world) error {
		return sys(unix.SYS_RT_SIGQUEUEINFO, uintptr(w.Pid), uintptr(unix.SIGTERM),
			uintptr(unsafe.Pointer(&make([]byte, 128)[0])))
	}},
	{"pidfd of the host", append(notThere, unix.EINVAL), func(w world) error {
		_,
			err := unix.PidfdOpen(w.Pid, 0)
		return err
	}},
	{"signal to the host by a pidfd", append(notThere, unix.EPERM, unix.EINVAL), func(w world) error {
		fd, err := unix.PidfdOpen(w.Pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
	}},
	{"priority of the host", notThere, func(w world) error { return unix.Setpriority(unix.PRIO_PROCESS, w.Pid, 19) }},
	{"affinity of the host", notThere, func(w world) error { var set unix.CPUSet; set.Set(0); return unix.SchedSetaffinity(w.Pid, &set) }},
	{"limits of the host", notThere, func(w world) error {
		return sys(unix.SYS_PRLIMIT64, uintptr(w.Pid), unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&unix.Rlimit{})))
	}},
	{"ptrace of the host", append(notThere, unix.EPERM), func(w world) error { return unix.PtraceAttach(w.Pid) }},
	{"ptrace of the init", eperm, func(world) error { return unix.PtraceAttach(1) }},
	{"seize of the init", eperm, func(world) error { return unix.PtraceSeize(1) }},
	{"kill of the init", eperm, func(world) error { return unix.Kill(1, unix.SIGKILL) }},
	{"stop of the init", eperm, func(world) error { return unix.Kill(1, unix.SIGSTOP) }},
	{"environment of the init", append(notOurs, unix.ENOENT), func(world) error { return read("/proc/1/environ") }},
	{"memory of the init", notOurs, func(world) error { return open("/proc/1/mem", unix.O_RDONLY) }},
	{"memory map of the init", notOurs, func(world) error { return read("/proc/1/maps") }},
	{"descriptors of the init", notOurs, func(world) error {
		// The numbers may be listed by the same uid; nothing can be had by them.
		entries, _ := os.ReadDir("/proc/1/fd")
		for _, e := range entries {
			if open("/proc/1/fd/"+e.Name(), unix.O_PATH) == nil {
				return nil
			}
		}
		return unix.EPERM
	}},
	{"working directory of the init", notOurs, func(world) error { return list("/proc/1/cwd/") }},
	{"program of the init", notOurs, func(world) error { _, err := os.Readlink("/proc/1/exe"); return err }},
	{"root of the init", notOurs, func(world) error { return list("/proc/1/root/") }},
	{"namespaces of the init", notOurs, func(world) error { return open("/proc/1/ns/mnt", unix.O_RDONLY) }},
	{"memory read across processes", eperm, func(world) error {
		return sys(unix.SYS_PROCESS_VM_READV, 1, 0, 0, 0, 0,
			0)
	}},
	{"memory written across processes", eperm, func(world) error {
		return sys(unix.SYS_PROCESS_VM_WRITEV, 1, 0, 0, 0, 0,
			0)
	}},
	{"process_madvise", eperm, func(world) error { return sys(unix.SYS_PROCESS_MADVISE, 3, 0, 0, 0, 0) }},
	{"descriptor taken from a process", eperm, func(world) error { return sys(unix.SYS_PIDFD_GETFD, 3, 0, 0) }},
	{"kcmp", eperm, func(world) error { return sys(unix.SYS_KCMP, 1, 2, 0, 0, 0) }},
	{"another uid", append(notOurs, unix.EINVAL), func(world) error { return sys(unix.SYS_SETRESUID, 1, 1, 1) }},
	{"another gid", append(notOurs, unix.EINVAL), func(world) error { return sys(unix.SYS_SETRESGID, 1, 1, 1) }},
	{"other groups", notOurs, func(world) error { return sys(unix.SYS_SETGROUPS, 0, 0) }},
	{"capabilities taken back", eperm, func(world) error {
		head, data := [2]uint32{unix.LINUX_CAPABILITY_VERSION_3}, [6]uint32{
			1 << unix.CAP_SYS_ADMIN,
			1 << unix.CAP_SYS_ADMIN,
		}
		return sys(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data)))
	}},
	{"capabilities left over", eperm, func(w world) error {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		sets := []string{"CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd"}
		if w.NoNamespaces && os.Getuid() != 0 {
			sets = sets[:4] // the last takes a privilege to empty, and bounds what no_new_privs refuses anyway
		}
		for _, set := range sets {
			if !strings.Contains(string(status), set+":\t0000000000000000\n") {
				return nil
			}
		}
		return unix.EPERM
	}},
	{"no_new_privs unset", eperm, func(world) error {
		if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || n != 1 {
			return nil
		}
		return unix.EPERM
	}},
	{"filter missing", eperm, func(world) error {
		if n, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil || n != 2 {
			return nil
		}
		return unix.EPERM
	}},
}
