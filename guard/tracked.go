package guard

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard/gitindex"
)

// maxIndex bounds what is read of an index, because any program of the workspace may have written it.
const maxIndex = 32 << 20

// tracker knows for one call what repositories track. It reads each index once.
type tracker struct {
	rules *Rules
	names *names
	found map[string]*repository // by the directory that holds .git
	moved []int                  // indexes of the deletions after which the content lies elsewhere
	// checked are the files with content that were looked up: whether git has no copy.
	checked map[string]bool
}

// repository is what one repository tracks. If its index cannot be read, nothing is known.
type repository struct {
	known   bool
	written time.Time        // when the index was written
	indexes []gitindex.Names // of a split index, both halves
}

// tracks reports whether git tracks something that a use of trees or many files names, or whether that is a
// repository itself. What cannot be read counts as tracked. names limits it to files with such names.
func (t *tracker) tracks(u PathUse, names []string) bool {
	if u.Path == "" {
		return false // nobody knows what is meant
	}
	dir, pattern := u.Path, ""
	if u.Glob {
		dir, pattern = splitGlob(u.Path)
	} else if len(names) == 0 && t.isRepository(dir) {
		return true
	}
	top := t.top(dir, u.Glob || len(names) > 0)
	if top == "" {
		return false
	}
	r := t.repository(top)
	if !r.known {
		return true
	}
	below := strings.TrimPrefix(strings.TrimPrefix(dir, top), "/")
	for i := range r.indexes {
		x := &r.indexes[i]
		if pattern == "" && len(names) == 0 {
			if x.Has(below) {
				return true
			}
			continue
		}
		for _, name := range x.Below(below) {
			rest := strings.TrimPrefix(strings.TrimPrefix(name, below), "/")
			if named(names, name) && matchesBegin(pattern, rest, u.Recursive || len(names) > 0) {
				return true
			}
		}
	}
	return false
}

// maxLooked is how many files of a tree are compared with the index. A tree with more of them counts as changed.
const maxLooked = 4096

// saved reports whether git has all that lies where the index has the files of a tree, or a file.
func (t *tracker) saved(path string) bool {
	top := t.top(path, true)
	if top == "" || t.names.hides(path) {
		return false
	}
	if info, err := os.Lstat(path); err == nil && !info.IsDir() {
		return !t.unsaved(path)
	}
	r := t.repository(top)
	if !r.known {
		return false
	}
	below, looked := strings.TrimPrefix(strings.TrimPrefix(path, top), "/"), 0
	for i := range r.indexes {
		for _, name := range r.indexes[i].Below(below) {
			if looked++; looked > maxLooked || !t.fits(filepath.Join(top, name)) {
				return false
			}
		}
	}
	return true
}

// fits reports whether git may put a file of the index at a path without a loss: nothing is there, or what it has. A
// directory of other files in the place of the file, or a file in the place of its directory, would go.
func (t *tracker) fits(path string) bool {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return errors.Is(err, os.ErrNotExist)
	case info.IsDir():
		return t.isRepository(path) // a submodule stays
	}
	return !t.unsaved(path)
}

// Unsaved reports whether a path, physical, is a file that holds something of which git has no copy. What cannot be
// looked at is.
func (r *Rules) Unsaved(path string) bool {
	return (&tracker{rules: r, names: newNames(r.closedPlaces())}).unsaved(path)
}

// unsaved reports whether a path is a file that holds something of which git has no copy: it is tracked nowhere,
// or is not as it was added. What cannot be looked at is.
func (t *tracker) unsaved(path string) bool {
	if is, known := t.checked[path]; known {
		return is
	}
	if !t.holds(path) {
		return false
	}
	if t.checked == nil {
		t.checked = map[string]bool{}
	}
	is := !t.has(path)
	t.checked[path] = is
	return is
}

// holds reports whether a path is a file with something in it.
func (t *tracker) holds(path string) bool {
	if t.names.hides(path) {
		return true
	}
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return err != unix.ENOENT && err != unix.ENOTDIR
	}
	return stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Size > 0
}

// has reports whether git has the content of a file.
func (t *tracker) has(path string) bool {
	top := t.top(path, false)
	if top == "" {
		return false
	}
	r := t.repository(top)
	if !r.known {
		return false
	}
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) != nil {
		return false
	}
	name := strings.TrimPrefix(path, strings.TrimSuffix(top, "/")+"/")
	for i := range r.indexes {
		e, ok := r.indexes[i].Entry(name)
		if !ok {
			continue
		}
		// In a split index the entry may have been replaced, without its name: content alone counts.
		if len(r.indexes) == 1 && e.As(&stat) && r.written.Unix() > stat.Mtim.Sec {
			return true
		}
		content, err := t.read(path, maxIndex)
		if err == nil && e.Holds(bytes.NewReader(content), int64(len(content))) {
			return true
		}
	}
	return false
}

// named reports whether the last segment of a name fits one of the patterns; without any it does.
func named(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := filepath.Match(p, filepath.Base(name)); ok || err != nil {
			return true
		}
	}
	return len(patterns) == 0
}

// matchesBegin reports whether a pattern fits a path, or the beginning of one where whole trees are meant.
func matchesBegin(pattern, path string, tree bool) bool {
	if pattern == "" {
		return true
	}
	segs := strings.Split(path, "/")
	n := strings.Count(pattern, "/") + 1
	if len(segs) < n || len(segs) > n && !tree {
		return false
	}
	ok, err := filepath.Match(pattern, strings.Join(segs[:n], "/"))
	return ok || err != nil
}

// top returns the directory above a path, or the path itself if inside is set, in which the repository lies that
// holds it.
func (t *tracker) top(path string, inside bool) string {
	for dir := path; ; dir = filepath.Dir(dir) {
		if (inside || dir != path) && t.isRepository(dir) {
			return dir
		}
		if dir == "/" || dir == "." {
			return ""
		}
	}
}

// isRepository reports whether a directory has a .git. In a closed place nobody looks.
func (t *tracker) isRepository(dir string) bool {
	if _, closed := t.names.closed.above(dir); closed {
		return false
	}
	return t.names.lookup(filepath.Join(dir, ".git")).kind != missing
}

// repository reads the index of the repository at a directory.
func (t *tracker) repository(top string) *repository {
	if r := t.found[top]; r != nil {
		return r
	}
	if t.found == nil {
		t.found = map[string]*repository{}
	}
	r := &repository{}
	t.found[top] = r
	dir := filepath.Join(top, ".git")
	if pointer, err := t.read(dir, 8192); err == nil {
		to, ok := strings.CutPrefix(strings.TrimRight(string(pointer), "\r\n"), "gitdir: ")
		if !ok {
			return r
		}
		if dir = to; !filepath.IsAbs(to) {
			dir = filepath.Join(top, to)
		}
	}
	name := "index"
	for name != "" && len(r.indexes) < 2 {
		data, err := t.read(filepath.Join(dir, name), maxIndex)
		if errors.Is(err, os.ErrNotExist) && name == "index" {
			r.known = true // nothing was ever added
			return r
		}
		if err != nil {
			return r
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			r.written = info.ModTime()
		}
		x, err := gitindex.Read(data)
		if err != nil {
			return r
		}
		if name = ""; x.Shared != "" {
			name = "sharedindex." + x.Shared
		}
		r.indexes = append(r.indexes, x)
	}
	r.known = name == ""
	return r
}

// read returns a file that others may have put there: a regular one, of at most so many bytes, in no closed place.
func (t *tracker) read(path string, most int64) ([]byte, error) {
	physical, err := t.rules.physical(path, "/", t.names)
	if err != nil {
		return nil, err
	}
	if _, closed := t.names.closed.above(physical); closed {
		return nil, os.ErrPermission
	}
	f, err := os.OpenFile(physical, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil, errors.Join(err, os.ErrInvalid)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
