package child

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watched is a path to look for when the daemon asks for it.
type watched struct {
	path string
	text []byte // with its NUL, so that looking for it allocates nothing
	mask bool   // hide it; otherwise protect it from writing
}

func watchList(t Template) []watched {
	var out []watched
	for _, p := range t.Denied {
		out = append(out, watched{p, append([]byte(p), 0), true})
	}
	for _, p := range t.Protected {
		out = append(out, watched{p, append([]byte(p), 0), false})
	}
	return out
}

// hide masks the denied paths and write-protects the protected ones that exist
// now and are not covered yet. It works on the session's own mount namespace
// before a call gets its copy; calls that run already keep theirs. The daemon asks for
// it when something has changed where those paths are.
func (s *server) hide(more []string) error {
	for _, w := range s.watched {
		if err := s.cover(w.path, w.text, w.mask); err != nil {
			return err
		}
	}
	for _, p := range more {
		if err := s.cover(p, append([]byte(p), 0), true); err != nil {
			return err
		}
	}
	return nil
}

// cover puts a mount over p. It asks which mount is there now, instead of only
// remembering that it made one: a host program that replaces a file takes the mount
// away with it, and below may be another, of a path that the settings name.
func (s *server) cover(p string, text []byte, mask bool) error {
	there, err := s.look(text)
	for ; err == nil && there && !s.isMount(s.covered[p]); there, err = s.look(text) {
		kind := s.stat.Mode & unix.S_IFMT
		if kind == unix.S_IFLNK {
			// Rules are made of physical paths: what a link leads to is denied, if
			// it is, by its own name.
			return nil
		}
		s.pin(filepath.Dir(p))
		from, how := p, uintptr(unix.MS_BIND|unix.MS_REC)
		if mask {
			from, how = maskDir+"/file", unix.MS_BIND
			if kind == unix.S_IFDIR {
				from = maskDir + "/dir"
			}
		}
		s.changes++
		if err := mount(from, p, "", how, ""); errors.Is(err, unix.ENOENT) {
			// Gone in this moment, which is seen next; or it is bound here because
			// the settings name it, and the host has replaced it: such a mount has
			// no place in a directory any more.
			if e := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); e == nil || errors.Is(e, unix.ENOENT) {
				continue
			}
			return err
		} else if err != nil {
			return err
		}
		if err := setAttr(p, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
		if s.covered[p], err = s.mountAt(text); err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", p, err)
	}
	return nil
}

// isMount reports whether what was looked at last is the root of that mount.
func (s *server) isMount(id uint64) bool {
	return id != 0 && s.stat.Mnt_id == id && s.stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// mountAt is the mount that a path lies on.
func (s *server) mountAt(path []byte) (uint64, error) {
	_, err := s.look(path)
	return s.stat.Mnt_id, err
}

// look asks about a path and its mount; false where there is nothing for anybody in
// here. It is done some fifty times a call, so without telling Go's scheduler of each.
func (s *server) look(path []byte) (bool, error) {
	const want = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE // unique since Linux 6.8
	_, _, err := unix.RawSyscall6(unix.SYS_STATX, atFDCWD, addr(path), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, want, uintptr(unsafe.Pointer(&s.stat)), 0)
	switch err {
	case 0:
		return true, nil
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ENAMETOOLONG, unix.ELOOP:
		return false, nil
	}
	return false, err
}

// pin makes every directory from dir up to the writable root a mount point of
// itself, which cannot be renamed: otherwise a program moves the parent of a
// denied path away and finds what it wants below the new name.
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
		text := append([]byte(at), 0)
		if there, err := s.look(text); !there || err != nil || s.isMount(s.covered[at]) || s.isMount(s.pinned[at]) {
			continue
		}
		if mount(at, at, "", unix.MS_BIND|unix.MS_REC, "") == nil {
			s.pinned[at], _ = s.mountAt(text)
			s.changes++
		}
	}
}
