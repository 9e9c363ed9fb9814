package sandbox

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Lists of access rights, as acl(5) has them; the second is what new files of a directory get.
const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
)

// IsACL reports whether an attribute is a list of access rights.
func IsACL(attribute string) bool { return attribute == aclAccess || attribute == aclDefault }

// Extended are the attributes of a file that its owner can set: those of users, and its lists of access rights. Who
// changes them meanwhile does not end the look: one that went is none.
func Extended(fd int) (map[string][]byte, error) {
	names, err := attributeNames(fd)
	if err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	var all map[string][]byte
	for name := range strings.SplitSeq(string(names), "\x00") {
		if !strings.HasPrefix(name, "user.") && !IsACL(name) {
			continue
		}
		value := make([]byte, 64<<10) // the most that the kernel takes
		n, err := unix.Fgetxattr(fd, name, value)
		if err == unix.ENODATA {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read attribute %s: %w", name, err)
		}
		if all == nil {
			all = map[string][]byte{}
		}
		all[name] = value[:n:n]
	}
	return all, nil
}

// attributeNames are the names of all attributes, each with a zero at its end.
func attributeNames(fd int) ([]byte, error) {
	size, err := unix.Flistxattr(fd, nil)
	if err == unix.ENOTSUP || err == nil && size == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := make([]byte, size)
	n, err := unix.Flistxattr(fd, names)
	if err == unix.ERANGE { // some came
		names = make([]byte, 64<<10) // the most that the kernel gives
		n, err = unix.Flistxattr(fd, names)
	}
	return names[:max(n, 0)], err
}

// SetExtended gives the file at a path, which may be one of /proc/self/fd, the attributes of want in place of those of
// now. The mode goes behind it: a list of access rights changes that of the group.
func SetExtended(path string, now, want map[string][]byte) error {
	for name := range now {
		if _, stays := want[name]; stays {
			continue
		}
		if err := unix.Removexattr(path, name); err != nil && err != unix.ENODATA {
			return fmt.Errorf("remove attribute %s: %w", name, err)
		}
	}
	for name, value := range want {
		if err := unix.Setxattr(path, name, value, 0); err != nil {
			return fmt.Errorf("set attribute %s: %w", name, err)
		}
	}
	return nil
}
