package undo

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
)

// maxUses bounds the paths of one undo that are judged one by one, because rules have a time limit.
const maxUses = 500

// usesOf returns the paths that an undo writes. If there are many, the directories with the most paths are judged as
// whole trees.
func usesOf(paths []string) guard.Uses {
	trees := map[string]bool{} // by path, whether it is a whole tree
	for _, path := range paths {
		trees[path] = false
	}
	for len(trees) > maxUses {
		count := map[string]int{}
		for path := range trees {
			count[filepath.Dir(path)]++
		}
		most := slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return count[a] - count[b] })
		maps.DeleteFunc(trees, func(path string, _ bool) bool { return guard.Within(path, most) })
		trees[most] = true
	}
	var uses guard.Uses
	for _, path := range slices.Sorted(maps.Keys(trees)) {
		uses.Paths = append(uses.Paths, guard.PathUse{Raw: path, Path: path, Op: guard.Write, Recursive: trees[path]})
	}
	return uses
}

// judged reports whether a path is among those that were judged.
func judged(uses guard.Uses, path string) bool {
	return slices.ContainsFunc(uses.Paths, func(u guard.PathUse) bool {
		return u.Op == guard.Write && (u.Path == path || u.Recursive && guard.Within(path, u.Path))
	})
}
