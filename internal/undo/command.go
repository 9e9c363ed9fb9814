package undo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox"
)

// snapshotMode is the mode in which each file is looked at before and after each command, without events of the
// kernel.
const snapshotMode = "snapshot"

// before looks at the trees in which a command may change something. Then it writes a mark: the command runs.
func (r *recorder) before(ctx context.Context) error {
	c := r.call
	if len(c.Settings.AllowedWritePaths) == 0 {
		r.why = append(r.why, "writing is not restricted, and what lies outside of the workspace is not kept")
	}
	roots := rootsOf(c)
	r.plan = encode(plan{Roots: roots})
	if err := r.j.marks.put(r); err != nil {
		return err
	}
	// Without namespaces a file can get a name in a directory that is not watched.
	r.all = c.Report.Isolation != "namespaces"
	for _, root := range roots {
		s, err := r.j.tree(ctx, root)
		if err != nil {
			return err
		}
		if err := r.begin(ctx, s, true); err != nil {
			return err
		}
		r.trees = append(r.trees, s)
	}
	return nil
}

// begin looks at a tree before the command. With enters, the command runs in the tree from then on. If another
// command runs there, what has changed is a change of that command. Each file is looked at then, because the other
// command may write it by a mapping.
func (r *recorder) begin(ctx context.Context, s *snapshot, enters bool) error {
	s.begins.Lock() // else another command could begin and change something, and this look would find nobody who did it
	defer s.begins.Unlock()
	g := glance{user: r.call.Request.User, may: r.may, all: r.all}
	done, err := false, error(nil)
	for other := s.longest(); other != nil && !done; other = s.longest() {
		done, err = other.lookFor(ctx, s, g)
	}
	if !done {
		var out looked
		out, err = r.j.look(ctx, s, g)
		out.release()
	}
	if err == nil && enters {
		s.enter(r)
	}
	return err
}

// lookFor looks at a tree in which r runs, for a command that is about to begin. It sees what both commands may read
// and write. What it finds is a change of r. It reports false if r has ended. One look serves both: nobody would
// know whose a change between two looks is.
func (r *recorder) lookFor(ctx context.Context, s *snapshot, next glance) (done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false, nil
	}
	may := func(path string) bool { return r.may(path) || next.may(path) }
	users := []sandbox.User{r.call.Request.User}
	if users[0].Rights() != next.user.Rights() {
		users = append(users, next.user)
	}
	for _, user := range users {
		if _, err := r.compare(ctx, s, glance{user: user, may: may, all: true}); err != nil {
			r.lacks("not everything that the command changed is known: " + err.Error())
			return true, err
		}
	}
	if !r.late {
		return true, nil
	}
	if err := r.after(ctx, r.may); err != nil { // in its other trees
		return true, err
	}
	r.late = false
	return true, r.end(ctx)
}

// longest returns, of the commands that run in the tree, the one that began first, or nil.
func (s *snapshot) longest() *recorder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running) == 0 {
		return nil
	}
	return s.running[0]
}

// enter notes that a command runs in the tree.
func (s *snapshot) enter(r *recorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.running {
		other.shared.Store(true)
	}
	s.running = append(s.running, r)
}

// leave ends what before has begun.
func (r *recorder) leave() {
	for _, s := range r.trees {
		s.mu.Lock()
		s.running = slices.DeleteFunc(s.running, func(other *recorder) bool { return other == r })
		s.mu.Unlock()
	}
	r.trees, r.over = nil, true
}

// may reports whether the call may change a path.
func (r *recorder) may(path string) bool {
	write := guard.PathUse{Raw: path, Path: path, Op: guard.Write}
	return r.call.In.Rules.Check(guard.Uses{Paths: []guard.PathUse{write}}) == nil
}

// after compares the trees with their last known state, and writes what changed to the journal. The caller holds mu.
func (r *recorder) after(ctx context.Context, may func(string) bool) error {
	g := glance{user: r.call.Request.User, may: may, all: r.all || r.shared.Load()}
	doubt := map[*snapshot]bool{}
	for _, s := range r.trees {
		out, err := r.compare(ctx, s, g)
		if err != nil {
			return err
		}
		if out.doubt {
			doubt[s] = true
		}
	}
	if g.all = true; len(doubt) == 0 {
		return nil
	}
	for _, s := range r.trees { // a file may have had a name in another tree
		if !doubt[s] {
			if _, err := r.compare(ctx, s, g); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare compares one tree. The caller holds mu.
func (r *recorder) compare(ctx context.Context, s *snapshot, g glance) (looked, error) {
	if !r.j.snapshots.is(s) {
		r.lacks("what was in " + s.root + " was purged while the command ran")
		return looked{}, nil
	}
	var lines []*line
	var lost, large []string
	g.write = func(tx *sql.Tx, changes []change) error {
		lines, lost, large = nil, nil, nil
		for _, c := range changes {
			if r.has(c, s) {
				continue
			}
			c.N = len(r.lines) + len(lines)
			lines = append(lines, &line{change: c, done: true, tree: s})
			switch {
			case c.Before.Type == unreadable:
				lost = append(lost, c.Path)
			case c.After.Type == unreadable && c.After.Size > r.config.PerCallBytes: // an undo would have to keep it
				large = append(large, c.Path)
			}
		}
		if err := r.start(tx); err != nil {
			return err
		}
		return r.insert(tx, lines)
	}
	out, err := r.j.look(ctx, s, g)
	defer out.release()
	if err != nil {
		return out, err
	}
	r.begun = r.begun || len(out.changes) > 0
	r.lines = append(r.lines, lines...)
	if out.large {
		r.lacks("of what is new in " + s.root + " nothing is known: " + s.tooLarge().Error())
	}
	for _, dir := range out.closed {
		r.lacks(dir + " cannot be looked into")
	}
	for _, dir := range out.shut {
		if !slices.Contains(out.closed, dir) {
			r.lacks(dir + " could not be looked into before")
		}
	}
	r.lacksFiles(lost, "were not kept before (larger than undo.perCallBytes, not readable, or without room)")
	r.lacksFiles(large, "have more than undo.perCallBytes, and an undo leaves them")
	return out, nil
}

// lacks says in the answer that an undo cannot restore something.
func (r *recorder) lacks(why string) {
	if !slices.Contains(r.why, why) {
		r.why = append(r.why, why)
	}
}

// lacksFiles calls lacks for files, if there are any.
func (r *recorder) lacksFiles(paths []string, why string) {
	if len(paths) > 0 {
		r.lacks(fmt.Sprintf("%d files %s: %s", len(paths), why, strings.Join(paths[:min(len(paths), maxNamed)], ", ")))
	}
}

// maxNamed bounds the paths that a reason names.
const maxNamed = 10

// has reports whether a change is known already: a file tool reported it, or it was found in another tree that holds
// this one or lies in it. A change that was found twice in one tree was made twice; another command has undone it in
// between.
func (r *recorder) has(c change, s *snapshot) bool {
	return slices.ContainsFunc(r.lines, func(l *line) bool {
		told := l.tree == nil || l.tree != s && l.Before.same(c.Before)
		return told && l.Path == c.Path && !l.drop && l.After.same(c.After)
	})
}

// tree returns the snapshot of a tree that is about to be looked at for a call.
func (j *journal) tree(ctx context.Context, root string) (*snapshot, error) {
	s := j.snapshots.of(root)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := j.now()
	if now.Sub(s.noted) < purgeEvery {
		return s, nil
	}
	err := j.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO undo_roots (root, looked) VALUES ($1, $2)
			ON CONFLICT (root) DO UPDATE SET looked = excluded.looked`, root, now.UnixMilli())
		return err
	})
	if err == nil {
		s.noted = now
	}
	return s, err
}

// forgetTrees forgets the trees that nobody has looked at since a time. The caller holds mu.
func (j *journal) forgetTrees(ctx context.Context, before time.Time) error {
	var roots []string
	err := j.db.Write(ctx, func(tx *sql.Tx) error {
		roots = nil
		err := each(tx, func(row scan) error {
			var root string
			err := row(&root)
			roots = append(roots, root)
			return err
		}, `SELECT root FROM undo_roots WHERE looked <= $1`, before.UnixMilli())
		for _, root := range roots {
			_, gone := tx.Exec(`DELETE FROM undo_trees WHERE root = $1`, root)
			_, gone2 := tx.Exec(`DELETE FROM undo_roots WHERE root = $1`, root)
			err = errors.Join(err, gone, gone2)
		}
		return err
	})
	if err == nil {
		j.snapshots.drop(roots)
	}
	return err
}

// is reports whether t is still the snapshot of its tree.
func (s *snapshots) is(t *snapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trees[t.root] == t
}

func (s *snapshots) drop(roots []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, root := range roots {
		delete(s.trees, root)
	}
}

// close ends all watches.
func (s *snapshots) close() { s.rest(time.Unix(1<<40, 0)) }

// rest ends the watches of trees in which no command has run since a time, because the system has few watches.
func (s *snapshots) rest(since time.Time) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.trees))
	s.mu.Unlock()
	for _, t := range all {
		t.mu.Lock()
		if t.noted.Before(since) {
			t.unwatch()
		}
		t.mu.Unlock()
	}
}

// afterCrash compares the trees of a command that a crash interrupted.
func (r *recorder) afterCrash(ctx context.Context, roots []string) error {
	for _, root := range roots {
		known := false
		err := r.j.db.Read(ctx, func(tx *sql.Tx) error {
			return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM undo_roots WHERE root = $1)`, root).Scan(&known)
		})
		if err != nil {
			return err
		}
		if known {
			r.trees = append(r.trees, r.j.snapshots.of(root))
		}
	}
	r.why = append(r.why, "the daemon ended while it ran; what others changed until it started again is among it")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = true
	return r.after(ctx, nil)
}
