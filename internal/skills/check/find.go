package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const skillFile = "SKILL.md"

// Package is a directory to check, with the files in it.
type Package struct {
	Dir string

	found  bool     // it has a SKILL.md
	files  []string // other files, relative to Dir, without those of nested packages
	closed []closed
}

// closed is a directory of a package that cannot be read.
type closed struct {
	rel string
	err error
}

// Find returns the packages that each directory stands for: the directory itself if it is a package, otherwise all
// packages below it, otherwise the directory as one without a SKILL.md. Without arguments it returns all packages
// below the working directory, or none. It reads each directory once.
func (c *Checker) Find(dirs ...string) ([]Package, error) {
	if len(dirs) == 0 {
		return below(c.cwd), nil
	}
	var all []Package
	for _, d := range dirs {
		if !filepath.IsAbs(d) {
			d = filepath.Join(c.cwd, d)
		}
		info, err := os.Stat(d)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s does not exist; give the directory of a skill, or one with skills in it", d)
		case err != nil:
			return nil, err
		case !info.IsDir():
			return nil, fmt.Errorf("%s is no directory; give the directory that holds the SKILL.md", d)
		}
		found := below(d)
		switch {
		case len(found) == 0:
			found = []Package{{Dir: d}}
		case found[0].Dir == d: // then nested packages do not count
			found = found[:1]
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b Package) int { return strings.Compare(a.Dir, b.Dir) })
	return slices.CompactFunc(all, func(a, b Package) bool { return a.Dir == b.Dir }), nil
}

// below returns the packages in a directory and below it, outer ones first.
func below(dir string) []Package {
	var w walk
	w.dir(dir, "", nil)
	found := make([]Package, len(w.found))
	for i, p := range w.found {
		found[i] = *p
	}
	return found
}

// walk collects packages during a walk over directories.
type walk struct{ found []*Package }

// dir reads a directory. rel is its path in the package in, which is nil outside of packages. It follows no link.
func (w *walk) dir(path, rel string, in *Package) {
	entries, err := os.ReadDir(path)
	isPackage := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == skillFile })
	if err != nil && !isPackage { // a directory that cannot be listed may still allow access to its files
		_, notThere := os.Lstat(filepath.Join(path, skillFile))
		isPackage = notThere == nil
	}
	if isPackage {
		in, rel = &Package{Dir: path, found: true}, ""
		w.found = append(w.found, in)
	}
	if err != nil && in != nil {
		in.closed = append(in.closed, closed{filepath.Join(rel, "."), err})
	}
	for _, e := range entries {
		name := filepath.Join(rel, e.Name())
		switch {
		case e.IsDir() && !passed(e.Name()):
			w.dir(filepath.Join(path, e.Name()), name, in)
		case !e.IsDir() && in != nil && name != skillFile:
			in.files = append(in.files, name)
		}
	}
}

// passed reports whether to skip a directory, because it holds code of others.
func passed(name string) bool { return name == "node_modules" || name == ".git" }
