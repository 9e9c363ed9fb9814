package sandbox

import (
	"path/filepath"
	"slices"
)

// protectedNames lie in a workspace and decide what a person's own tools run
// there later: writing them is a way out of the cage with a delay.
var protectedNames = []string{
	".git/hooks", ".git/config", ".envrc", ".husky", ".vscode", ".idea", ".claude", ".mcp.json",
	".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".gitconfig",
}

// writeAll reports whether everything may be written that is not denied.
func writeAll(s Settings) bool {
	return len(s.AllowedWritePaths) == 0 || slices.Contains(s.AllowedWritePaths, "/")
}

// protectedPaths are the protected names of trees.
func protectedPaths(roots []string) []string {
	var out []string
	for _, w := range roots {
		if w == nowhere || Within(w, "/dev") || w == "/tmp" {
			continue
		}
		for _, n := range protectedNames {
			out = append(out, filepath.Join(w, n))
		}
	}
	return out
}

// withTargets adds where paths that lead through a link end in the trees: a
// link itself cannot be covered, but what is read through it can.
func withTargets(paths, roots []string) []string {
	for _, p := range paths {
		to := physicalOf(p)
		if to != p && slices.ContainsFunc(roots, func(w string) bool { return to != w && Within(to, w) }) {
			paths = append(paths, to)
		}
	}
	return paths
}

// physicalOf is a path without links, or itself where that is not known.
func physicalOf(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}
