package child

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// watched is a path of the template that may appear at any time.
type watched struct {
	path string
	text []byte // with its NUL, so that looking for it allocates nothing
}

func watchList(t wire.Template) []watched {
	var out []watched
	for _, p := range t.Denied {
		out = append(out, watched{p, append([]byte(p), 0)})
	}
	return out
}

// hide covers the paths that exist now and are not covered yet: those of the template and
// more masks are hidden, kept ones become read-only. It changes the session's mount
// namespace, of which later calls get a copy; calls that run keep theirs. The daemon asks for
// it when something has changed in the directories of those paths, or there are others to
// keep.
func (s *server) hide(masks []string, kept []wire.Kept) error {
	if s.t.NoNamespaces && len(s.watched)+len(masks)+len(kept) > 0 {
		return errors.New("without namespaces no path can be covered: the mount would be on the host")
	}
	for _, w := range s.watched {
		if err := s.cover(w.path, w.text, true); err != nil {
			return err
		}
	}
	for _, p := range masks {
		if err := s.cover(p, append([]byte(p), 0), true); err != nil {
			return err
		}
	}
	for _, k := range kept {
		p := string(k.Path)
		s.pinUp(p, k.Pins)
		if err := s.cover(p, append([]byte(p), 0), false); err != nil {
			return err
		}
	}
	return nil
}

// cover puts a mount over p, unless the mount that it made before is still there. It asks the
// kernel for that: when a host program replaces a file, the mount on it goes away, and below
// may be another mount, of a path that the settings name.
func (s *server) cover(p string, text []byte, mask bool) error {
	there, err := s.look(text)
	for ; err == nil && there && !s.isMount(s.covered[p]); there, err = s.look(text) {
		kind := s.stat.Mode & unix.S_IFMT
		if kind == unix.S_IFLNK {
			// The target of a link is denied by its own path, if it is denied.
			return nil
		}
		if !mask && s.kept[s.stat.Mnt_id] && s.stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
			return nil // it was moved here with the mount on it
		}
		from, depth := p, uint(unix.AT_RECURSIVE)
		if mask {
			s.pin(filepath.Dir(p))
			from, depth = maskDir+"/file", 0
			if kind == unix.S_IFDIR {
				from = maskDir + "/dir"
			}
		}
		s.changes++
		id, err := s.lay(from, p, depth)
		if errors.Is(err, unix.ENOENT) {
			// Either p has just been removed or moved, or the settings name it, it was bound here,
			// and the host has replaced it. Such a mount lies on no directory entry any
			// more, and must be unmounted first.
			if e := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); e == nil || errors.Is(e, unix.ENOENT) {
				continue
			}
			return err
		} else if err != nil {
			return err
		}
		s.covered[p] = id
		if !mask {
			s.kept[id] = true
		}
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", p, err)
	}
	return nil
}

// isMount reports whether the path of the last look is the root of that mount.
func (s *server) isMount(id uint64) bool {
	return id != 0 && s.stat.Mnt_id == id && s.stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// mountAt returns the mount that a path lies on, 0 if nothing is there.
func (s *server) mountAt(path []byte) (uint64, error) {
	if there, err := s.look(path); !there {
		return 0, err
	}
	return s.stat.Mnt_id, nil
}

// lay puts a mount of from at p, read-only, and returns its id. The mount has its flags before it is
// there: a program may move p at any moment, with what is mounted on it.
func (s *server) lay(from, p string, depth uint) (uint64, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, from,
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|depth)
	if err != nil {
		return 0, fmt.Errorf("clone the mount of %s: %w", from, err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return 0, fmt.Errorf("set mount attributes %#x of %s: %w", attr.Attr_set, from, err)
	}
	var st unix.Statx_t
	if err := unix.Statx(tree, "", unix.AT_EMPTY_PATH, wantedOfMounts, &st); err != nil {
		return 0, fmt.Errorf("look at the mount of %s: %w", from, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, p, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return 0, fmt.Errorf("mount %s at %s: %w", from, p, err)
	}
	return st.Mnt_id, nil
}

// wantedOfMounts is what is asked of a path and its mount; unique ids since Linux 6.8.
const wantedOfMounts = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE

// look asks the kernel about a path and its mount. It reports false if no program in the
// sandbox can reach anything there. Raw, because it is done some fifty times in a row, and
// Go's scheduler need not know of each.
func (s *server) look(path []byte) (bool, error) {
	_, _, err := unix.RawSyscall6(unix.SYS_STATX, script.AtFDCWD, addr(path),
		unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, wantedOfMounts, uintptr(unsafe.Pointer(&s.stat)), 0)
	switch err {
	case 0:
		return true, nil
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ENAMETOOLONG, unix.ELOOP:
		return false, nil
	}
	return false, err
}

// pin makes every directory from dir up to the writable root a mount point, which cannot be
// renamed. Otherwise a program could rename the parent of a denied path and read what is
// below the new name.
func (s *server) pin(dir string) {
	root := ""
	for _, w := range s.t.Write {
		if within(dir, w) && len(w) > len(root) {
			root = w
		}
	}
	if root == "" && s.t.WriteAll {
		root = "/"
	}
	if root == "" {
		return
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(dir, root), "/")
	if rel == "" {
		return
	}
	at := root
	for _, seg := range strings.Split(rel, "/") {
		at = filepath.Join(at, seg)
		s.pinOne(at)
	}
}

// pinUp makes that many directories above a path mount points: those that are part of a name
// that other programs obey. The directories above those may get other names, for the file and
// the mount on it move with them.
func (s *server) pinUp(p string, pins int) {
	dirs := make([]string, 0, 8)
	for ; pins > 0; pins-- {
		p = filepath.Dir(p)
		dirs = append(dirs, p)
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		s.pinOne(dirs[i])
	}
}

func (s *server) pinOne(dir string) {
	text := append([]byte(dir), 0)
	if there, err := s.look(text); !there || err != nil || s.isMount(s.covered[dir]) || s.isMount(s.pinned[dir]) {
		return
	}
	if mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, "") == nil {
		s.pinned[dir], _ = s.mountAt(text)
		s.changes++
	}
}
