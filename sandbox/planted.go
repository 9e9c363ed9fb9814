package sandbox

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

// planted is the path with the first such link left as it is, or "" where there is none.
func planted(path string, trees []string) string {
	at := "/"
	for rest := strings.Trim(filepath.Clean(path), "/"); rest != ""; {
		var seg string
		seg, rest, _ = strings.Cut(rest, "/")
		next := below(at, seg)
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			return ""
		case info.Mode()&os.ModeSymlink == 0:
			at = next
		case slices.ContainsFunc(trees, func(w string) bool { return Within(at, w) }):
			return filepath.Join(next, rest)
		default:
			if at, err = filepath.EvalSymlinks(next); err != nil {
				return ""
			}
		}
	}
	return ""
}

// unplanted is resolved, where those of the given paths that lead through such links
// are left as they are. No rule matches them, for those are about physical paths.
func unplanted(name string, resolved, given, trees []string) (paths, warnings []string) {
	for _, p := range given {
		if r := planted(p, trees); r != "" {
			paths = append(paths, r)
			warnings = append(warnings, fmt.Sprintf("%s: %s leads through a link in a tree that programs may write, which is not followed; name what it leads to", name, p))
		}
	}
	if paths == nil {
		return resolved, nil
	}
	for _, p := range given {
		if r, err := resolve(p, "", names{}); err == nil && planted(p, trees) == "" {
			paths = append(paths, r)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), warnings
}

// ownTrees are the writable trees of the host that programs make links in.
func ownTrees(write []string) []string {
	return slices.DeleteFunc(slices.Clone(write), func(w string) bool {
		return slices.Contains([]string{"/", "/tmp", "/var/tmp", nowhere}, w) || Within(w, "/dev")
	})
}
