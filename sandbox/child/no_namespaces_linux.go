package child

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// On a host without namespaces, Landlock alone holds the files, its domains hold signals and
// ptrace, and a filter that refuses every socket holds the network. Nothing is mounted, so
// nothing can be hidden: a path that must not be reached is not granted.

// noNamespacesABI is the version of Landlock that restricts signals (Linux 6.12). With an
// older one a program could kill its caller, and a call could not end what it started.
const noNamespacesABI = 6

// endSignal asks the init process of a call to end all its processes. Killing the init
// process itself would leave them behind.
const endSignal = 64

func (s *server) startWithoutNamespaces() error {
	if s.abi < noNamespacesABI {
		return fmt.Errorf(
			"without namespaces Landlock has to keep signals in, which needs its version %d (Linux 6.12); this is %d",
			noNamespacesABI,
			s.abi,
		)
	}
	s.rules = rulesWithoutNamespaces(s.t.Grants)
	var have unix.CapUserData
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_1}
	if err := unix.Capget(&head, &have); err != nil {
		return fmt.Errorf("ask for own capabilities: %w", err)
	}
	s.privileged = have.Effective&(1<<unix.CAP_SETPCAP) != 0
	s.otherThreads = threadsOfUser()
	return nil
}

// signalForInit returns the signal to send to an init process to have the effect of sig.
func (s *server) signalForInit(sig syscall.Signal) syscall.Signal {
	if s.t.NoNamespaces && sig == unix.SIGKILL {
		return endSignal
	}
	return sig
}

// noNamespacesInitOps give a process without a pid namespace the role of an init process:
// orphans become its children, its signals reach only what it started, and it ends the call
// when the launcher dies. It keeps the launcher's standard error open: when that closes, the
// daemon knows that this process is gone.
func (a *arena) noNamespacesInitOps() []script.Op {
	var ops script.List
	ops.Add("become the reaper of orphans", unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1)
	ops.Add("end with the launcher", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, endSignal)
	// A process that is stopped must go on to receive that. The kernel sends SIGCONT to a process
	// group that is stopped when its only parent in another group of the session ends.
	ops.Add("setpgid", unix.SYS_SETPGID, 0, 0)
	ops.Add("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	// Every Landlock domain refuses to move files between directories unless it grants that
	// right, and an inner domain cannot grant what an outer one refuses.
	attr, all := a.Alloc(24), a.Alloc(12)
	*(*uint64)(unsafe.Pointer(&attr[0])) = unix.LANDLOCK_ACCESS_FS_REFER
	*(*uint64)(unsafe.Pointer(&attr[16])) = unix.LANDLOCK_SCOPE_SIGNAL
	*(*uint64)(unsafe.Pointer(&all[0])) = unix.LANDLOCK_ACCESS_FS_REFER
	set, root := a.Cell(a.Alloc(4), 0), a.Cell(all, 8)
	ops.Add("landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, addr(attr), 24).Out = set
	ops.Add("open /", unix.SYS_OPENAT, script.AtFDCWD, a.Str("/"), unix.O_PATH|unix.O_CLOEXEC).Out = root
	ops.Add("landlock_add_rule /", unix.SYS_LANDLOCK_ADD_RULE, 0, 1, addr(all), 0).In = set
	ops.Add("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF).In = set
	return ops
}

// kernelFiles are files about the machine that programs need, and that other sandboxes show
// too. The rest of /proc is about other processes and the network.
var kernelFiles = []string{
	"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems", "/proc/loadavg",
	"/proc/uptime",
	"/proc/sys/kernel/osrelease", "/proc/sys/kernel/ostype", "/proc/sys/kernel/pid_max",
	"/proc/sys/kernel/cap_last_cap",
	"/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/random", "/proc/sys/kernel/threads-max",
	"/proc/sys/vm/overcommit_memory",
	"/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage",
}

// ownFiles are files in /proc/self. Only the program itself can read its own: no rule can
// name those of its children before they exist.
var ownFiles = []string{"status", "stat", "statm", "maps", "cmdline", "limits", "comm", "auxv", "cgroup"}

// rulesWithoutNamespaces returns the rules for the grants. No link in a path is followed: it
// could be newer than the grant.
func rulesWithoutNamespaces(grants []wire.Grant) []rule {
	var out []rule
	add := func(path string, rights uint64) {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS |
				unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != nil {
			return // a path that does not exist needs no rule
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			unix.Close(fd)
			return
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			rights &= llFile
		}
		out = append(out, rule{path, rights, fd})
	}
	for _, g := range grants {
		rights := uint64(llRead)
		if g.Write {
			rights |= llWrite
		}
		add(g.Path, rights)
	}
	for _, p := range kernelFiles {
		add(p, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_READ_DIR)
	}
	for _, p := range deviceFiles {
		add(p, llDevice)
	}
	for _, name := range ownFiles {
		out = append(out, rule{"/proc/self/" + name, unix.LANDLOCK_ACCESS_FS_READ_FILE, -1})
	}
	return append(out, rule{"/proc/self/fd", unix.LANDLOCK_ACCESS_FS_READ_DIR, -1})
}

// threadsOfUser returns how many threads the user of this process has. The rlimit on
// processes counts those too.
func threadsOfUser() uint64 {
	var n uint64
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		if info, err := os.Stat(dir); err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			continue
		}
		threads, _ := os.ReadDir(filepath.Join(dir, "task"))
		n += uint64(len(threads))
	}
	return n
}
