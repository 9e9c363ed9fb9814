package guard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxHops bounds the links that [Reach] follows, as the kernel does.
const maxHops = 40

// Reach reports which of dirs decides what an absolute path names: the first in
// which a name on the way to it lies, the names that links lead to included. Who
// can write that directory can put another file there. Dirs are physical. A path
// whose links go in circles leads nowhere, so nobody decides.
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

// alongLinks visits each name on the way along an absolute path, the names that links
// lead to included, while visit returns true. It reports false for links that go in circles.
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
