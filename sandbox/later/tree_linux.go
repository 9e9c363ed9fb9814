package later

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/ctime"
)

// tree knows every file below a root that programs of the host obey. It reads all
// directories once, and from then on looks only where something has changed.
type tree struct {
	root  string
	index *Index

	mu       sync.Mutex
	watcher  *watcher            // guarded by mu, as all that follows
	top      *dir                // nil before the first look
	dirs     map[int32]*dir      // by watch
	files    map[int32][]string  // by watch; several names of one file have one
	count    int                 // of directories
	found    map[string]found    // by path; put and remove change it
	size     int                 // of found
	heavy    int                 // size of heeded
	bare     map[string]bool     // directories that git takes for repositories without a worktree
	heeded   map[string]bool     // paths that found ones lead to, and the directories above; see heed
	followed map[string]found    // what found ones lead to
	died     map[fileID]struct{} // found files that were removed, and not only moved
	own      map[fileID]struct{} // pointers that calls made
	left     left                // what is not looked at
	mounts   mountState          // at the last scan
	closed   bool                // by the index
	now      *snapshot           // the last answer
	stale    bool                // it is not what was found
	replaced bool                // a found file was removed since the last answer
	problems map[string]struct{} // what could not be looked at
}

// found is a file that programs obey, or that another one leads to.
type found struct {
	kind       kind
	dev, inode uint64
	birth      int64  // a file made anew can have the inode of the one before
	dir        fileID // its directory
	link       string // where it leads, if it is a link
	directory  bool
	several    bool   // it has other names
	change     int64  // change time, where the content may change
	runs       string // of [gitRead]: what git would run because of it, a line each
	pins       int    // directories above it that must keep their names
	own        bool   // of [gitPointer]: a call made it, and calls may remove it again
}

// kind says why a file counts, and what becomes of it.
type kind uint8

// The kinds. A path that counts for several reasons has the last of these.
const (
	gitMark    kind = iota + 1 // it makes git take its directory for a repository
	reached                    // a link of that name leads to it
	inside                     // it lies below a name of package obeyed, and can be changed by another path
	named                      // it has a name of package obeyed
	gitUnknown                 // git does not know it
	gitPointer                 // a .git that is no directory: it names one
	gitRead                    // git runs what it names, but everyday commands write it
	gitKeep                    // git runs it, or what it names
	unreadable                 // a directory in which nobody can look
)

// kept reports whether a file of the host is shown read-only. A link cannot be covered
// with a mount; what it leads to is.
func (f found) kept() bool {
	switch f.kind {
	case named, reached, gitKeep, gitUnknown:
		return f.link == ""
	case gitPointer:
		return f.link == "" && !f.own
	}
	return false
}

// fileID is one file of the disk.
type fileID struct{ dev, inode uint64 }

func (f found) id() fileID { return fileID{f.dev, f.inode} }

// size is about what a found file costs in memory.
func (f found) size(path string) int { return 200 + len(path) + len(f.link) + len(f.runs) }

// dir is a directory of the tree.
type dir struct {
	parent *dir // nil for the root
	name   string
	inode  uint64
	watch  int32
	place  place
	gone   bool
	kids   map[string]*dir
}

// place says what the entries of a directory mean.
type place struct {
	kind    placeKind
	rel     string // of inGit: the path in the git directory, "" for the directory itself
	modules bool   // of inGit: it lies in modules/, where others may lie below
}

type placeKind uint8

const (
	plain      placeKind = iota
	inGit                // part of a git directory
	inModules            // where submodules have theirs
	inTrees              // where worktrees have theirs
	below                // below a name that is kept whole
	packages             // node_modules, where only a .git counts
	notScanned           // only on the way to a file that is followed
)

func newTree(x *Index, root string) *tree { return &tree{root: root, index: x} }

// snapshot is what a tree held at some time. It does not change.
type snapshot struct {
	generation uint64
	root       string
	found      map[string]found
	heeded     map[string]bool
	left       left
	missing    []string
}

// left counts what is not looked at, because there is too much.
type left struct{ dirs, files, followed int }

// limits bound the memory for one tree: a call can make any number of directories and files,
// and name any number of paths.
type limits struct {
	dirs   int
	found  int // bytes, as [found.size] has them
	heeded int // bytes, as heed counts them
}

var usualLimits = limits{dirs: 1 << 18, found: 16 << 20, heeded: 16 << 20}

// look returns what the tree holds now.
func (t *tree) look() *snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.top == nil {
		t.scanAll()
	} else if !t.update() && !t.stale {
		return t.now
	}
	t.stale = false
	t.follow()
	if t.closed {
		defer t.silence()
	}
	all := make(map[string]found, len(t.found)+len(t.followed))
	maps.Copy(all, t.found)
	maps.Copy(all, t.followed) // where it is in both, for the stronger reason
	missing := t.missing()
	// Not every file system tells a file made anew from the one before. The mount on that one is gone.
	replaced := t.replaced
	t.replaced = false
	if t.now != nil && !replaced && maps.Equal(all, t.now.found) && maps.Equal(t.heeded, t.now.heeded) &&
		t.left == t.now.left && slices.Equal(missing, t.now.missing) {
		return t.now
	}
	t.now = &snapshot{t.index.generation.Add(1), t.root, all, t.heeded, t.left, missing}
	return t.now
}

// close gives back what the tree has of the kernel. Whoever still has the tree makes it read
// everything at each look.
func (t *tree) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.silence()
}

func (t *tree) silence() {
	if t.watcher != nil {
		t.watcher.close()
	}
	t.top, t.watcher = nil, nil
}

// scanAll reads the whole tree.
func (t *tree) scanAll() {
	if t.watcher != nil {
		t.watcher.close()
	}
	t.watcher = newWatcher(&t.index.budget)
	t.mounts = t.index.mounts.around(t.root)
	t.dirs, t.files, t.count, t.left = map[int32]*dir{}, map[int32][]string{}, 1, left{}
	before, bare := t.found, t.bare
	t.size = 0
	t.found, t.followed, t.heeded = map[string]found{}, map[string]found{}, map[string]bool{}
	t.bare, t.problems, t.died = map[string]bool{}, map[string]struct{}{}, map[fileID]struct{}{}
	if t.own == nil {
		t.own = map[fileID]struct{}{}
	}
	t.top = &dir{watch: unwatched}
	t.scan(t.top)
	if t.left == (left{}) {
		return
	}
	// What was known stays known, or a call could crowd it out.
	for p, was := range before {
		if _, ok := t.found[p]; ok || was.kind == unreadable {
			continue
		}
		if f, ok := t.lookFound(p, was.kind, was.pins); ok {
			t.put(p, f)
		}
	}
	for p := range t.found {
		if _, ok := before[p]; !ok && t.size > t.index.limits.found {
			t.remove(p)
			t.left.files++
		}
	}
	for dir := range bare {
		if isBare(present(dir, bareNames)) {
			t.bare[dir] = true
		}
	}
}

// put and remove change what is found.
func (t *tree) put(path string, f found) {
	t.remove(path)
	t.found[path] = f
	t.size += f.size(path)
}

func (t *tree) remove(path string) bool {
	f, ok := t.found[path]
	if ok {
		delete(t.found, path)
		t.size -= f.size(path)
	}
	return ok
}

// update looks where something has changed. It reports false if nothing has.
func (t *tree) update() bool {
	type entry struct {
		d    *dir
		name string
	}
	var changed []entry
	seen := map[entry]bool{}
	mark := func(d *dir, name string) {
		if e := (entry{d, name}); !seen[e] {
			seen[e] = true
			changed = append(changed, e)
		}
	}
	known := !t.mounts.changed(&t.index.mounts, t.root)
	known = known && t.watcher.events(func(ev event) {
		d, paths := t.dirs[ev.watch], t.files[ev.watch]
		if ev.mask&unix.IN_IGNORED != 0 && (d != nil || paths != nil) {
			t.watcher.gone()
			delete(t.dirs, ev.watch)
			delete(t.files, ev.watch)
			t.buried(d, paths)
		}
		switch {
		case d == nil:
		case t.noMatter(d, ev):
		case ev.name != "":
			mark(d, ev.name)
		case d.parent == nil: // the root itself was moved or removed
			mark(d, "")
		case ev.mask&unix.IN_IGNORED != 0:
			d.watch = unwatched
			mark(d.parent, d.name)
		}
		for _, p := range paths {
			_, isFound := t.found[p]
			if above := t.nearest(filepath.Dir(p)); above != nil {
				mark(above, filepath.Base(p))
			} else if isFound { // in a directory that is not looked at
				mark(t.top, "")
			}
		}
	})
	if !known {
		t.scanAll()
		return true
	}
	for _, e := range changed {
		if e.name == "" {
			t.scanAll()
			return true
		}
	}
	relevant := false
	for _, e := range changed {
		if !e.d.gone {
			relevant = t.lookAt(e.d, e.name) || relevant
		}
	}
	return relevant
}

// noMatter reports whether an event is about a file that cannot count.
func (t *tree) noMatter(d *dir, ev event) bool {
	switch {
	case ev.name == "" || d.kids[ev.name] != nil:
		return false
	case d.place.kind == packages && !strings.EqualFold(ev.name, ".git"):
	case ev.mask&unix.IN_ISDIR != 0 || d.place.kind != plain || mayCount(ev.name):
		return false
	}
	path := t.path(d)
	if t.heeded[path] {
		return false
	}
	_, heeded := t.heeded[path+"/"+ev.name]
	return !heeded
}

// buried remembers that found files are no more.
func (t *tree) buried(d *dir, paths []string) {
	if len(t.died) > maxFollowed {
		clear(t.died)
	}
	if d != nil && d.parent != nil {
		paths = append(paths[:len(paths):len(paths)], t.path(d))
	}
	for _, p := range paths {
		for _, all := range []map[string]found{t.found, t.followed} {
			if f, ok := all[p]; ok {
				t.died[f.id()] = struct{}{}
				t.replaced = true
				delete(t.own, f.id())
			}
		}
	}
}

// made remembers that a call made a pointer.
func (t *tree) made(path string, f found) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.own) < maxFollowed && t.top != nil && t.found[path] == f {
		t.own[f.id()] = struct{}{}
		t.add(path, f.kind, 0)
		t.stale = true
	}
}

// hasDied reports whether a file that was found is no more.
func (t *tree) hasDied(id fileID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.died[id]
	return ok
}

// path returns where a directory lies.
func (t *tree) path(d *dir) string {
	if d.parent == nil {
		return t.root
	}
	size := len(t.root)
	for at := d; at.parent != nil; at = at.parent {
		size += 1 + len(at.name)
	}
	b := make([]byte, size)
	for at := d; at.parent != nil; at = at.parent {
		size -= len(at.name)
		copy(b[size:], at.name)
		size--
		b[size] = '/'
	}
	copy(b, t.root)
	return string(b)
}

// nearest returns the directory at a path, nil if it is not known.
func (t *tree) nearest(path string) *dir {
	at := t.top
	rel := strings.Trim(strings.TrimPrefix(path, t.root), "/")
	for rel != "" && at != nil {
		var seg string
		seg, rel, _ = strings.Cut(rel, "/")
		at = at.kids[seg]
	}
	return at
}

// drop forgets a directory and all below it.
func (t *tree) drop(d *dir) {
	queue := []*dir{d}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		at.gone = true
		t.count--
		if at.watch != unwatched && t.dirs[at.watch] == at {
			delete(t.dirs, at.watch)
			t.watcher.forget(at.watch)
		}
		for _, kid := range at.kids {
			queue = append(queue, kid)
		}
	}
	if d.parent != nil && d.parent.kids[d.name] == d {
		delete(d.parent.kids, d.name)
	}
}

// missing says what this tree cannot promise.
func (t *tree) missing() []string {
	var out []string
	if t.watcher.stamps == nil && !ctime.Local(t.root) {
		out = append(out, fmt.Sprintf("later: %s is on a file system that other machines may change; what they make "+
			"there that other programs obey may be seen only in another session", t.root))
	}
	if t.left.dirs > 0 {
		out = append(out, fmt.Sprintf("later: %s has more than %d directories; what other programs obey is not known "+
			"in all of them", t.root, t.index.limits.dirs))
	}
	if t.left.files+t.left.followed > 0 {
		out = append(out, fmt.Sprintf("later: %s has more files that other programs obey than can be known; those "+
			"that came last are not kept", t.root))
	}
	if len(t.problems) > 0 {
		out = append(out, fmt.Sprintf("later: %d directories of %s could not be looked at: %s", len(t.problems), t.root,
			first(t.problems)))
	}
	return out
}

func first(set map[string]struct{}) string {
	least := ""
	for s := range set {
		if least == "" || s < least {
			least = s
		}
	}
	return least
}

// problem remembers that a directory could not be looked at.
func (t *tree) problem(path string, err error) {
	if len(t.problems) < 100 {
		t.problems[fmt.Sprintf("%q: %v", path, err)] = struct{}{}
	}
	t.watcher.stamp(path)
}

// notThere reports whether an error says that nothing is at a path any more.
func notThere(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
