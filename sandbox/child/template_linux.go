package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// SystemPaths are what programs need to start at all. They are readable whatever
// the read list says: none of them holds secrets.
var SystemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf",
	"/etc/localtime", "/etc/timezone", "/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki/tls/certs",
	"/etc/gitconfig", "/etc/inputrc", "/etc/terminfo", "/etc/mime.types", "/etc/protocols", "/etc/services",
}

// Files without content cost memory of the kernel, so their number is bounded too.
const shmOptions = "mode=1777,size=512m,nr_inodes=64k"

// OwnPlaces are made by the template itself and never bound from the host whole.
var OwnPlaces = []string{"/proc", "/sys", "/dev", "/tmp", "/run", "/home", "/root", "/lost+found"}

// builder puts a root directory together below dir.
type builder struct {
	t   Template
	dir string
}

// RootEnv names the directory that a root is built on. It is the same for all
// sessions: each mounts there in its own namespace.
const RootEnv = "SANDBOXD_ROOT"

// foundation makes what is the same in every root, so that a launcher can do it
// before it has a session.
func foundation(dir string) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	b := builder{dir: dir}
	if err := mount("sandbox", b.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return err
	}
	for _, d := range []string{"/home", "/root", "/run"} { // programs expect them; what belongs there comes by bind
		if err := os.Mkdir(b.dir+d, 0o755); err != nil {
			return err
		}
	}
	for _, step := range []func() error{b.devices, b.kernel, b.masks, loopbackUp} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return nil
}

// build makes the root directory of the session on its foundation and moves into
// it. What it leaves is a mount namespace that every call gets a copy of.
func build(t Template, dir string) error {
	b := builder{t, dir}
	for _, step := range []func() error{b.system, b.private, b.overlaid, b.shown, b.writable} {
		if err := step(); err != nil {
			return err
		}
	}
	if b.t.Profile != "strict" { // which has a /proc of its own in every call
		if err := setAttr(b.dir+"/proc", unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	return b.enter()
}

// system binds what is readable.
func (b builder) system() error {
	paths := append(slices.Clone(SystemPaths), b.t.Read...)
	if len(b.t.Read) == 0 {
		entries, err := os.ReadDir("/")
		if err != nil {
			return err
		}
		paths = nil
		for _, e := range entries {
			if p := "/" + e.Name(); !slices.Contains(OwnPlaces, p) {
				paths = append(paths, p)
			}
		}
		// The system's own profile on hosts that keep it below /run.
		paths = append(paths, "/run/current-system")
	}
	paths = append(paths, b.t.Show...)
	paths = slices.DeleteFunc(paths, belowPrivate) // hidden by what comes next, and bound after it
	slices.Sort(paths)                             // parents first
	for _, p := range slices.Compact(paths) {
		if b.ownKind(p) {
			continue
		}
		if err := b.bind(p, !b.t.WriteAll); err != nil {
			return err
		}
	}
	return nil
}

// ownKind reports whether p lies where the template puts things of its own.
func (b builder) ownKind(p string) bool {
	for _, own := range []string{"/proc", "/sys", "/dev"} {
		if within(p, own) {
			return true
		}
	}
	return p == "/" || p == "/tmp" || p == "/var/tmp" || p == "/run"
}

// private gives the session its own temporary directories and caches.
func (b builder) private() error {
	for _, p := range []struct{ at, from string }{
		{"/tmp", "tmp"}, {"/var/tmp", "vartmp"}, {CacheDir, "cache"},
	} {
		from := filepath.Join(b.t.Scratch, p.from)
		at := b.dir + p.at
		if err := os.MkdirAll(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOENT) {
				continue // a host without /var/tmp
			}
			return err
		}
		if err := mount(from, at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if err := setAttr(at, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	return nil
}

// overlaid mounts the caches of Overlaid: what the host has may be used, and what the
// session writes stays its own. Where there is no overlay a cache begins empty.
func (b builder) overlaid() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	for _, p := range Overlaid {
		at := b.dir + p
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		upper, work := OverDirs(b.t.Over, p)
		if lower := b.t.Lower[p]; lower != "" && unix.Mount("overlay", at, "overlay", flags, "userxattr,lowerdir="+lower+",upperdir="+upper+",workdir="+work) == nil {
			continue
		}
		if err := mount(upper, at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if err := setAttr(at, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	return nil
}

// shown binds what is readable below a private directory: a workspace in /tmp.
func (b builder) shown() error {
	paths := slices.Concat(b.t.Read, b.t.Show)
	paths = slices.DeleteFunc(paths, func(p string) bool { return !belowPrivate(p) })
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		if err := b.bind(p, !b.t.WriteAll); err != nil {
			return err
		}
	}
	return nil
}

func belowPrivate(p string) bool {
	return p != "/tmp" && within(p, "/tmp") || p != "/var/tmp" && within(p, "/var/tmp")
}

func (b builder) writable() error {
	list := slices.Clone(b.t.Write)
	slices.Sort(list)
	for _, p := range list {
		if b.ownKind(p) {
			continue
		}
		if err := b.bind(p, false); err != nil {
			return err
		}
	}
	return nil
}

// bind shows the host's p at its own place. What does not exist is left out: a
// stub would have to be made on the host.
func (b builder) bind(p string, readOnly bool) error {
	info, err := os.Lstat(p)
	if err != nil {
		return nil
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if belowPrivate(p) {
			return nil
		}
		target, err := os.Readlink(p)
		if err != nil {
			return nil
		}
		at := b.dir + p
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return nil
		}
		if err := os.Symlink(target, at); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.EROFS) {
			return err
		}
		return nil
	}
	// By descriptors from here on: what lies below a writable tree or in the private
	// /tmp is the programs' to swap for links, and others of the session may run.
	from, err := openPlain(unix.AT_FDCWD, p)
	if err != nil {
		return nil // reached by its physical name or not at all
	}
	defer unix.Close(from)
	var st unix.Stat_t
	if err := unix.Fstat(from, &st); err != nil {
		return fmt.Errorf("look at %s: %w", p, err)
	}
	at, err := b.place(p, st.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return fmt.Errorf("make a place for %s: %w", p, err)
	}
	defer unix.Close(at)
	tree, err := unix.OpenTree(from, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("clone the mount of %s: %w", p, err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("set mount attributes %#x of %s: %w", attr.Attr_set, p, err)
	}
	if err := unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", p, err)
	}
	return nil
}

// openPlain opens a path for its place alone, and refuses links.
func openPlain(dir int, path string) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// place opens the mount point of p in the new root, and makes it where it is absent:
// below a tree that is bound already it exists, for it exists on the host. What a
// program has put there in the private directories is moved out of the way.
func (b builder) place(p string, dir bool) (int, error) {
	at, err := unix.Open(b.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	segments := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, seg := range segments {
		next, err := placeIn(at, seg, dir || i < len(segments)-1, belowPrivate(p))
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

func placeIn(parent int, name string, dir, clear bool) (int, error) {
	var err error
	for range 4 { // a program may undo what is done here
		var fd int
		fd, err = openPlain(parent, name)
		if err == nil {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err == nil && (st.Mode&unix.S_IFMT == unix.S_IFDIR) == dir {
				return fd, nil
			}
			unix.Close(fd)
			err = unix.ENOTDIR
		}
		switch {
		case err == unix.ENOENT && dir:
			err = unix.Mkdirat(parent, name, 0o755)
		case err == unix.ENOENT:
			err = unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0)
		case clear:
			err = unix.Renameat(parent, name, parent, fmt.Sprintf(".%s-%d", name, time.Now().UnixNano()))
		}
		if err != nil && err != unix.EEXIST && err != unix.ENOENT {
			return -1, err
		}
	}
	return -1, fmt.Errorf("%s is in the way: %w", name, err)
}

// devices are the few that every program may use; the terminal multiplexer is a
// new instance, so that no terminal of the host has a name in here.
func (b builder) devices() error {
	dev := b.dir + "/dev"
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		at := dev + "/" + name
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			return err
		}
		if err := mount("/dev/"+name, at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		// A read-only mount lets a device be written, and keeps its mode and times: they
		// are the host's, and with the uid of the host's root a program owns it.
		if err := setAttr(at, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	for _, l := range [][2]string{
		{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"},
	} {
		if err := os.Symlink(l[0], dev+"/"+l[1]); err != nil {
			return err
		}
	}
	for _, d := range []string{"pts", "shm"} {
		if err := os.Mkdir(dev+"/"+d, 0o755); err != nil {
			return err
		}
	}
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := mount("devpts", dev+"/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=600"); err != nil {
		return err
	}
	return mount("shm", dev+"/shm", "tmpfs", flags|unix.MS_NODEV, shmOptions)
}

// kernel gives /proc of the launcher's own pid namespace (each strict call covers
// it with one of its own) and the harmless parts of /sys.
func (b builder) kernel() error {
	if err := os.Mkdir(b.dir+"/proc", 0o555); err != nil {
		return err
	}
	if err := mount("proc", b.dir+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	// The rest of /sys tells about the host's network and hardware, and holds
	// the control groups.
	for _, p := range []string{"/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage"} {
		if err := b.bind(p, true); err != nil {
			return err
		}
	}
	return nil
}

// masks prepares what hides denied paths; the hiding itself is done by
// [server.hide] before every call, for such paths come and go.
func (b builder) masks() error {
	at := b.dir + maskDir
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := mount("masked", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=4k"); err != nil {
		return err
	}
	if err := os.Mkdir(at+"/dir", 0); err != nil {
		return err
	}
	f, err := os.OpenFile(at+"/file", os.O_CREATE|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	f.Close()
	return setAttr(at, unix.MOUNT_ATTR_RDONLY)
}

// enter makes the new root the root of this namespace and lets go of the old one.
func (b builder) enter() error {
	if !b.t.WriteAll {
		if err := unix.MountSetattr(unix.AT_FDCWD, b.dir, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("make the root read-only: %w", err)
		}
	}
	if err := unix.Chdir(b.dir); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot into the new root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the old root: %w", err)
	}
	return unix.Chdir("/")
}

func mount(from, at, kind string, flags uintptr, data string) error {
	if err := unix.Mount(from, at, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s%s at %s: %w", kind, from, at, err)
	}
	return nil
}

func setAttr(at string, attr uint64) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		return fmt.Errorf("set mount attributes %#x of %s: %w", attr, at, err)
	}
	return nil
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket for the loopback: %w", err)
	}
	defer unix.Close(s)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring the loopback up: %w", err)
	}
	return nil
}

func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}
