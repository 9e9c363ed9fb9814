package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard/obeyed"
)

// RunsLater returns the program of the host that obeys a file of this path by itself, ""
// if none does. What lies above the outermost of the roots that holds the path does not
// count: a workspace may lie in an agent's own directory.
func (u PathUse) RunsLater(roots []string) string {
	find := obeyed.Find
	if u.Glob {
		find = obeyed.FindPattern
	}
	if n := find(u.Path, u.root(roots)); n != nil {
		return n.Program
	}
	return ""
}

// Plants returns the program that, without being asked, starts something that the written file names: a program of
// the host, or a tool of the project. It returns "" if none does.
func (u PathUse) Plants(roots []string) string {
	if u.Op != Write {
		return ""
	}
	if program := u.RunsLater(roots); program != "" {
		return program
	}
	if n := obeyed.Plants(u.Path, u.root(roots)); n != nil {
		return n.Program
	}
	return ""
}

// root returns the outermost of the roots that hold the path.
func (u PathUse) root(roots []string) string {
	root := ""
	for _, r := range roots {
		if Within(u.Path, r) && (root == "" || Within(root, r)) {
			root = r
		}
	}
	return root
}

// A path of the settings may lead through a link, which is followed when the settings are read. A link in a tree
// that the same settings let programs write is not followed: a program may have made it, in an earlier call or
// before a restart, and would choose what else it may read and write.

// planted reports whether a path leads through such a link.
func planted(path string, trees []string, closed pathSet) bool {
	at := "/"
	for seg := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		if _, stopped := newNames(closed).stop(at, seg); stopped {
			return false
		}
		next := below(at, seg)
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			return false
		case info.Mode()&os.ModeSymlink == 0:
			at = next
		case slices.ContainsFunc(trees, func(w string) bool { return Within(at, w) }):
			return true
		default:
			if at, err = filepath.EvalSymlinks(next); err != nil {
				return false
			}
		}
	}
	return false
}

// unplanted returns resolved without the given paths that lead through such links. A list that would become empty
// keeps a path that never exists, because an empty list means everything.
func unplanted(name string, resolved, given, trees []string, closed pathSet) (paths, warnings []string) {
	for _, p := range given {
		if planted(p, trees, closed) {
			warnings = append(warnings,
				fmt.Sprintf("%s: %s leads through a link in a tree that programs may write, "+
					"which is not followed; name what it leads to", name, p))
			continue
		}
		if r, err := resolve(p, "", newNames(closed)); err == nil && !slices.Contains(paths, r) {
			paths = append(paths, r)
		}
	}
	if warnings == nil {
		return resolved, nil
	}
	if paths == nil {
		paths = []string{NoPath}
	}
	return paths, warnings
}

// ownTrees returns the writable trees of the host in which programs can make links.
func ownTrees(write []string) []string {
	return slices.DeleteFunc(slices.Clone(write), func(w string) bool {
		return slices.Contains([]string{"/", "/tmp", "/var/tmp", NoPath}, w) || Within(w, "/dev")
	})
}
