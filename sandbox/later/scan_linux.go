package later

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard/obeyed"
)

// dirEntry is one name in a directory.
type dirEntry struct {
	name string
	kind uint8 // DT_DIR, …
}

// scan reads a directory and all below it. Directories are opened by their paths without
// following links: what is moved meanwhile says so by an event.
func (t *tree) scan(d *dir) {
	buf := make([]byte, 32<<10)
	var entries []dirEntry
	for queue := []*dir{d}; len(queue) > 0; {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		path := t.path(at)
		fd, err := openDir(path)
		if err != nil {
			t.notOpened(at, path, err)
			continue
		}
		t.watchDir(at, fd, path)
		entries, err = readDir(fd, at.place, buf, entries[:0])
		_ = unix.Close(fd)
		if err != nil {
			t.problem(path, err)
			continue
		}
		t.placed(at, path, entries)
		for _, e := range entries {
			if kid := t.entry(at, path, e); kid != nil {
				queue = append(queue, kid)
			}
		}
	}
}

// watchDir watches an open directory.
func (t *tree) watchDir(d *dir, fd int, path string) {
	if d.watch = t.watcher.dir(fd, path, d.parent == nil); d.watch == unwatched {
		return
	}
	old := t.dirs[d.watch]
	if old != nil || t.files[d.watch] != nil {
		t.watcher.gone() // the kernel has one watch for both
	}
	var here, there unix.Stat_t
	if old != nil && old != d && unix.Fstat(fd, &here) == nil && unix.Lstat(t.path(old), &there) == nil &&
		here.Dev == there.Dev && here.Ino == there.Ino {
		t.watcher.stamp(path) // it was not moved, but is mounted twice, and events do not say where
	}
	t.dirs[d.watch] = d
}

// notOpened keeps in mind a directory that cannot be listed.
func (t *tree) notOpened(d *dir, path string, err error) {
	switch {
	case notThere(err):
		if d.parent == nil {
			t.watcher.stamp(path) // until it is made
		} else {
			t.drop(d)
		}
	case errors.Is(err, unix.ENAMETOOLONG):
		// No program gets there by its path, and no mount covers it.
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		// It can be seen when somebody makes it readable, which changes its stamp.
		t.watcher.stamp(path)
		if t.found[path].kind != gitKeep { // git runs a hook of a directory that it cannot list
			t.add(path, unreadable, 0)
		}
	default:
		t.problem(path, err)
	}
}

// readDir lists what may count in an open directory.
func readDir(fd int, in place, buf []byte, out []dirEntry) ([]dirEntry, error) {
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n <= 0 {
			return out, err
		}
		for b := buf[:n]; len(b) > 0; {
			d := (*unix.Dirent)(unsafe.Pointer(&b[0]))
			name := b[unsafe.Offsetof(d.Name):d.Reclen]
			name = name[:bytes.IndexByte(name, 0)]
			kind := d.Type
			b = b[d.Reclen:]
			if in.kind == plain && kind == unix.DT_REG && !mayCount(string(name)) ||
				in.kind == packages && !strings.EqualFold(string(name), ".git") {
				continue
			}
			if string(name) != "." && string(name) != ".." {
				out = append(out, dirEntry{string(name), kind})
			}
		}
	}
}

// mayCount reports whether a file of this name in any directory can matter.
func mayCount(name string) bool {
	return slices.Contains(bareNames, name) || strings.EqualFold(name, ".git") || obeyed.Last(name)
}

// placed notices what a directory turns out to be by what is in it.
func (t *tree) placed(d *dir, path string, entries []dirEntry) {
	has := func(name string) bool {
		for _, e := range entries {
			if e.name == name {
				return true
			}
		}
		return false
	}
	switch d.place.kind {
	case plain:
		delete(t.bare, path)
		if isBare(entries) {
			t.bare[path] = true
		}
	case inModules:
		if has("HEAD") || has("config") {
			d.place = place{kind: inGit, modules: true}
		}
	}
}

// entry takes in one name of a directory. It returns the directory of that name if it has
// to be scanned.
func (t *tree) entry(d *dir, dirPath string, e dirEntry) *dir {
	path := dirPath + "/" + e.name
	if e.kind == unix.DT_UNKNOWN {
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil {
			return nil
		}
		e.kind = uint8(st.Mode >> 12) // as IFTODT of the C library
	}
	isDir := e.kind == unix.DT_DIR
	kid := func(in place) *dir {
		if !isDir {
			return nil
		}
		if t.count >= t.index.limits.dirs {
			t.left.dirs++
			return nil
		}
		t.count++
		k := &dir{parent: d, name: e.name, place: in, watch: unwatched}
		if d.kids == nil {
			d.kids = map[string]*dir{}
		}
		if old := d.kids[e.name]; old != nil {
			t.drop(old)
		}
		d.kids[e.name] = k
		return k
	}
	switch in := d.place; in.kind {
	case plain:
		return t.plainEntry(path, e, kid)
	case packages:
		if strings.EqualFold(e.name, ".git") {
			return t.plainEntry(path, e, kid)
		}
	case below:
		if e.kind == unix.DT_LNK || !isDir {
			t.addBelow(path)
		}
		return kid(place{kind: below})
	case inModules:
		if !isDir {
			t.add(path, gitUnknown, 0)
		}
		return kid(place{kind: inModules})
	case inTrees:
		if !isDir {
			t.add(path, gitUnknown, 0)
		}
		return kid(place{kind: inGit})
	case inGit:
		return t.gitEntry(in, path, filepath.Join(in.rel, e.name), isDir, kid)
	}
	return nil
}

// plainEntry takes in a name in a directory where any name may be.
func (t *tree) plainEntry(path string, e dirEntry, kid func(place) *dir) *dir {
	isDir := e.kind == unix.DT_DIR
	switch {
	case strings.EqualFold(e.name, ".git"):
		if isDir {
			return kid(place{kind: inGit})
		}
		t.add(path, gitPointer, 0)
		return nil
	case isDir && e.name == "node_modules":
		// Whoever runs the project runs what is in it, which weighs more than a name; and
		// packages that are removed and made again bring such names along. But it can be the
		// top of a repository, as any directory.
		return kid(place{kind: packages})
	case obeyed.Last(e.name):
		// A name that ends at the root's own name is not the call's doing, so the rest of
		// it may lie above.
		if n := obeyed.At(path); n != nil && n.Kept() {
			t.add(path, named, n.Segments()-1)
			return kid(place{kind: below})
		}
	}
	return kid(place{})
}

// gitEntry takes in a path in a git directory.
func (t *tree) gitEntry(in place, path, rel string, isDir bool, kid func(place) *dir) *dir {
	next := place{kind: inGit, rel: rel}
	switch k := obeyed.Git(rel); {
	case k == obeyed.Free:
		if in.modules && rel == "HEAD" {
			t.add(path, gitMark, 0)
		}
		return nil
	case k == obeyed.Inside && isDir:
		return kid(next)
	case k == obeyed.More && isDir:
		next.kind, next.rel = inTrees, ""
		if strings.EqualFold(rel, "modules") {
			next.kind = inModules
		}
		return kid(next)
	case k == obeyed.Keep:
		t.add(path, gitKeep, 0)
		return kid(place{kind: below})
	case k == obeyed.Read:
		t.add(path, gitRead, 0)
	case in.modules && in.rel == "" && isDir:
		next.kind, next.rel = inModules, "" // the name of a submodule may have slashes
		return kid(next)
	default:
		t.add(path, gitUnknown, 0)
	}
	return nil
}

// add takes in a path that is found, as it is now.
func (t *tree) add(path string, k kind, pins int) {
	if t.size > t.index.limits.found {
		t.left.files++
		return
	}
	if f, ok := t.lookFound(path, k, pins); ok {
		t.put(path, f)
	}
}

// addBelow adds path, which is inside a directory that is kept as a whole, if it can be changed from outside of that
// directory: a link, by its target, or a file with several names, by another name. It does not walk. A path that is
// gone meanwhile is left out.
func (t *tree) addBelow(path string) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return
	}
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFLNK || kind == unix.S_IFREG && st.Nlink > 1 {
		t.add(path, inside, 0)
	}
}

// lookAt looks at one name of a directory in which something has changed. It reports
// whether that can matter.
func (t *tree) lookAt(d *dir, name string) bool {
	dirPath := t.path(d)
	path := dirPath + "/" + name
	var st unix.Stat_t
	there := unix.Lstat(path, &st) == nil
	isDir := there && st.Mode&unix.S_IFMT == unix.S_IFDIR
	_, relevant := t.heeded[path]
	relevant = relevant || t.heeded[dirPath] // what is in a directory of hooks counts

	kid := d.kids[name]
	if kid != nil && isDir && kid.inode == st.Ino && kid.watch != unwatched {
		return relevant // it was seen already
	}
	if kid != nil {
		t.drop(kid)
		relevant = t.removeBelow(path) || relevant
	}
	relevant = t.remove(path) || relevant
	switch d.place.kind {
	case notScanned:
		return relevant
	case inModules, inGit:
		// One name may decide what the whole directory is.
		if (name == "HEAD" || name == "config") && (d.place.kind == inModules || d.place.modules) {
			t.scanAgain(d, dirPath)
			return true
		}
	case plain:
		if slices.Contains(bareNames, name) {
			was := t.bare[dirPath]
			t.placed(d, dirPath, present(dirPath, bareNames))
			relevant = relevant || was != t.bare[dirPath]
		}
	}
	if !there {
		return relevant
	}
	before, left := len(t.found), t.left
	if next := t.entry(d, dirPath, dirEntry{name, uint8(st.Mode >> 12)}); next != nil {
		bare := len(t.bare)
		t.scan(next)
		relevant = relevant || len(t.bare) != bare
	}
	return relevant || len(t.found) != before || t.left != left
}

// scanAgain reads a directory anew.
func (t *tree) scanAgain(d *dir, path string) {
	t.removeBelow(path)
	next := &dir{parent: d.parent, name: d.name, watch: unwatched}
	if d.place.kind == inGit {
		next.place = place{kind: inModules}
	} else {
		next.place = d.place
	}
	t.drop(d)
	t.count++
	if next.parent != nil {
		next.parent.kids[next.name] = next
	}
	t.scan(next)
}

// removeBelow forgets what was found below a path.
func (t *tree) removeBelow(path string) bool {
	removed := false
	for p := range t.found {
		if strings.HasPrefix(p, path) && len(p) > len(path) && p[len(path)] == '/' {
			removed = t.remove(p)
		}
	}
	for p := range t.bare {
		if p == path || strings.HasPrefix(p, path+"/") {
			delete(t.bare, p)
			removed = true
		}
	}
	return removed
}

// bareNames are git's own test for a repository without a worktree, which it applies to
// every directory; see isBare.
var bareNames = []string{"HEAD", "objects", "refs", "commondir"}

// isBare reports whether git takes a directory with these names for a repository. With a
// commondir it looks for the content there.
func isBare(entries []dirEntry) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e dirEntry) bool { return e.name == name })
	}
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

// present lists which of the names exist in a directory.
func present(dir string, names []string) []dirEntry {
	var out []dirEntry
	for _, n := range names {
		if exists(dir + "/" + n) {
			out = append(out, dirEntry{name: n})
		}
	}
	return out
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}
