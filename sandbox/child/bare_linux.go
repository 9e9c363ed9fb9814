package child

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The second rung: a host that gives no namespaces. The files are held by Landlock
// alone, signals and ptrace by its domains, the network by a filter that refuses
// every socket. Nothing is mounted, so nothing can be masked: what must not be
// reached is not granted.

// bareABI is the version of Landlock that keeps signals in (Linux 6.12). Below it
// a program could end its caller, and a call could not end what it started.
const bareABI = 6

// endSignal asks the init process of a bare call to end its tree. Killing that
// process itself would leave the tree behind.
const endSignal = 64

func (s *server) startBare() error {
	if s.abi < bareABI {
		return fmt.Errorf("without namespaces Landlock has to keep signals in, which needs its version %d (Linux 6.12); this is %d", bareABI, s.abi)
	}
	s.rules = bareRules(s.t.Grants)
	var have unix.CapUserData
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_1}
	if err := unix.Capget(&head, &have); err != nil {
		return fmt.Errorf("ask for own capabilities: %w", err)
	}
	s.privileged = have.Effective&(1<<unix.CAP_SETPCAP) != 0
	s.others = threadsOfUser()
	return nil
}

// lastSignal is sig as the init process of a call has to be sent it.
func (s *server) lastSignal(sig syscall.Signal) syscall.Signal {
	if s.t.Bare && sig == unix.SIGKILL {
		return endSignal
	}
	return sig
}

// bareInitOps make an init process of one that has no pid namespace: orphans come
// to it, signals it sends reach only what it started, and it ends the call when
// the launcher dies. It keeps the launcher's standard error open, whose end tells
// the daemon that it is gone.
func (a *arena) bareInitOps() []Op {
	var ops opList
	ops.add("become the reaper of orphans", unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1)
	ops.add("end with the launcher", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, endSignal)
	ops.add("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	// Every domain refuses to move files between directories unless it says
	// otherwise, and what one refuses no inner one can allow.
	attr, all := a.alloc(24), a.alloc(12)
	*(*uint64)(unsafe.Pointer(&attr[0])) = unix.LANDLOCK_ACCESS_FS_REFER
	*(*uint64)(unsafe.Pointer(&attr[16])) = unix.LANDLOCK_SCOPE_SIGNAL
	*(*uint64)(unsafe.Pointer(&all[0])) = unix.LANDLOCK_ACCESS_FS_REFER
	set, root := a.slot(a.alloc(4), 0), a.slot(all, 8)
	ops.add("landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, addr(attr), 24).out = set
	ops.add("open /", unix.SYS_OPENAT, atFDCWD, a.str("/"), unix.O_PATH|unix.O_CLOEXEC).out = root
	ops.add("landlock_add_rule /", unix.SYS_LANDLOCK_ADD_RULE, 0, 1, addr(all), 0).in = set
	ops.add("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF).in = set
	return ops
}

// bareFiles are what programs ask the kernel about the machine and get from every
// other sandbox too. The rest of /proc tells about other processes and the network.
var bareFiles = []string{
	"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems", "/proc/loadavg", "/proc/uptime",
	"/proc/sys/kernel/osrelease", "/proc/sys/kernel/ostype", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/cap_last_cap",
	"/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/random", "/proc/sys/kernel/threads-max", "/proc/sys/vm/overcommit_memory",
	"/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage",
}

// ownFiles are those of the program itself. Its children have other ones, which no
// rule can name before they are there.
var ownFiles = []string{"status", "stat", "statm", "maps", "cmdline", "limits", "comm", "auxv", "cgroup"}

// bareRules are the grants. A link in one of them is never followed: it could be
// newer than the grant.
func bareRules(grants []Grant) []rule {
	var out []rule
	add := func(path string, rights uint64) {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != nil {
			return // what is not there needs no rule
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
	for _, p := range bareFiles {
		add(p, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_READ_DIR)
	}
	for _, p := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} {
		add(p, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_WRITE_FILE|unix.LANDLOCK_ACCESS_FS_TRUNCATE|llIoctl)
	}
	for _, name := range ownFiles {
		out = append(out, rule{"/proc/self/" + name, unix.LANDLOCK_ACCESS_FS_READ_FILE, -1})
	}
	return append(out, rule{"/proc/self/fd", unix.LANDLOCK_ACCESS_FS_READ_DIR, -1})
}

// threadsOfUser is how many threads the user of this process has. A limit on
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
