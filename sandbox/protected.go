package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// gitPaths are what git executes from in the repositories that trees hold: their own
// and those one directory below, their submodules, and what a worktree's .git file
// points at. It reads directories: for a template, and before and after each call.
func gitPaths(roots []string) []string {
	var out []string
	for _, w := range roots {
		if w == nowhere || w == "/" || w == "/tmp" || Within(w, "/dev") {
			continue
		}
		trees := []string{w}
		entries, _ := os.ReadDir(w)
		for _, e := range entries {
			if e.IsDir() && e.Name() != ".git" {
				trees = append(trees, filepath.Join(w, e.Name()))
			}
		}
		for _, tree := range trees {
			out = append(out, gitTree(tree, w)...)
		}
	}
	return out
}

// gitTree is empty for a directory without a repository.
func gitTree(tree, within string) []string {
	dot := filepath.Join(tree, ".git")
	info, err := os.Lstat(dot)
	switch {
	case err != nil:
		return nil
	case info.IsDir():
		return gitDir(dot)
	case !info.Mode().IsRegular():
		return nil
	}
	out := []string{dot} // whoever writes it names another repository
	dir, ok := strings.CutPrefix(firstLine(dot), "gitdir: ")
	if !ok {
		return out
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(tree, dir)
	}
	out = append(out, filepath.Join(dir, "commondir"), filepath.Join(dir, "config.worktree"))
	common := firstLine(filepath.Join(dir, "commondir"))
	if common == "" {
		common = dir
	} else if !filepath.IsAbs(common) {
		common = filepath.Join(dir, common)
	}
	if Within(common, within) {
		out = append(out, gitDir(common)...)
	}
	return out
}

func gitDir(dir string) []string {
	out := []string{filepath.Join(dir, "hooks"), filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"), filepath.Join(dir, "commondir")}
	modules, _ := filepath.Glob(filepath.Join(dir, "modules", "*"))
	for _, m := range modules {
		out = append(out, filepath.Join(m, "hooks"), filepath.Join(m, "config"))
	}
	trees, _ := filepath.Glob(filepath.Join(dir, "worktrees", "*"))
	for _, t := range trees {
		out = append(out, filepath.Join(t, "commondir"), filepath.Join(t, "config.worktree"))
	}
	return out
}

// maxPointer is far more than a .git file or a commondir needs.
const maxPointer = 8 << 10

func firstLine(path string) string {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPointer {
		return ""
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}
