package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A path of the settings may lead through a link, which is followed when they are read.
// Not so a link in a tree that the same settings let be written: a program can have
// made it, in an earlier call or before a restart, and would choose what else it may
// read and write.

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

// unplanted is resolved, without the given paths that lead through such links. What is
// left of a list is never empty, which would mean everything.
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

// ownTrees are the writable trees of the host that programs make links in.
func ownTrees(write []string) []string {
	return slices.DeleteFunc(slices.Clone(write), func(w string) bool {
		return slices.Contains([]string{"/", "/tmp", "/var/tmp", NoPath}, w) || Within(w, "/dev")
	})
}
