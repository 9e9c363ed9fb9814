package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// gitPaths are what git executes from in the repositories that trees hold: their own
// and those one directory below, their submodules, and what a worktree's .git file
// points at. It reads directories: for a template, and before and after each call.
func gitPaths(roots []string) []string { return looker{}.gitPaths(roots) }

func (l looker) gitPaths(roots []string) []string {
	var out []string
	for _, w := range gitRoots(roots) {
		out = append(out, l.gitTree(w, w)...)
		entries, _ := l.readDir(w)
		for _, e := range entries {
			if e.IsDir() && e.Name() != ".git" {
				out = append(out, l.gitTree(filepath.Join(w, e.Name()), w)...)
			}
		}
	}
	return out
}

func gitRoots(roots []string) []string {
	return slices.DeleteFunc(slices.Clone(roots), func(w string) bool {
		return w == nowhere || w == "/" || w == "/tmp" || w == "/var/tmp" || Within(w, "/dev")
	})
}

const (
	gitDepth = 4   // directories below a tree
	subDepth = 8   // directories below that of the submodules
	gitReads = 512 // directories that are read to find repositories
)

// gitMore are the repositories further down that a short search finds, and what the
// configurations of all of them name besides: other directories of hooks, and files
// to include. It reads much, so it is asked once for a template.
func gitMore(roots []string) []string {
	var out []string
	for _, w := range gitRoots(roots) {
		type level struct {
			dir   string
			depth int
		}
		queue := []level{{w, 0}}
		for reads := 0; len(queue) > 0 && reads < gitReads; reads++ {
			at := queue[0]
			queue = queue[1:]
			found := looker{}.gitTree(at.dir, w)
			if at.depth > 1 {
				out = append(out, found...)
			}
			for _, p := range found {
				if filepath.Base(p) == "config" {
					out = append(out, gitNamed(p, at.dir, w)...)
				}
			}
			entries, _ := os.ReadDir(at.dir)
			for _, e := range entries {
				if e.IsDir() && e.Name() != ".git" && at.depth < gitDepth {
					queue = append(queue, level{filepath.Join(at.dir, e.Name()), at.depth + 1})
				}
			}
		}
	}
	return out
}

// gitNamed are the paths in the tree that a configuration names.
func gitNamed(config, tree, within string) []string {
	text, ok := readSmall(config, maxGitConfig)
	if !ok {
		return nil
	}
	var out []string
	name := func(value, dir string) {
		if !filepath.IsAbs(value) {
			value = filepath.Join(dir, value)
		}
		if value != within && Within(value, within) {
			out = append(out, value)
		}
	}
	for _, v := range gitValues(text, "hookspath") {
		name(v, tree)
	}
	for _, v := range gitValues(text, "path") { // of include, and harmlessly of submodule
		name(v, filepath.Dir(config))
	}
	return out
}

// gitTree is empty for a directory without a repository.
func (l looker) gitTree(tree, within string) []string {
	dot := filepath.Join(tree, ".git")
	info, err := l.stat(dot) // a link is as good as what it leads to
	switch {
	case err != nil:
		if l.isGitDir(tree) {
			return l.gitDir(tree, subDepth)
		}
		return nil
	case info.IsDir():
		return l.gitDir(dot, subDepth)
	case !info.Mode().IsRegular():
		return nil
	}
	out := []string{dot} // whoever writes it names another repository
	dir, ok := strings.CutPrefix(l.firstLine(dot), "gitdir: ")
	if !ok {
		return out
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(tree, dir)
	}
	out = append(out, filepath.Join(dir, "commondir"), filepath.Join(dir, "config.worktree"))
	common := l.firstLine(filepath.Join(dir, "commondir"))
	if common == "" {
		common = dir
	} else if !filepath.IsAbs(common) {
		common = filepath.Join(dir, common)
	}
	if Within(common, within) {
		out = append(out, l.gitDir(common, subDepth)...)
	}
	return out
}

// isGitDir is git's own test for a repository without a worktree, which it looks for
// in every directory.
func (l looker) isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if !l.exists(filepath.Join(dir, name)) {
			return false
		}
	}
	return true
}

func (l looker) gitDir(dir string, depth int) []string {
	out := []string{filepath.Join(dir, "hooks"), filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"), filepath.Join(dir, "commondir")}
	trees := filepath.Join(dir, "worktrees")
	entries, _ := l.readDir(trees)
	for _, e := range entries {
		out = append(out, filepath.Join(trees, e.Name(), "commondir"), filepath.Join(trees, e.Name(), "config.worktree"))
	}
	return append(out, l.gitModules(filepath.Join(dir, "modules"), depth)...)
}

// gitParts are directories of a repository in which no other one lies.
var gitParts = []string{"objects", "refs", "logs", "hooks", "info", "branches", "worktrees", "modules"}

// gitModules are the repositories of submodules. Their names may have slashes, so one
// may lie in what a program has made to look like another.
func (l looker) gitModules(dir string, depth int) []string {
	entries, err := l.readDir(dir)
	if err != nil || depth == 0 {
		return nil
	}
	var out []string
	repository := l.exists(filepath.Join(dir, "HEAD"))
	if repository || l.exists(filepath.Join(dir, "config")) {
		out = l.gitDir(dir, depth-1)
	}
	for _, e := range entries {
		if e.IsDir() && !(repository && slices.Contains(gitParts, e.Name())) {
			out = append(out, l.gitModules(filepath.Join(dir, e.Name()), depth-1)...)
		}
	}
	return out
}
