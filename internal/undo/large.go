package undo

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/sandbox"
)

// errTooLarge is a part of the error of a tree that is not looked at.
var errTooLarge = errors.New("more files")

// count is how many paths the tree has after a look.
func (s *snapshot) count(f found) int {
	n := len(s.known)
	for path, is := range f.paths {
		_, known := s.known[path]
		switch {
		case known && is.Type == nothing:
			n--
		case !known && is.Type != nothing:
			n++
		}
	}
	return n
}

// findKnown looks at what the tree had before. A command could otherwise delete everything, make many
// files, and nothing of that would be known.
func (s *snapshot) findKnown(u sandbox.User, out *looked) (f found, err error) {
	f = found{paths: map[string]seen{}, again: map[string]bool{}}
	closed := map[string]bool{}
	err = u.Do(func() error {
		for _, path := range slices.Sorted(maps.Keys(s.known)) { // a directory before what is in it
			dir := filepath.Dir(path)
			if is, known := f.paths[dir]; known && is.Type != isDir {
				f.paths[path] = seen{} // a link there may lead to another file
				continue
			}
			is, err := lstat(path)
			if err != nil {
				closed[dir] = true
				continue
			}
			if f.paths[path] = is; is.Type == isDir {
				s.reopen(path, is)
			}
		}
		return nil
	})
	out.closed = append(out.closed, slices.Sorted(maps.Keys(closed))...)
	return f, err
}
