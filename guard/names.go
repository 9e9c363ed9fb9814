package guard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// names keeps what lies at each name. So each name is looked up once, and all paths of a call are judged by the same
// state of the tree.
type names struct {
	found []namedEntry     // the first ones: most calls look at few names
	more  map[string]entry // the others
	// Names below these places are not looked up. The answer must not tell the caller which names
	// exist there, or where links lead.
	closed pathSet
}

func newNames(closed pathSet) *names { return &names{closed: closed} }

// stop returns where the way along rest, from the directory at, ends without a look: in a closed place. It reports
// false if at is not closed.
func (n *names) stop(at, rest string) (string, bool) {
	if len(n.closed.paths) == 0 {
		return "", false
	}
	if _, closed := n.closed.paths[sameOnAnyVolume(at)]; !closed {
		return "", false
	}
	return filepath.Join(at, filepath.Clean("/"+rest)), true // so that .. does not lead out again
}

// hides reports whether a path lies in a closed place.
func (n *names) hides(path string) bool {
	_, closed := n.closed.above(path)
	return closed
}

type entry struct {
	kind   kind
	target string // where a link leads
	err    error  // why its target cannot be read
}

// fewNames is how many names are compared one by one, which is faster than a hash for so few.
const fewNames = 8

type namedEntry struct {
	path string
	entry
}

type kind uint8

const (
	// missing also stands for what cannot be looked at: a program with this uid cannot open it either.
	missing kind = iota
	plain
	link
)

func (n *names) lookup(path string) entry {
	for i := range n.found {
		if n.found[i].path == path {
			return n.found[i].entry
		}
	}
	if e, ok := n.more[path]; ok {
		return e
	}
	e := lookup(path)
	if len(n.found) < fewNames {
		if n.found == nil {
			n.found = make([]namedEntry, 0, fewNames/2)
		}
		n.found = append(n.found, namedEntry{path, e})
		return e
	}
	if n.more == nil {
		n.more = map[string]entry{}
	}
	n.more[path] = e
	return e
}

// isDir reports whether an absolute path is a directory, as far as that may be known.
func (n *names) isDir(path string) bool {
	path, err := resolve(path, "", n)
	if _, closed := n.closed.above(path); err != nil || closed {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
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

// keepDevice reports whether a path is a standard stream. Those are links into /proc/self, and are matched by their
// own names.
func keepDevice(path string) bool {
	return path == "/dev/stdin" || path == "/dev/stdout" || path == "/dev/stderr"
}

// maxHops bounds the links that [Reach] follows, as the kernel does.
const maxHops = 40

// Reach returns which of dirs decides what an absolute path names: the first in which a name on the way to it lies,
// names that links lead to included. Whoever can write that directory can put another file there. Dirs are physical.
// A path whose links go in circles leads nowhere, so no directory decides.
func Reach(path string, dirs []string) (dir string, ok bool) {
	alongLinks(path, func(name string) bool {
		i := slices.IndexFunc(dirs, func(d string) bool { return Within(name, d) })
		if ok = i >= 0; ok {
			dir = dirs[i]
		}
		return !ok
	})
	return dir, ok
}

// alongLinks visits each name on the way along an absolute path, names that links lead to included, as long as visit
// returns true. It reports false for links that go in circles.
func alongLinks(path string, visit func(name string) bool) bool {
	at, todo, hops := "/", strings.Split(path, "/"), 0
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if !visit(next) {
			return true
		}
		target, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if hops++; hops > maxHops {
			return false
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return true
}
