package child

import (
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watched is a path to look for before every call.
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
// before a call gets its copy; calls that run already keep theirs.
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

// cover puts a mount over p. A host program that replaces a file takes the mount
// away with it, so this asks for the mount and not for a memory of having made it.
func (s *server) cover(p string, text []byte, mask bool) error {
	st := &s.stat
	// Some fifty times a call and almost always not there, so without telling
	// Go's scheduler of each.
	_, _, err := unix.RawSyscall6(unix.SYS_STATX, atFDCWD, addr(text), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE|unix.STATX_MODE, uintptr(unsafe.Pointer(st)), 0)
	switch err {
	case 0:
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ENAMETOOLONG, unix.ELOOP:
		return nil // not there, or not there for anybody in here
	default:
		return fmt.Errorf("look at %s: %w", p, err)
	}
	if s.covered[p] && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return nil
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		// Rules are made of physical paths: what a link leads to is denied, if
		// it is, by its own name.
		return nil
	}
	s.pin(filepath.Dir(p))
	from, flags := p, uint64(unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if mask {
		from = maskDir + "/file"
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			from = maskDir + "/dir"
		}
	}
	how := uintptr(unix.MS_BIND)
	if !mask {
		how |= unix.MS_REC
	}
	if err := mount(from, p, "", how, ""); err != nil {
		return err
	}
	if err := setAttr(p, flags); err != nil {
		return err
	}
	s.covered[p] = true
	s.changes++
	return nil
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
		if s.covered[at] || s.pinned[at] {
			continue
		}
		if mount(at, at, "", unix.MS_BIND|unix.MS_REC, "") == nil {
			s.pinned[at] = true
			s.changes++
		}
	}
}
