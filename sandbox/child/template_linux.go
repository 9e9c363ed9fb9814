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

	"github.com/sandboxd/sandboxd/sandbox/identity"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// maskDir holds an empty file and an empty directory, which are mounted over denied paths.
const maskDir = "/run/.masked"

// shmOptions bound the number of files too: even empty ones cost memory of the kernel.
const shmOptions = "mode=1777,size=512m,nr_inodes=64k"

// builder makes a root directory in dir.
type builder struct {
	t   wire.Template
	dir string
}

// foundation makes the part that is the same in every root. A launcher does that before it
// has a session.
func foundation(dir string) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	b := builder{dir: dir}
	if err := mount("sandbox", b.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return err
	}
	for _, d := range []string{"/home", "/root", "/run"} { // programs expect them; their contents are bound later
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

// build completes the root directory of the session and moves into it. Every call gets a
// copy of the resulting mount namespace.
func build(t wire.Template, dir string) error {
	b := builder{t, dir}
	for _, step := range []func() error{b.system, b.private, b.overlaid, b.shown, b.writable, b.names, b.trust} {
		if err := step(); err != nil {
			return err
		}
	}
	if b.t.Profile != wire.ProfileStrict { // a strict call has a /proc of its own
		if err := setAttr(b.dir+"/proc", unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	return b.enter()
}

// system binds the readable paths.
func (b builder) system() error {
	paths := append(slices.Clone(wire.SystemPaths), b.t.Read...)
	if len(b.t.Read) == 0 {
		entries, err := os.ReadDir("/")
		if err != nil {
			return err
		}
		paths = nil
		for _, e := range entries {
			if p := "/" + e.Name(); !slices.Contains(wire.OwnPlaces, p) {
				paths = append(paths, p)
			}
		}
		// The system's own profile on hosts that keep it below /run.
		paths = append(paths, "/run/current-system")
	}
	paths = append(paths, b.t.Show...)
	// Paths below /tmp are bound by shown: private would hide them.
	paths = slices.DeleteFunc(paths, belowTmp)
	slices.Sort(paths) // parents first
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

// ownKind reports whether the sandbox has its own version of p.
func (b builder) ownKind(p string) bool {
	for _, own := range []string{"/proc", "/sys", "/dev"} {
		if within(p, own) {
			return true
		}
	}
	return p == "/" || p == "/tmp" || p == "/var/tmp" || p == "/run"
}

// private mounts the session's own temporary directories and caches.
func (b builder) private() error {
	for _, p := range []struct{ at, from string }{
		{"/tmp", "tmp"}, {"/var/tmp", "vartmp"}, {wire.CacheDir, "cache"},
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

// overlaid mounts the caches of Overlaid. Programs use what the host has, and what they
// write stays in the session. Without an overlay a cache starts empty.
func (b builder) overlaid() error {
	for _, p := range wire.Overlaid {
		at := b.dir + p
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		upper, work := wire.OverDirs(b.t.Over, p)
		if u := b.t.User; u != nil {
			if err := os.Chown(upper, u.UID, u.GID); err != nil {
				return err
			}
		}
		if b.overlay(at, b.t.Lower[p], upper, work) {
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

// overlay mounts an overlay over the lower directory, if there is one that the user may enter.
func (b builder) overlay(at, lower, upper, work string) bool {
	if lower == "" {
		return false
	}
	from := -1
	err := b.asUser(func() (err error) {
		from, err = openPlain(unix.AT_FDCWD, lower)
		return err
	})
	if err != nil {
		return false
	}
	defer unix.Close(from)
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	options := fmt.Sprintf("userxattr,lowerdir=/proc/self/fd/%d,upperdir=%s,workdir=%s", from, upper, work)
	return unix.Mount("overlay", at, "overlay", flags, options) == nil
}

// shown binds the readable paths below /tmp and /var/tmp, such as a workspace.
func (b builder) shown() error {
	paths := slices.Concat(b.t.Read, b.t.Show)
	paths = slices.DeleteFunc(paths, func(p string) bool { return !belowTmp(p) })
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		if err := b.bind(p, !b.t.WriteAll); err != nil {
			return err
		}
	}
	return nil
}

func belowTmp(p string) bool {
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

// bind mounts the host's p at its own place. A path that does not exist is left out: a mount
// point would have to be made on the host.
func (b builder) bind(p string, readOnly bool) error {
	var target string
	from := -1
	// By the rights of the user: what the modes close to a user must not be opened by a mount.
	err := b.asUser(func() (err error) {
		if target, err = os.Readlink(p); err == nil {
			return nil
		}
		// From here on by descriptors: other programs of the session may run, and can replace
		// by links what lies below a writable tree or in the private /tmp.
		from, err = openPlain(unix.AT_FDCWD, p)
		return err
	})
	if errors.Is(err, identity.ErrNotTaken) {
		return err
	}
	if err != nil {
		return nil // p does not exist, or leads through a link; it can be reached by its physical path only
	}
	if target != "" {
		if belowTmp(p) {
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
	tree, err := unix.OpenTree(from, "",
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
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

// asUser runs f with the rights of the user whose programs will run.
func (b builder) asUser(f func() error) error {
	if b.t.User == nil {
		return f()
	}
	return b.t.User.Do(f)
}

// openPlain opens a path with O_PATH and refuses links.
func openPlain(dir int, path string) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS |
			unix.RESOLVE_NO_MAGICLINKS,
	})
}

// place opens the mount point of p in the new root, and makes it if it does not exist. Below
// a tree that is bound already it exists, because it exists on the host. In the private
// directories, whatever a program has put there instead is renamed.
func (b builder) place(p string, dir bool) (int, error) {
	at, err := unix.Open(b.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	segments := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, seg := range segments {
		next, err := placeIn(at, seg, dir || i < len(segments)-1, belowTmp(p))
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// placeIn opens or makes one component of a mount point.
func placeIn(parent int, name string, dir, clear bool) (int, error) {
	var err error
	for range 4 { // a program may undo this meanwhile
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

// devices makes a /dev with the few devices that every program may use. Its instance of
// devpts is new, so that no terminal of the host has a name in the sandbox.
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
		// On a read-only mount a device can still be written, but its mode and times cannot
		// be changed. They are the host's, and a program with the uid of the host's root
		// owns the device.
		if err := setAttr(at, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	for _, l := range [][2]string{
		{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"}, {
			"/proc/self/fd/2",
			"stderr",
		}, {"pts/ptmx", "ptmx"},
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

// kernel mounts /proc of the launcher's own pid namespace and the harmless parts of /sys.
// Each strict call mounts its own /proc over this one.
func (b builder) kernel() error {
	if err := os.Mkdir(b.dir+"/proc", 0o555); err != nil {
		return err
	}
	if err := mount("proc", b.dir+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	// The rest of /sys describes the host's network and hardware, and has the control groups.
	for _, p := range []string{
		"/sys/devices/system/cpu", "/sys/devices/system/node",
		"/sys/kernel/mm/transparent_hugepage",
	} {
		if err := b.bind(p, true); err != nil {
			return err
		}
	}
	return nil
}

// masks makes what [server.hide] mounts over denied paths, and what names mounts.
func (b builder) masks() error {
	at := b.dir + maskDir
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := mount("masked", at, "tmpfs", flags, "mode=755,size=64k"); err != nil {
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
	host, _ := os.ReadFile("/etc/nsswitch.conf") // a host may have none
	for name, text := range map[string]string{"resolv.conf": resolvConf, "nsswitch.conf": nsswitchConf(string(host))} {
		p := at + "/" + name
		if err := errors.Join(os.WriteFile(p, []byte(text), 0o644), os.Chmod(p, 0o644)); err != nil {
			return err
		}
	}
	return setAttr(at, unix.MOUNT_ATTR_RDONLY)
}

// enter makes dir the root of this namespace, and detaches the old root.
func (b builder) enter() error {
	if !b.t.WriteAll {
		readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, b.dir, 0, &readOnly); err != nil {
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

// loopbackUp brings up the loopback of the new network namespace.
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
