package undo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/search"
	"github.com/sandboxd/sandboxd/sandbox"
)

// maxTree bounds the paths of a tree that is looked at.
const maxTree = 100_000

// How long before a look a file must have been at rest. Within one step of the clock of a file system it may change
// again and keep its time. FAT has steps of two seconds; ext3, and ext4 with inodes of 128 bytes, have steps of one.
const (
	racy       = 20 * time.Millisecond
	racyCoarse = 2*time.Second + racy
)

// atRest reports whether a file that changed at a time gets another time if it changes from now on.
func atRest(changed int64, now time.Time) bool {
	at, step := time.Unix(0, changed), racy
	if at.Nanosecond() == 0 {
		step = racyCoarse
	}
	return now.Sub(at) >= step
}

// snapshots compare trees before and after calls.
type snapshots struct {
	mu    sync.Mutex // guards trees
	trees map[string]*snapshot
}

// snapshot is a tree as it was at the last look.
type snapshot struct {
	root   string
	begins sync.Mutex // one command begins at a time; locked before mu

	mu      sync.Mutex // one look at a time; guards the fields below
	known   map[string]seen
	ready   bool            // known has been read from the journal
	exclude *search.Ignores // for this look
	large   time.Time       // when it last had too many files
	noted   time.Time       // when the journal last noted a look
	running []*recorder     // commands that may change it now, in the order in which they began

	watch     *watch    // nil: each look is at everything
	watches   string    // for which look and which excluded paths the watch holds
	unwatched time.Time // when the system last had no watches left
	// What events do not tell of:
	skips bool // something is excluded
	// For this look: whether it opens directories that a command has closed, and those that it has opened.
	reopens  bool
	reopened []func() error

	mounts map[string]uint64 // by path, as at the first look
	learns bool              // this is the first look

	closed map[string]bool // directories that no look enters; false if something is mounted there
	links  map[string]bool // files with several names, one of which may be elsewhere
	open   map[string]bool // files that a process has open for writing; false if that is not known
}

// seen is a path of a tree.
type seen struct {
	state
	inode   uint64
	changed int64
	device  uint64
	mount   uint64 // the number of the mount whose root this is
	linked  bool   // it has more than one name
}

// looked is what a look at a tree has found. The store keeps the contents of changes until release.
type looked struct {
	changes []change
	closed  []string // directories that could not be read
	shut    []string // directories that the look before could not read
	doubt   bool     // files may have been written through names in other trees
	large   bool     // the tree has too many files: the look was only at those that it had before
	release func()
}

// rootsOf returns the trees in which a command may change something, without the private places of its session.
func rootsOf(c *tool.Call) []string {
	roots := slices.Clone(c.Workspace.Roots) // also below /tmp
	for _, s := range c.Facts.Uses.Siblings {
		roots = append(roots, s.Path) // likewise
	}
	add := func(dir string) {
		within := func(other string) bool { return guard.Within(dir, other) }
		if !slices.ContainsFunc(append(slices.Clone(roots), "/tmp", "/var/tmp", "/dev"), within) {
			roots = append(roots, dir)
		}
	}
	for _, dir := range c.Settings.AllowedWritePaths {
		add(dir)
	}
	return roots
}

func (s *snapshots) of(root string) *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trees == nil {
		s.trees = map[string]*snapshot{}
	}
	if s.trees[root] == nil {
		s.trees[root] = &snapshot{root: root}
	}
	return s.trees[root]
}

// glance says how to look at a tree.
type glance struct {
	user sandbox.User
	// may says what calls may change. Nothing else is kept, because it may be a secret. If it is nil, nothing new is
	// kept.
	may func(string) bool
	// all looks at each known file, because events do not report everything.
	all bool
	// write writes changes to the journal, in the transaction that also notes the new state of the tree. nil writes
	// none.
	write func(*sql.Tx, []change) error
}

// look compares a tree with its last known state, keeps new contents, and returns the changes.
func (j *journal) look(ctx context.Context, s *snapshot, g glance) (out looked, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if err != nil {
			s.unwatch() // its events have been read
		}
	}()
	s.reopens = g.write != nil && g.may != nil
	defer func() {
		if len(s.reopened) > 0 {
			err = errors.Join(err, s.closeAgain(g.user))
		}
	}()
	out.release = func() {}
	if err := s.load(ctx, j); err != nil {
		return out, err
	}
	config := j.settings()
	s.exclude = config.excluded(s.root)
	shut := maps.Clone(s.closed)
	out.shut = slices.Sorted(maps.Keys(shut))
	found, err := s.find(g, config, &out)
	if err == nil && s.count(found) > maxTree {
		err = s.tooLarge()
	}
	if errors.Is(err, errTooLarge) && g.write != nil { // what is lost of the known files is reported all the same
		s.unwatch()
		out.large = true
		found, err = s.findKnown(g.user, &out)
	}
	if err != nil {
		return out, err
	}
	var changed, gone, sums []string
	for path, is := range found.paths {
		in := func(dir string) bool { return strings.HasPrefix(path, dir+"/") }
		was, known := s.known[path]
		switch {
		case is.Type == nothing && !known:
			continue
		case is.Type == nothing:
			gone = append(gone, path)
		case !known || found.again[path] || !is.like(was) && !slices.ContainsFunc(out.closed, in):
			changed = append(changed, path)
		default:
			continue
		}
		if was.Sum != "" {
			sums = append(sums, was.Sum)
		}
	}
	slices.Sort(changed)
	out.release = j.hold(sums)
	k := &looking{j: j, s: s, box: bareBox{g.user}, may: g.may, whole: g.write != nil}
	defer k.drop()
	for _, path := range changed {
		was, known := s.known[path]
		before := was.state
		if !known && below(path, shut) { // nobody knows whether it is new
			before.Type = unreadable
		}
		now, err := k.keep(ctx, path, found.paths[path])
		if err != nil {
			return out, err
		}
		timed := now.Type == isFile || now.Type == unreadable
		// A file that could not be read, then or now, may be another one.
		unread := known && was.changed != 0 && now.Type == unreadable && before.Type == unreadable &&
			!found.paths[path].like(was)
		if unread || !now.same(before.file()) || timed && now.Modified != before.Modified {
			out.changes = append(out.changes, change{Path: path, State: made, Before: before, After: now})
		}
	}
	for _, path := range gone {
		was := s.known[path]
		if !s.excluded(path, was.Type == isDir) { // an excluded path may still be there, and was not excluded before
			out.changes = append(out.changes, change{Path: path, State: made, Before: was.state})
		}
	}
	inOrder(out.changes)
	var more func(*sql.Tx) error
	if g.write != nil && len(out.changes) > 0 {
		more = func(tx *sql.Tx) error { return g.write(tx, out.changes) }
	}
	return out, k.write(ctx, gone, more)
}

// hold keeps contents in the store until the journal names them.
func (j *journal) hold(sums []string) (release func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, sum := range sums {
		j.held[sum]++
	}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, sum := range sums {
			j.letGo(sum)
		}
	}
}

// like reports whether a path is unchanged, as far as its inode says.
func (s seen) like(was seen) bool {
	return was.changed != 0 && s.inode == was.inode && s.changed == was.changed
}

// load reads what the journal knows of the tree.
func (s *snapshot) load(ctx context.Context, j *journal) error {
	if s.ready {
		return nil
	}
	s.known = map[string]seen{}
	err := j.db.Read(ctx, func(tx *sql.Tx) error {
		return each(tx, func(row scan) error {
			var path, text []byte
			var inode int64
			var is seen
			if err := row(&path, &inode, &is.changed, &text); err != nil {
				return err
			}
			is.inode = uint64(inode)
			err := json.Unmarshal(text, &is.state)
			s.known[string(path)] = is
			return err
		}, `SELECT path, inode, changed, state FROM undo_trees WHERE root = $1`, s.root)
	})
	holds := map[string]bool{} // directories that hold a known path
	for path := range s.known {
		holds[filepath.Dir(path)] = true
	}
	s.closed = map[string]bool{}
	for path, is := range s.known {
		if is.Type == isDir && is.Mode&looks != looks && !holds[path] {
			s.closed[path] = true
		}
	}
	s.ready = err == nil
	return err
}

// inOrder sorts the changes of a tree into an order in which somebody could have made them, so that an undo can take
// them in the opposite order: removed files, removed directories, new directories, new files, and last the modes and
// attributes of directories, which may forbid changes of what is in them.
func inOrder(all []change) {
	rank := func(c change) int {
		switch {
		case c.Before.Type == isDir && c.After.Type == isDir:
			return 4
		case c.Before.Type == nothing && c.After.Type == isDir:
			return 2
		case c.Before.Type == nothing:
			return 3
		case c.Before.Type == isDir || c.After.Type == isDir:
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b change) int {
		if x, y := rank(a), rank(b); x != y {
			return x - y
		}
		if rank(a) == 1 || rank(a) == 4 { // the deepest first
			return strings.Compare(b.Path, a.Path)
		}
		return strings.Compare(a.Path, b.Path)
	})
}
