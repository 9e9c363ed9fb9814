package undo

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/undo/conflict"
	"github.com/sandboxd/sandboxd/sandbox"
)

// plan lists the changes that an undo makes. The journal keeps it until the undo has ended.
type plan struct {
	Call  string   `json:"call"`
	Lines []int    `json:"lines"` // in the order in which the undo takes them
	Force bool     `json:"force,omitempty"`
	Roots []string `json:"roots,omitempty"` // trees of a command; then the plan undoes nothing
}

// undone is the answer to an undo.
type undone struct {
	CallID    string           `json:"call_id"` // the undo itself, which can be undone
	Undone    string           `json:"undone"`  // the call that was undone
	Restored  []string         `json:"restored"`
	Removed   []string         `json:"removed"` // those that the call had made
	Conflicts []conflict.Entry `json:"conflicts"`
}

func nothingUndone(by, id string) undone {
	return undone{CallID: by, Undone: id, Restored: []string{}, Removed: []string{}, Conflicts: []conflict.Entry{}}
}

// removed returns the paths that the undo has removed.
func (u undone) removed() map[string]bool {
	all := make(map[string]bool, len(u.Removed))
	for _, path := range u.Removed {
		all[path] = true
	}
	return all
}

// whyOf returns an error as the reason of a conflict.
func whyOf(err error) string {
	if d, ok := errors.AsType[*guard.Denied](err); ok && d.Refusals[0].Code == "path_protected" {
		return fmt.Sprintf("path '%s' %s", d.Value, conflict.Protected)
	}
	return err.Error()
}

// planOf chooses the changes of a call below absolute paths; no path means all changes. With a directory that is
// gone, its content comes back too, because the directory may have kept others from reading it. The last change is
// undone first.
func planOf(of call, paths []string, force bool) (plan, error) {
	p := plan{Call: of.ID, Force: force}
	for _, path := range paths {
		if !slices.ContainsFunc(of.Changes, func(c change) bool { return guard.Within(c.Path, path) }) {
			return p, &tool.Error{
				Code: "undo_not_kept", Msg: fmt.Sprintf("call %s did not change %s", of.ID, path),
				Hint: "sandboxd diff " + of.ID + " shows what it changed",
			}
		}
	}
	for i, c := range slices.Backward(of.Changes) {
		gone := c.Before.Type == isDir && c.After.Type != isDir
		within := func(path string) bool { return guard.Within(c.Path, path) || gone && guard.Within(path, c.Path) }
		if len(paths) == 0 || slices.ContainsFunc(paths, within) {
			p.Lines = append(p.Lines, i)
		}
	}
	return p, nil
}

// restorer undoes changes of one call.
type restorer struct {
	j   *journal
	box sandbox.Box
	by  string // the call that undoes
	of  call
	// approved are the sums of what a person has seen; see [tool.In].
	approved map[string]string
	// refused says that somebody refused the changes. Then they are undone also if a program has the file open.
	refused bool
}

// restore makes the changes of a plan. It may be called again after a crash, and leaves what is done already.
func (r restorer) restore(ctx context.Context, p plan) (undone, error) {
	out := nothingUndone(r.by, r.of.ID)
	why, did := make([]string, len(p.Lines)), make([]bool, len(p.Lines))
	stays := r.objectsOfGit(p)
	lost := map[string]bool{} // paths of which one change could not be undone: the others are not undone either
	left := map[string]bool{} // paths with something that is not undone
	for _, i := range p.Lines {
		c := r.of.Changes[i]
		lost[c.Path] = lost[c.Path] || c.Before.Type == unreadable
		left[c.Path] = left[c.Path] || c.Undone == ""
	}
	r.openMade(ctx, p)
	moved := r.movedFrom(ctx, p)
	told := 0
	for at, i := range p.Lines {
		if at >= told {
			n, err := r.tellAhead(ctx, p.Lines[at:min(len(p.Lines), at+maxMarked)])
			if err != nil {
				return out, err
			}
			told = at + n
		}
		if stays[i] {
			continue
		}
		if c := r.of.Changes[i]; c.Undone != "" && left[c.Path] {
			continue // between two earlier changes the path may look as after this one again
		}
		if lost[r.of.Changes[i].Path] {
			why[at] = "what was there was not kept before the call: it was too large, could not be read, or had no room"
			continue
		}
		if from := moved[i]; from != "" {
			why[at] = conflict.Holds + relative(r.of.Dir, from) + conflict.Taken
			continue
		}
		var err error
		if did[at], why[at], err = r.one(ctx, r.of.Changes[i], p.Force); err != nil {
			why[at] = whyOf(err)
		}
	}
	r.closeMade(ctx, p)
	r.close(ctx, p, why)
	var done []change
	for at, i := range p.Lines {
		c := r.of.Changes[i]
		if stays[i] {
			done = append(done, c)
			continue
		}
		if why[at] != "" && (lost[c.Path] || !r.isAsBefore(ctx, c)) { // the file may have brought its directory back
			out.Conflicts = append(out.Conflicts, conflict.Entry{Path: relative(r.of.Dir, c.Path), Why: why[at]})
			continue
		}
		if !did[at] && c.Undone != "" && c.Undone != r.by {
			continue // another undo has done that
		}
		out.Restored = append(out.Restored, relative(r.of.Dir, c.Path))
		if c.Before.Type == nothing {
			out.Removed = append(out.Removed, relative(r.of.Dir, c.Path))
		}
		done = append(done, c)
	}
	for some := range slices.Chunk(done, maxMarked) { // in chunks, so that others can write between them
		if err := r.j.markUndone(ctx, r.of, some, r.by); err != nil {
			return out, err
		}
	}
	return out, nil
}

// movedFrom returns, by their lines, from where the call has moved files and links, if something else lies there now:
// their content would lie nowhere if the undo removed them.
func (r restorer) movedFrom(ctx context.Context, p plan) map[int]string {
	if p.Force {
		return nil
	}
	type content struct{ sum, link string }
	of := func(s state) content { return content{s.Sum, string(s.Link)} }
	made := map[content][]int{}
	for _, i := range p.Lines {
		if c := r.of.Changes[i]; c.Before.Type == nothing && (c.After.Type == isFile || c.After.Type == isLink) {
			made[of(c.After)] = append(made[of(c.After)], i)
		}
	}
	from := map[int]string{}
	for _, i := range p.Lines {
		c := r.of.Changes[i]
		if c.After.Type != nothing || c.Before.Type != isFile && c.Before.Type != isLink || made[of(c.Before)] == nil {
			continue
		}
		now, err := r.lookAt(ctx, c)
		taken := err == nil && now.Type != nothing && now.Type != unreadable && !now.same(c.Before) &&
			!r.ours(ctx, c.Path, now)
		if !taken && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) { // these: something lies above it
			continue
		}
		for _, n := range made[of(c.Before)] {
			from[n] = c.Path
		}
	}
	return from
}

func (r restorer) isAsBefore(ctx context.Context, c change) bool {
	now, err := r.lookAt(ctx, c)
	return err == nil && c.Before.Type != unreadable && now.same(c.Before)
}

// lookAt is look for a change. If something else than a directory lies above the path, what the call made there is
// gone.
func (r restorer) lookAt(ctx context.Context, c change) (state, error) {
	now, err := r.look(ctx, guard.PathUse{Raw: c.Path, Path: c.Path, Op: guard.Read})
	if c.Before.Type == nothing && (errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)) {
		return state{}, nil
	}
	return now, err
}

// one undoes a change, or says why it does not. If everything is as before the change, it does nothing.
func (r restorer) one(ctx context.Context, c change, force bool) (did bool, why string, err error) {
	now, err := r.lookAt(ctx, c)
	if err != nil {
		return false, "", err
	}
	if want, asked := r.approved[c.Path]; asked && now.Type != isDir && want != cmpSum(now) {
		return false, "it changed after a person approved the call", nil
	}
	switch {
	case now.same(c.Before) && (now.Modified == c.Before.Modified || !now.same(c.After)):
		return false, "", nil
	case force || now.same(c.After) || now.Index != "" && now.Index == c.After.Index || r.ours(ctx, c.Path, now):
	case now.Type == nothing:
		return false, conflict.Gone + r.since(ctx, c, now), nil
	default:
		return false, conflict.Changed + r.since(ctx, c, now), nil
	}
	if now.open && !force && !r.refused { // else their writes would go to a file without a name
		return false, conflict.InUse, nil
	}
	if now.same(c.After) {
		now.learn(c.After)
	}
	use := guard.PathUse{Raw: c.Path, Path: c.Path, Op: guard.Write}
	return true, "", r.put(ctx, use, now, c.Before)
}

// cmpSum returns the sum of a state in the form of an approval.
func cmpSum(s state) string {
	if s.Type != isFile {
		return tool.Absent
	}
	return s.Sum
}

// since names the later call that has left the path as it is now, if there is one.
func (r restorer) since(ctx context.Context, c change, now state) string {
	later, err := r.j.calls(ctx, `account = $1 AND n > (SELECT n FROM undo_calls WHERE call_id = $2)
		AND call_id <> $3 AND EXISTS (SELECT 1 FROM undo_changes c WHERE c.call_id = undo_calls.call_id AND c.path = $4)
		ORDER BY n DESC LIMIT 1`, r.of.Account, r.of.ID, r.by, []byte(c.Path))
	if err != nil || len(later) == 0 {
		return ""
	}
	left := func(x change) bool { return x.Path == c.Path && x.After.same(now) }
	if !slices.ContainsFunc(later[0].Changes, left) {
		return conflict.ByOthers
	}
	return conflict.ByCall + later[0].ID
}

// look returns the state of the file at a path.
func (r restorer) look(ctx context.Context, use guard.PathUse) (state, error) {
	f, err := r.box.Open(ctx, use, os.O_RDONLY)
	switch {
	case errors.Is(err, unix.ELOOP):
		return r.lookLink(ctx, use)
	case errors.Is(err, fs.ErrNotExist):
		return state{}, nil
	case err != nil:
		return r.lookUnopened(ctx, use, err)
	}
	defer f.Close()
	s, err := stateOf(sandbox.Content{File: f}, io.Discard)
	s.Index = indexOf(use.Path, s, f)
	if s.Type == isFile {
		s.open, _ = writersOf(f)
	}
	return s, err
}

// lookLink returns where a symbolic link leads. A link in the path above it is an error.
func (r restorer) lookLink(ctx context.Context, use guard.PathUse) (state, error) {
	above := guard.PathUse{Path: filepath.Dir(use.Path), Op: guard.Read}
	dir, err := r.box.Open(ctx, above, unix.O_DIRECTORY)
	if err != nil {
		return state{}, err
	}
	defer dir.Close()
	var c sandbox.Content
	err = r.box.Do(use, func() error {
		c.Link, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(use.Path)))
		return err
	})
	if err != nil {
		return state{}, err
	}
	return stateOf(c, io.Discard)
}

// put restores the old state of a path.
func (r restorer) put(ctx context.Context, use guard.PathUse, now, want state) error {
	if now.Type == isDir && want.Type == isDir {
		return r.dress(ctx, use, now, opened(want))
	}
	if now.Type != nothing && (now.Type != isFile || want.Type != isFile) {
		if err := sandbox.Remove(ctx, r.box, use); err != nil {
			return err
		}
	}
	switch want.Type {
	case isDir:
		return sandbox.MakeDir(ctx, r.box, use, opened(want).attributes())
	case isFile:
		return r.write(ctx, use, want)
	case isLink:
		return sandbox.MakeLink(ctx, r.box, use, string(want.Link))
	case isPipe:
		return sandbox.MakePipe(ctx, r.box, use, want.attributes())
	}
	return nil
}

// write restores the content of a file.
func (r restorer) write(ctx context.Context, use guard.PathUse, want state) error {
	from, err := os.Open(r.j.store.path(want.Sum))
	if err != nil {
		return fmt.Errorf("the store has lost the content: %w", err)
	}
	defer from.Close()
	f, err := sandbox.Create(ctx, r.box, use, os.FileMode(want.Mode))
	if err != nil {
		return err
	}
	f.Give(want.attributes())
	sum := sha256.New()
	whole := io.LimitReader(from, want.Size+1) // so that a small file gets a small buffer
	if _, err = io.Copy(io.MultiWriter(f, sum), whole); err == nil && hex.EncodeToString(sum.Sum(nil)) != want.Sum {
		err = errors.New("the content in the store is not what was kept")
	}
	if err != nil {
		f.Discard()
		return err
	}
	return f.Commit()
}

// maxMarked bounds the changes that one write to the journal marks as undone.
const maxMarked = 1000

// markUndone notes that changes were undone. If the call was itself an undo, the changes that it had undone hold
// again. If those were made by an undo too, the changes that it had undone are undone again, and so on.
func (j *journal) markUndone(ctx context.Context, of call, all []change, by string) error {
	return j.db.Write(ctx, func(tx *sql.Tx) error {
		mark, err := tx.Prepare(`UPDATE undo_changes SET undone = $1 WHERE call_id = $2 AND n = $3`)
		for _, c := range all {
			if err == nil {
				_, err = mark.Exec(by, of.ID, c.N)
			}
		}
		holds, was := false, of.ID // whether the changes of the current call hold
		for next := of.Undoes; err == nil && next != ""; {
			from, to := was, ""
			if holds {
				from, to = "", was
			}
			var again *sql.Stmt
			again, err = tx.Prepare(`UPDATE undo_changes SET undone = $1
				WHERE call_id = $2 AND undone = $3 AND path = $4`)
			for _, c := range all {
				if err == nil {
					_, err = again.Exec(to, next, from, []byte(c.Path))
				}
			}
			holds, was = !holds, next
			if err == nil {
				err = tx.QueryRow(`SELECT undoes FROM undo_calls WHERE call_id = $1`, was).Scan(&next)
			}
			if errors.Is(err, sql.ErrNoRows) { // it was purged
				return nil
			}
		}
		return err
	})
}

// clean returns a path of a request as a clean, absolute one.
func clean(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}
