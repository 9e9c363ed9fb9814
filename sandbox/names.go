package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// names holds what was found under each name, so that all paths of one call are
// judged by one state of the tree, and looked up once.
type names map[string]entry

type entry struct {
	kind   kind
	target string // of a link
	err    error  // why its target cannot be read
}

type kind uint8

const (
	// missing is also what cannot be looked at: this uid cannot open it either.
	missing kind = iota
	plain
	link
)

func (n names) lookup(path string) entry {
	e, ok := n[path]
	if !ok {
		e = lookup(path)
		n[path] = e
	}
	return e
}

func lookup(path string) entry {
	var info unix.Stat_t
	if unix.Lstat(path, &info) != nil {
		return entry{kind: missing}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFLNK || keepDevice(path) {
		return entry{kind: plain}
	}
	target, err := os.Readlink(path)
	return entry{kind: link, target: target, err: err}
}

// keepDevice names the standard streams, which are links into /proc/self; they
// are matched by their own names.
func keepDevice(path string) bool {
	return path == "/dev/stdin" || path == "/dev/stdout" || path == "/dev/stderr"
}
