package later

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/guard/obeyed"
)

// Index knows the trees of all sessions. Sessions that work in the same tree share it. Index is
// safe for concurrent use.
type Index struct {
	budget     atomic.Int64 // watches that the trees may still make
	limits     limits
	generation atomic.Uint64 // of snapshots
	mounts     mounts        // of the daemon's namespace

	mu    sync.Mutex
	trees map[string]*tree // guarded by mu; by root
	order []string         // guarded by mu; the one that was used last is the last
}

// maxTrees bounds the trees that are watched at once. Each costs a descriptor.
const maxTrees = 32

// NewIndex returns an index that has looked at nothing yet.
func NewIndex() *Index {
	x := &Index{limits: usualLimits, trees: map[string]*tree{}}
	x.budget.Store(watchBudget())
	return x
}

// Close gives back what the index has of the kernel.
func (x *Index) Close() {
	x.mu.Lock()
	trees := x.trees
	x.trees, x.order = map[string]*tree{}, nil
	x.mu.Unlock()
	x.mounts.close()
	for _, t := range trees {
		t.close()
	}
}

// tree returns the tree of a root. If there are too many, the one that was not used for
// longest is closed.
func (x *Index) tree(root string) *tree {
	t, old := x.use(root)
	if old != nil {
		old.close()
	}
	return t
}

// use returns the tree of a root, and the one to close for it if there are too many.
func (x *Index) use(root string) (t, old *tree) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.order) > 0 && x.order[len(x.order)-1] == root {
		return x.trees[root], nil
	}
	if i := slices.Index(x.order, root); i >= 0 {
		x.order = slices.Delete(x.order, i, i+1)
	} else {
		if len(x.order) >= maxTrees {
			old = x.trees[x.order[0]]
			delete(x.trees, x.order[0])
			x.order = slices.Delete(x.order, 0, 1)
		}
		x.trees[root] = newTree(x, root)
	}
	x.order = append(x.order, root)
	return x.trees[root], old
}

// Trees are the directories that a person works in and a call may write. A Trees is shared
// by the calls with the same settings and is safe for concurrent use.
type Trees struct {
	index *Index
	roots []string

	mu   sync.Mutex
	last *State // guarded by mu
}

// Trees returns the trees below the roots. A root within another one counts as a part of
// that: permission to write a directory is no permission to decide what runs later.
func (x *Index) Trees(roots []string) *Trees {
	var own []string
	for _, w := range roots {
		within := func(r string) bool { return w != r && guard.Within(w, r) }
		if !slices.ContainsFunc(roots, within) && !slices.Contains(own, w) {
			own = append(own, w)
		}
	}
	return &Trees{index: x, roots: own}
}

// State is what the trees held at some time. It does not change.
type State struct {
	Missing []string // what cannot be promised, and why
	Trees   []TreeState

	snapshots []*snapshot
}

// TreeState is what one tree held at some time.
type TreeState struct {
	Root       string
	Generation uint64 // a later state has a higher one, and the same one if nothing changed
	Kept       []Kept // existing files that programs must not write, in order
}

// maxKept bounds the mounts of a sandbox: a call can make any number of such files.
const maxKept = 4096

// Kept is a file or directory that programs must not write.
type Kept struct {
	Path string
	Pins int // directories above it that must keep their names
}

// State returns the state of the trees now.
func (t *Trees) State() *State {
	snapshots := make([]*snapshot, 0, 4)
	for _, root := range t.roots {
		snapshots = append(snapshots, t.index.tree(root).look())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil && slices.Equal(snapshots, t.last.snapshots) {
		return t.last
	}
	s := &State{snapshots: snapshots}
	for _, snap := range snapshots {
		kept := snap.kept()
		s.Missing = append(s.Missing, snap.missing...)
		if all := len(kept); all > maxKept {
			s.Missing = append(s.Missing, fmt.Sprintf("later: of %d files of %s that other programs obey, %d are not "+
				"read-only", all, snap.root, all-maxKept))
			kept = oldest(kept, maxKept)
		}
		s.Trees = append(s.Trees, TreeState{snap.root, snap.generation, kept})
	}
	t.last = s
	return s
}

// kept returns the files that programs must not write, in order.
func (s *snapshot) kept() []Kept {
	var out []Kept
	for p, f := range s.found {
		if f.kept() {
			out = append(out, Kept{p, f.pins})
		}
	}
	slices.SortFunc(out, func(a, b Kept) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// oldest returns so many of the files, in the same order: those that have been as they are
// for longest. What a call makes to crowd out the others is younger, and no program can set a
// change time.
func oldest(kept []Kept, most int) []Kept {
	changed := make(map[string]int64, len(kept))
	for _, k := range kept {
		var st unix.Stat_t
		if unix.Lstat(k.Path, &st) == nil {
			changed[k.Path] = st.Ctim.Nano()
		}
	}
	slices.SortStableFunc(kept, func(a, b Kept) int { return cmp.Compare(changed[a.Path], changed[b.Path]) })
	kept = kept[:most]
	slices.SortFunc(kept, func(a, b Kept) int { return cmp.Compare(a.Path, b.Path) })
	return kept
}

// Keeps reports whether a file tool must not write a path, which need not exist. Names
// decide alone; what a link or a configuration leads to is looked up.
func (t *Trees) Keeps(path string) bool {
	for _, root := range t.roots {
		if !guard.Within(path, root) {
			continue
		}
		if n := obeyed.Find(path, root); n != nil && n.Kept() {
			return true
		}
		return t.index.tree(root).look().leads(path)
	}
	return false
}

// leads reports whether a found file is a path or leads to it, or to a directory above.
func (s *snapshot) leads(path string) bool {
	if s.heeded[path] {
		return true
	}
	for p := path; len(p) > len(s.root); p = filepath.Dir(p) {
		if f, ok := s.found[p]; ok && f.kind != gitMark && f.kind != unreadable && f.kind != gitPointer {
			return true
		}
	}
	return false
}

// shown makes a path fit for a line of text.
func shown(path string) string {
	return strings.ToValidUTF8(path, "\uFFFD")
}
