package undo

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// maxListed bounds the changes that an answer lists.
const maxListed = 1000

// Keep implements [part.Journal].
func (j *journal) Keep(ctx context.Context, c *tool.Call) (context.Context, error) {
	if j.settings().Mode == "off" {
		return ctx, nil
	}
	r := &recorder{j: j, call: c, config: j.settings(), at: j.now()}
	if c.Spec.Class == tool.ClassExec {
		// What it changes has to be written down, or nobody could judge it.
		if err := j.roomForLines(ctx, c.ID, 1); err != nil {
			return ctx, err
		}
		if err := r.before(ctx); err != nil {
			r.leave()
			r.why = append(r.why, "what the command changes is not kept: "+err.Error())
		}
	}
	return sandbox.WithKeeper(context.WithValue(ctx, recorderKey{}, r), r), nil
}

type recorderKey struct{}

// recorderOf returns the recorder of a call. It is nil if nothing of the call is kept.
func recorderOf(ctx context.Context) *recorder {
	r, _ := ctx.Value(recorderKey{}).(*recorder)
	return r
}

// recorder writes the changes of one call.
type recorder struct {
	j      *journal
	call   *tool.Call
	config Config
	all    bool        // look at each file after the command
	at     time.Time   // when the call began
	shared atomic.Bool // another command began while it ran
	orphan atomic.Bool // its session was deleted

	mu     sync.Mutex // guards the fields below
	begun  bool       // the call is in the journal
	undoes string
	plan   string
	lines  []*line
	bytes  int64
	why    []string // reasons why not everything is kept
	trees  []*snapshot
	over   bool             // the command has ended, and what it changed is known
	late   bool             // the command has ended, and the look after it failed
	ahead  map[string]*line // lines that the journal has before the undo makes their changes
}

// line is one change of the call.
type line struct {
	change
	drop bool      // the change was not made
	done bool      // the journal has the line as it is
	tree *snapshot // the tree in which it was found; nil if a file tool reported it
	told bool      // the journal has the states before and after, but not yet that the change was made
}

// start writes the call to the journal, if it is not there. The caller holds mu.
func (r *recorder) start(tx *sql.Tx) error {
	if r.begun {
		return nil
	}
	return r.row().insert(tx)
}

// row returns the call as the journal stores it.
func (r *recorder) row() call {
	c := r.call
	out := call{
		ID: c.ID, Account: c.Session.Account, Session: c.Session.ID, Tool: c.Spec.Name, Dir: c.Session.Dir,
		Rights: rightsOf(c.Request.User), At: r.at, Undoes: r.undoes, Plan: r.plan,
	}
	if r.orphan.Load() {
		out.Session = ""
	}
	return out
}

// insert writes a call that has not ended, if it is not in the journal.
func (c call) insert(tx *sql.Tx) error {
	_, err := tx.Exec(`INSERT INTO undo_calls
		(call_id, n, account, session, tool, dir, place, rights, at, settled, why, undoes, plan)
		VALUES ($1, (SELECT coalesce(max(n), 0) + 1 FROM undo_calls), $2, $3, $4, $5, $6, $7, $8, 0, '', $9, $10)
		ON CONFLICT (call_id) DO NOTHING`,
		c.ID, c.Account, c.Session, c.Tool, c.Dir, placeOf(c.Dir), c.Rights, c.At.UnixMilli(), c.Undoes, c.Plan)
	return err
}

// rightsOf returns a user as the journal stores it. "" is the daemon.
func rightsOf(u sandbox.User) string {
	if id := u.ID(); id != nil {
		return encode(id)
	}
	return ""
}

// userOf returns the user that rightsOf has written.
func userOf(rights string) (sandbox.User, error) {
	if rights == "" {
		return sandbox.Daemon(), nil
	}
	var id struct {
		UID, GID int
		Groups   []int
	}
	if err := json.Unmarshal([]byte(rights), &id); err != nil {
		return sandbox.User{}, err
	}
	return sandbox.NewUser(id.UID, id.GID, id.Groups, "", ""), nil
}

// add writes new lines. The caller holds mu.
func (r *recorder) add(ctx context.Context, lines ...*line) error {
	if err := r.j.roomForLines(ctx, r.call.ID, len(lines)); err != nil {
		return err
	}
	for _, l := range lines {
		l.N = len(r.lines)
		r.lines = append(r.lines, l)
	}
	err := r.j.db.Write(ctx, func(tx *sql.Tx) error {
		if err := r.start(tx); err != nil {
			return err
		}
		return r.insert(tx, lines)
	})
	if err != nil {
		r.lines = r.lines[:len(r.lines)-len(lines)]
		return err
	}
	r.begun = true
	return nil
}

// insert writes lines of a call that is in the journal already.
func (r *recorder) insert(tx *sql.Tx, lines []*line) error {
	r.j.lines.Add(int64(len(lines)))
	put, err := tx.Prepare(`INSERT INTO undo_changes (call_id, n, path, temp, state, before, after, sum, undone)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '')`)
	for _, l := range lines {
		if err == nil {
			_, err = put.Exec(r.call.ID, l.N, []byte(l.Path), []byte(l.Temp), l.State, encode(l.Before),
				encode(l.After), l.Before.Sum)
		}
	}
	return err
}

// Begin implements [sandbox.Keeper].
func (r *recorder) Begin(ctx context.Context, c *sandbox.Coming) (sandbox.Keeping, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.takeAhead(c); l != nil {
		return &keeping{r: r, file: l}, nil
	}
	k := &keeping{r: r, file: &line{change: change{Path: c.Path, Temp: c.Temp}}}
	for _, dir := range c.Dirs {
		k.dirs = append(k.dirs, &line{change: change{Path: dir, After: state{Type: isDir}}})
	}
	return k, r.add(ctx, append(slices.Clone(k.dirs), k.file)...)
}

// keeping is one change of a file tool.
type keeping struct {
	r    *recorder
	file *line
	dirs []*line // directories that were made for the file
}

// Take implements [sandbox.Keeping].
func (k *keeping) Take(ctx context.Context, old, now sandbox.Content) error {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	after, err := stateOf(now, io.Discard)
	if err != nil {
		return err
	}
	if now.File != nil {
		after.Index = indexOf(k.file.Path, after, now.File)
	}
	asTold := after.same(k.file.After) && (after.Type == isDir || after.Modified == k.file.After.Modified)
	if k.file.told && asTold && old.File == nil && old.Link == "" && old.Err == nil {
		return nil
	}
	k.file.After, k.file.told = after, false
	return k.keep(ctx, old)
}

// Instead implements [sandbox.Keeping].
func (k *keeping) Instead(ctx context.Context, old sandbox.Content) error {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.file.told = false
	return k.keep(ctx, old)
}

// keep copies the old content, and writes it to the journal. The caller holds mu.
func (k *keeping) keep(ctx context.Context, old sandbox.Content) error {
	r := k.r
	give := func() {}
	defer func() { give() }()
	if old.File != nil {
		info, err := old.File.Stat()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() && r.bytes+info.Size() > r.config.PerCallBytes {
			return &tool.Error{
				Code: "undo_call_too_large", Msg: fmt.Sprintf("%s has %d bytes, and one call may replace no more than "+
					"undo.perCallBytes, %d, so that it can be undone; it was not changed",
					k.file.Path, info.Size(), r.config.PerCallBytes),
				Hint: "a person can raise undo.perCallBytes, or change the file",
			}
		}
		if info.Mode().IsRegular() {
			if give, err = r.j.take(ctx, r.call.ID, info.Size()); err != nil {
				give = func() {}
				return err
			}
		}
	}
	c, err := r.j.store.copy(old)
	if err != nil {
		return err
	}
	r.bytes += c.Size
	l := k.file
	l.Before, l.State = c.state, kept
	return r.j.admit(ctx, r.call.ID, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE undo_changes SET state = $1, before = $2, after = $3, sum = $4
			WHERE call_id = $5 AND n = $6`,
			l.State, encode(l.Before), encode(l.After), l.Before.Sum, r.call.ID, l.N)
		return err
	}, c)
}

// Done implements [sandbox.Keeping].
func (k *keeping) Done(_ context.Context, changed bool) {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.file.drop = !changed || k.file.Before.same(k.file.After) && k.file.Before.Modified == k.file.After.Modified
	k.file.State = made
	if !k.file.drop && k.file.Before.Type == unreadable {
		k.r.why = append(k.r.why, k.file.Path+" could not be read before it was replaced")
	}
	for _, d := range k.dirs {
		d.After, d.drop = dirState(k.r.call.Request.User, d.Path)
		d.State = made
	}
}

// dirState returns the state of a directory that was made, as far as it still exists.
func dirState(u sandbox.User, path string) (s state, absent bool) {
	var st unix.Stat_t
	err := u.Do(func() error { return unix.Lstat(path, &st) })
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return state{}, true
	}
	return state{Type: isDir, Mode: st.Mode & dirMode, Modified: st.Mtim.Nano()}, false
}

// Collect implements [part.Journal].
func (j *journal) Collect(ctx context.Context, c *tool.Call) error {
	r := recorderOf(ctx)
	j.tell(ctx, c)
	if r == nil {
		if c.Spec.Class == tool.ClassWrite || c.Spec.Class == tool.ClassExec {
			c.Changes.Undo = &tool.Undo{Why: Off}
		}
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.after(ctx, r.may); err != nil {
		r.why = append(r.why, "not everything that the command changed is known: "+err.Error())
		r.late = true
	}
	err := r.end(ctx)
	r.show()
	if err == nil && c.Changes.Total > 0 {
		c.Changes.Made = outcome{j, c, r.may}
	}
	return err
}

// end ends what before has begun and takes the mark of the command away, unless the last look failed. Then the next
// command or daemon finds out what this one changed. The caller holds mu.
func (r *recorder) end(ctx context.Context) error {
	if !r.late {
		r.leave()
	}
	err := r.settle(ctx)
	if err == nil && !r.late {
		err = r.j.marks.remove(r)
	}
	return err
}

// settle writes to the journal how each change has ended. The caller holds mu.
func (r *recorder) settle(ctx context.Context) error {
	if !r.begun {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(r.lines), func(l *line) bool { return l.drop })
	return r.j.db.Write(ctx, func(tx *sql.Tx) error {
		if len(left) == 0 {
			_, err := tx.Exec(`DELETE FROM undo_calls WHERE call_id = $1`, r.call.ID)
			return err
		}
		if slices.ContainsFunc(left, func(l *line) bool { return l.told }) {
			_, err := tx.Exec(`UPDATE undo_changes SET state = $1, temp = $2 WHERE call_id = $3 AND state = $4`,
				made, []byte{}, r.call.ID, kept)
			if err != nil {
				return err
			}
		}
		for _, l := range r.lines {
			var err error
			if l.done || l.told && !l.drop {
				continue
			}
			if l.drop {
				_, err = tx.Exec(`DELETE FROM undo_changes WHERE call_id = $1 AND n = $2`, r.call.ID, l.N)
			} else {
				_, err = tx.Exec(`UPDATE undo_changes SET state = $1, after = $2, temp = $3
					WHERE call_id = $4 AND n = $5`, made, encode(l.After), []byte{}, r.call.ID, l.N)
			}
			if err != nil {
				return err
			}
		}
		_, err := tx.Exec(`UPDATE undo_calls SET settled = 1, plan = '', why = $1 WHERE call_id = $2`,
			strings.Join(r.why, "; "), r.call.ID)
		return err
	})
}

// show puts the changes into the answer. The caller holds mu.
func (r *recorder) show() {
	c := r.call
	for _, l := range r.lines {
		if !l.drop {
			c.Changes.List = append(c.Changes.List, l.shown(c.Session.Dir))
		}
	}
	c.Changes.List, c.Changes.Total = listed(c.Changes.List)
	switch {
	case len(r.why) > 0:
		c.Changes.Undo = &tool.Undo{Why: strings.Join(r.why, "; ")}
	case c.Changes.Total > 0:
		until := r.j.now().Add(r.config.keep()).UTC()
		c.Changes.Undo = &tool.Undo{Kept: true, Until: &until}
	}
}

// listed returns as many changes as an answer may list, and how many there are.
func listed(all []tool.Change) ([]tool.Change, int) {
	total := len(all)
	if total > maxListed {
		slices.SortStableFunc(all, func(a, b tool.Change) int {
			return cmp.Compare(max(b.BytesBefore, b.BytesAfter), max(a.BytesBefore, a.BytesAfter))
		})
		all = all[:maxListed]
	}
	return all, total
}
