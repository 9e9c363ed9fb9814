package sandbox

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
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

// WithMode is an attribute as chmod leaves it: a list of access rights has those of the mode in the entries of the
// owner, of the mask, or of the group where there is no mask, and of others.
func WithMode(attribute string, value []byte, mode uint32) []byte {
	const head, entry, owner, group, mask, other = 4, 8, 1, 4, 16, 32 // as the kernel has them in an attribute
	if attribute != aclAccess || len(value) < head || (len(value)-head)%entry != 0 {
		return value
	}
	at := map[uint16][]byte{} // the rights of an entry by its tag, of which these have one each
	value = slices.Clone(value)
	for e := value[head:]; len(e) > 0; e = e[entry:] {
		at[binary.LittleEndian.Uint16(e)] = e[2:4]
	}
	if at[mask] == nil {
		at[mask] = at[group]
	}
	for i, tag := range []uint16{other, mask, owner} {
		if at[tag] != nil {
			binary.LittleEndian.PutUint16(at[tag], uint16(mode>>(3*i)&0o7))
		}
	}
	return value
}

// Extended are the attributes of a file that its owner can set: those of users, and its lists of access rights. Who
// changes them meanwhile does not end the look: one that went is none.
func Extended(fd int) (map[string][]byte, error) {
	return extended(
		func(names []byte) (int, error) { return unix.Flistxattr(fd, names) },
		func(name string, value []byte) (int, error) { return unix.Fgetxattr(fd, name, value) },
	)
}

// ExtendedAt is [Extended] of a file that cannot be opened, at a path that may be one of /proc/self/fd. Who may not
// read a file sees the names of the attributes of users, whose values are nil then, and its lists of access rights.
func ExtendedAt(path string) (map[string][]byte, error) {
	return extended(
		func(names []byte) (int, error) { return unix.Listxattr(path, names) },
		func(name string, value []byte) (int, error) {
			n, err := unix.Getxattr(path, name, value)
			if err == unix.EACCES {
				return unknownValue, nil
			}
			return n, err
		},
	)
}

// unknownValue is in place of the size of a value that may not be read.
const unknownValue = -1

func extended(list func([]byte) (int, error), get func(string, []byte) (int, error)) (map[string][]byte, error) {
	names, err := attributeNames(list)
	if err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	var all map[string][]byte
	for name := range strings.SplitSeq(string(names), "\x00") {
		if !strings.HasPrefix(name, "user.") && !IsACL(name) {
			continue
		}
		value := make([]byte, 64<<10) // the most that the kernel takes
		n, err := get(name, value)
		if err == unix.ENODATA {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read attribute %s: %w", name, err)
		}
		if all == nil {
			all = map[string][]byte{}
		}
		if all[name] = nil; n != unknownValue {
			all[name] = value[:n:n]
		}
	}
	return all, nil
}

// attributeNames are the names of all attributes, each with a zero at its end.
func attributeNames(list func([]byte) (int, error)) ([]byte, error) {
	size, err := list(nil)
	if err == unix.ENOTSUP || err == nil && size == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := make([]byte, size)
	n, err := list(names)
	if err == unix.ERANGE { // some came
		names = make([]byte, 64<<10) // the most that the kernel gives
		n, err = list(names)
	}
	return names[:max(n, 0)], err
}

// SetExtended gives the file at a path, which may be one of /proc/self/fd, the attributes of want in place of those of
// now; one whose value is nil, which is not known, stays. The mode goes behind it: a list of access rights changes that
// of the group. Lists come last, for they may deny their owner to write, which attributes of users need.
func SetExtended(path string, now, want map[string][]byte) error {
	for name := range now {
		if _, stays := want[name]; stays {
			continue
		}
		if err := unix.Removexattr(path, name); err != nil && err != unix.ENODATA {
			return fmt.Errorf("remove attribute %s: %w", name, err)
		}
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(want))) { // "user." is before "system."
		if want[name] == nil {
			continue
		}
		if err := unix.Setxattr(path, name, want[name], 0); err != nil {
			return fmt.Errorf("set attribute %s: %w", name, err)
		}
	}
	return nil
}
