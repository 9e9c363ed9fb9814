package child

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	llRead    = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	llWrite   = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	llDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	llIoctl   = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// llFile are the rights that may be given on something that is no directory.
	llFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockABI is the version of the running kernel, 0 without Landlock.
func landlockABI() int {
	v, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(v)
}

// handledFS are the rights that a kernel of this version can refuse. All of them
// are handled: what no rule gives is refused.
func handledFS(abi int) uint64 {
	all := uint64(llRead | llWrite | llDevices | llIoctl)
	if abi < 5 {
		all &^= llIoctl
	}
	if abi < 3 {
		all &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 2 {
		all &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	return all
}

// rule gives rights on everything below path; fd is an O_PATH descriptor of it,
// or -1 when it must be opened in the call, below a mount that the call makes.
type rule struct {
	path   string
	rights uint64
	fd     int
}

// rules are what the template allows, with their descriptors opened once: Landlock
// rules are about inodes, and those of the template are the same in every copy of
// its namespace.
func rules(t Template) []rule {
	var out []rule
	add := func(path string, rights uint64) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return // what is not there needs no rule
		}
		if info, err := os.Lstat(path); err == nil && !info.IsDir() {
			rights &= llFile
		}
		out = append(out, rule{path, rights, fd})
	}
	const all = llRead | llWrite
	if len(t.Read) == 0 {
		add("/", llRead)
	} else {
		for _, p := range SystemPaths {
			add(p, llRead)
		}
		for _, p := range t.Read {
			add(p, llRead)
		}
		for _, p := range []string{"/dev", "/sys"} {
			add(p, llRead)
		}
		// A strict call has its own /proc, which the descriptor of the
		// template's would not cover.
		out = append(out, rule{"/proc", llRead, -1})
	}
	if t.WriteAll {
		add("/", llWrite)
	}
	for _, p := range t.Write {
		if within(p, "/dev") || within(p, "/proc") {
			continue
		}
		add(p, llWrite)
	}
	for _, p := range append([]string{"/tmp", "/var/tmp", CacheDir}, Overlaid...) {
		add(p, all)
	}
	if t.Profile == "strict" {
		out = append(out, rule{"/dev/shm", all, -1}) // mounted in the call
	} else {
		add("/dev/shm", all)
	}
	for _, p := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts"} {
		add(p, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_READ_DIR|unix.LANDLOCK_ACCESS_FS_WRITE_FILE|unix.LANDLOCK_ACCESS_FS_TRUNCATE|llIoctl)
	}
	return out
}

// landlockOps restrict the process that runs them.
func (a *arena) landlockOps(abi int, list []rule, allowBind bool) []Op {
	if abi < 1 {
		return nil
	}
	handled := handledFS(abi)
	attr := a.alloc(24)
	size := uintptr(8)
	*(*uint64)(unsafe.Pointer(&attr[0])) = handled
	if abi >= 4 {
		size = 16
		if !allowBind {
			*(*uint64)(unsafe.Pointer(&attr[8])) = unix.LANDLOCK_ACCESS_NET_BIND_TCP
		}
	}
	if abi >= 6 {
		size = 24
		*(*uint64)(unsafe.Pointer(&attr[16])) = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	set := a.slot(a.alloc(4), 0)
	ops := []Op{{Name: "landlock_create_ruleset", nr: unix.SYS_LANDLOCK_CREATE_RULESET, arg: [6]uintptr{addr(attr), size}, out: set}}
	for _, r := range list {
		b := a.alloc(12)
		*(*uint64)(unsafe.Pointer(&b[0])) = r.rights & handled
		*(*int32)(unsafe.Pointer(&b[8])) = int32(r.fd)
		if r.fd < 0 {
			ops = append(ops, Op{
				Name: "open " + r.path, nr: unix.SYS_OPENAT, out: a.slot(b, 8),
				arg: [6]uintptr{atFDCWD, a.str(r.path), unix.O_PATH | unix.O_CLOEXEC},
			})
		}
		ops = append(ops, Op{
			Name: "landlock_add_rule " + r.path, nr: unix.SYS_LANDLOCK_ADD_RULE, in: set,
			arg: [6]uintptr{0, 1, addr(b), 0},
		})
	}
	return append(ops, Op{Name: "landlock_restrict_self", nr: unix.SYS_LANDLOCK_RESTRICT_SELF, in: set})
}

const atFDCWD = ^uintptr(99) // AT_FDCWD is -100
