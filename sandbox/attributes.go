package sandbox

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The attributes with lists of access rights (acl(5)). New files of a directory get the second one.
const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
)

// IsACL reports whether an attribute is a list of access rights.
func IsACL(attribute string) bool { return attribute == aclAccess || attribute == aclDefault }

// WithMode returns an attribute as chmod would leave it. In a list of access rights, chmod changes three entries:
// that of the owner, that of the mask (of the group, if there is no mask), and that of others.
func WithMode(attribute string, value []byte, mode uint32) []byte {
	const head, entry, owner, group, mask, other = 4, 8, 1, 4, 16, 32 // the form of the attribute in the kernel
	if attribute != aclAccess || len(value) < head || (len(value)-head)%entry != 0 {
		return value
	}
	at := map[uint16][]byte{} // by tag: the entries of which there is one each
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

// Extended returns the attributes of a file that its owner can set: user attributes, and lists of access rights. If
// somebody changes them meanwhile, it goes on; an attribute that has gone is left out.
func Extended(fd int) (map[string][]byte, error) {
	return extended(
		func(names []byte) (int, error) { return unix.Flistxattr(fd, names) },
		func(name string, value []byte) (int, error) { return unix.Fgetxattr(fd, name, value) },
	)
}

// ExtendedAt is [Extended] for a file that cannot be opened, at a path that may be one in /proc/self/fd. A caller
// who may not read the file gets nil as the values of user attributes. Lists of access rights are always readable.
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

// unknownValue stands for the size of a value that may not be read.
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
		value := make([]byte, 64<<10) // the largest that the kernel accepts
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

// attributeNames returns the names of all attributes, each followed by a zero byte.
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
	if err == unix.ERANGE { // names were added meanwhile
		names = make([]byte, 64<<10) // the most that the kernel returns
		n, err = list(names)
	}
	return names[:max(n, 0)], err
}

// SetExtended gives the file at a path, which may be one of /proc/self/fd, the attributes of want in place of those of
// now. An attribute whose value in want is nil, because it is not known, stays as it is. Set the mode of the file after
// that, because a list of access rights changes it. Lists are set last, because they may deny their owner to write,
// which user attributes need.
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
