package child

import (
	"os"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

const (
	llRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	llWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	llDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	llIoctl   = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// llFile are the rights that the kernel accepts for a file.
	llFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// llDevice are the rights on a device that every program may use.
const llDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | llIoctl

// deviceFiles are the devices that every program may use.
var deviceFiles = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// landlockABI returns the version of Landlock in this kernel, 0 without it.
func landlockABI() int {
	v, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(v)
}

// handledFS returns the rights that this version can refuse. All are handled: a right that
// no rule grants is refused.
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

// rule grants rights on everything below path. fd is an O_PATH descriptor of it, or -1 if it
// must be opened in the call, because the call mounts something there.
type rule struct {
	path   string
	rights uint64
	fd     int
}

// rules returns what the template allows. Their descriptors are opened once: Landlock rules
// hold for inodes, which are the same in every copy of the session's mount namespace.
func rules(t wire.Template) []rule {
	var out []rule
	add := func(path string, rights uint64) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return // a path that does not exist needs no rule
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
		for _, p := range wire.SystemPaths {
			add(p, llRead)
		}
		for _, p := range t.Read {
			add(p, llRead)
		}
		for _, p := range []string{"/dev", "/sys"} {
			add(p, llRead)
		}
		// A strict call mounts its own /proc, for which a descriptor of the session's
		// /proc would not hold.
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
	for _, p := range append([]string{"/tmp", "/var/tmp", wire.CacheDir}, wire.Overlaid...) {
		add(p, all)
	}
	if t.Profile == wire.ProfileStrict {
		out = append(out, rule{"/dev/shm", all, -1}) // mounted in the call
	} else {
		add("/dev/shm", all)
	}
	for _, p := range append([]string{"/dev/pts"}, deviceFiles...) {
		add(p, llDevice|unix.LANDLOCK_ACCESS_FS_READ_DIR)
	}
	return out
}

// landlockOps put the process that runs them under the rules.
func (a *arena) landlockOps(abi int, list []rule, allowBind bool) []script.Op {
	if abi < 1 {
		return nil
	}
	handled := handledFS(abi)
	attr := a.Alloc(24)
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
	set := a.Cell(a.Alloc(4), 0)
	ops := []script.Op{
		{
			Name: "landlock_create_ruleset",
			NR:   unix.SYS_LANDLOCK_CREATE_RULESET,
			Arg:  [6]uintptr{addr(attr), size},
			Out:  set,
		},
	}
	for _, r := range list {
		b := a.Alloc(12)
		*(*uint64)(unsafe.Pointer(&b[0])) = r.rights & handled
		*(*int32)(unsafe.Pointer(&b[8])) = int32(r.fd)
		if r.fd < 0 {
			ops = append(ops, script.Op{
				Name: "open " + r.path, NR: unix.SYS_OPENAT, Out: a.Cell(b, 8),
				Arg: [6]uintptr{script.AtFDCWD, a.Str(r.path), unix.O_PATH | unix.O_CLOEXEC},
			})
		}
		ops = append(ops, script.Op{
			Name: "landlock_add_rule " + r.path, NR: unix.SYS_LANDLOCK_ADD_RULE, In: set,
			Arg: [6]uintptr{0, 1, addr(b), 0},
		})
	}
	return append(ops, script.Op{Name: "landlock_restrict_self", NR: unix.SYS_LANDLOCK_RESTRICT_SELF, In: set})
}
