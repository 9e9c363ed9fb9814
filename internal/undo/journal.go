package undo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// journal knows what calls have changed, and keeps what was there before.
type journal struct {
	db    *store.DB
	store objects
	log   *slog.Logger
	now   func() time.Time
	free  func() int64        // bytes on the disk of the store
	mask  func(string) string // masks secrets that have a known form

	snapshots snapshots
	marks     *marks
	config    atomic.Pointer[Config]

	lines atomic.Int64 // in the journal, or a few more: lines that were dropped count until the next countLines

	mu      sync.Mutex          // guards the fields below, and the names in the store
	held    map[string]int      // by sum: how many lines need the content
	size    int64               // bytes in the store
	coming  int64               // bytes that are being copied to the store
	notices map[string][]string // for the next call of each session
}

// openJournal opens the store in dir, and finishes what a crash left. free returns how many bytes are free.
func openJournal(
	ctx context.Context, db *store.DB, dir string, free func() int64, c Config, log *slog.Logger,
) (*journal, error) {
	j := &journal{
		db: db, log: log, now: time.Now, free: free, notices: map[string][]string{}, held: map[string]int{},
		mask: func(text string) string { return text },
	}
	j.setConfig(c)
	var err error
	if j.store, err = openObjects(filepath.Join(dir, "objects")); err != nil {
		return nil, err
	}
	if j.marks, err = openMarks(filepath.Join(dir, "running")); err != nil {
		return nil, err
	}
	known := map[string]int64{}
	err = db.Read(ctx, func(tx *sql.Tx) error {
		err := each(tx, func(row scan) error {
			var sum string
			var size int64
			err := row(&sum, &size)
			known[sum] = size
			return err
		}, `SELECT sum, size FROM undo_objects`)
		return errors.Join(err, each(tx, func(row scan) error {
			var session, text string
			err := row(&session, &text)
			j.notices[session] = append(j.notices[session], text)
			return err
		}, `SELECT session, text FROM undo_notices`))
	})
	if err == nil {
		err = j.store.sweep(known)
	}
	if err != nil {
		return nil, err
	}
	for _, size := range known {
		j.size += size
	}
	if err := j.countLines(ctx); err != nil {
		return nil, err
	}
	return j, errors.Join(j.recoverMarks(ctx), j.recover(ctx), j.purgeOld(ctx))
}

// scan reads the columns of a row.
type scan func(...any) error

func each(tx *sql.Tx, f func(scan) error, query string, args ...any) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// setConfig puts another configuration in force.
func (j *journal) setConfig(c Config) { j.config.Store(&c) }

func (j *journal) settings() Config { return *j.config.Load() }

// admit puts contents into the store, and the lines that need them into the journal. If there is no room, the oldest
// calls go, except this one.
func (j *journal) admit(ctx context.Context, call string, write func(*sql.Tx) error, all ...copied) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	size, fresh := int64(0), map[string]copied{}
	all = slices.DeleteFunc(all, copied.empty)
	for _, c := range all {
		j.held[c.Sum]++ // what the journal holds already stays
		defer j.letGo(c.Sum)
		_, twice := fresh[c.Sum]
		if is, err := os.Lstat(j.store.path(c.Sum)); twice || err == nil && is.Size() == c.Size {
			j.store.drop(c)
			continue
		}
		fresh[c.Sum], size = c, size+c.Size
	}
	var kept []string
	var err error
	if size > 0 {
		err = j.makeRoom(ctx, call, size, j.settings().KeepBytes)
	}
	for sum, c := range fresh {
		if err == nil {
			if err = noRoom(j.store.keep(c)); err == nil {
				kept = append(kept, sum)
				continue
			}
		}
		j.store.drop(c)
	}
	if err == nil {
		err = j.db.Write(ctx, func(tx *sql.Tx) error {
			for _, c := range all {
				_, err := tx.Exec(`INSERT INTO undo_objects (sum, size) VALUES ($1, $2) ON CONFLICT (sum) DO NOTHING`,
					c.Sum, c.Size)
				if err != nil {
					return err
				}
			}
			return write(tx)
		})
	}
	if err == nil {
		j.size += size
		return nil
	}
	for _, sum := range kept {
		os.Remove(j.store.path(sum))
	}
	return err
}

// letGo says that one line less needs a content. The caller holds mu.
func (j *journal) letGo(sum string) {
	if j.held[sum]--; j.held[sum] == 0 {
		delete(j.held, sum)
	}
}

// take reserves room for a content before it is copied, so that the store leaves on the disk what it must. The
// caller calls give afterwards, whether the content was stored or not.
func (j *journal) take(ctx context.Context, call string, size int64) (give func(), err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.makeRoom(ctx, call, j.coming+size, min(j.settings().KeepBytes, (j.used()+j.free())/2)); err != nil {
		return nil, err
	}
	j.coming += size
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.coming -= size
	}, nil
}

// reserve is take without removing older calls. It reports false if there is no room.
func (j *journal) reserve(size int64) (give func(), ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.used()+j.coming+size > min(j.settings().KeepBytes, (j.used()+j.free())/2) {
		return nil, false
	}
	j.coming += size
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.coming -= size
	}, true
}

// youngest is the age below which no call is removed. Otherwise an agent could destroy work, and then fill the store
// or its disk until nobody can undo that.
const youngest = 24 * time.Hour

// makeRoom removes the oldest calls until there is room for size bytes more. The caller holds mu.
func (j *journal) makeRoom(ctx context.Context, but string, size, most int64) error {
	for j.used()+size > most {
		var oldest string
		err := j.db.Read(ctx, func(tx *sql.Tx) error {
			return tx.QueryRow(`SELECT call_id FROM undo_calls WHERE settled <> 0 AND call_id <> $1 AND at < $2
				ORDER BY n LIMIT 1`, but, j.now().Add(-youngest).UnixMilli()).Scan(&oldest)
		})
		if errors.Is(err, sql.ErrNoRows) {
			return &tool.Error{
				Code: "undo_store_full",
				Msg: fmt.Sprintf("the old content has %d bytes and cannot be kept, because the store would have more "+
					"than %d, by undo.keepBytes or by what is free on its disk, and calls of the last day stay; "+
					"nothing was changed", size, most),
				Hint: "an operator can make room on that disk, raise undo.keepBytes, or run sandboxd undo purge",
			}
		}
		if err == nil {
			_, err = j.forget(ctx, `call_id = $1`, oldest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget removes calls, and the contents that no other call needs. The caller holds mu.
func (j *journal) forget(ctx context.Context, where string, args ...any) (calls int64, err error) {
	var gone []string
	freed := int64(0)
	err = j.db.Write(ctx, func(tx *sql.Tx) error {
		gone, freed = nil, 0
		done, err := tx.Exec(`DELETE FROM undo_calls WHERE settled <> 0 AND `+where, args...)
		if err != nil {
			return err
		}
		if calls, err = done.RowsAffected(); err != nil {
			return err
		}
		err = each(tx, func(row scan) error {
			var sum string
			var size int64
			err := row(&sum, &size)
			if j.held[sum] == 0 {
				gone, freed = append(gone, sum), freed+size
			}
			return err
		}, `SELECT sum, size FROM undo_objects WHERE
			NOT EXISTS (SELECT 1 FROM undo_changes c WHERE c.sum = undo_objects.sum) AND
			NOT EXISTS (SELECT 1 FROM undo_trees t WHERE t.sum = undo_objects.sum)`)
		for _, sum := range gone {
			if err == nil {
				_, err = tx.Exec(`DELETE FROM undo_objects WHERE sum = $1`, sum)
			}
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if calls > 0 {
		if err := j.countLines(ctx); err != nil {
			return 0, err
		}
	}
	j.size -= freed
	for _, sum := range gone {
		err = errors.Join(err, os.Remove(j.store.path(sum)))
	}
	return calls, err
}

// How much of undo.keepBytes a line takes: lines lie in the database. The first lines, as many as one tree has
// files, are free.
const (
	lineBytes = 512
	freeLines = maxTree
)

// used returns how much contents and lines take together. The caller holds mu.
func (j *journal) used() int64 { return j.size + usedBy(j.lines.Load()) }

func usedBy(lines int64) int64 { return max(0, lines-freeLines) * lineBytes }

// roomForLines makes room for so many lines. Like a content, they may not take more than undo.keepBytes. The
// changes of a command are always written, even without room, so a command only begins if there is room.
func (j *journal) roomForLines(ctx context.Context, call string, n int) error {
	most := j.settings().KeepBytes
	if usedBy(j.lines.Load()+int64(n)) <= most {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.makeRoom(ctx, call, lineBytes*int64(n), most)
	if e, ok := errors.AsType[*tool.Error](err); ok {
		e.Msg = fmt.Sprintf("the journal has %d changes, undo.keepBytes leaves no room for more, and calls of the "+
			"last day stay; nothing was changed", j.lines.Load())
		e.Hint = "an operator can raise undo.keepBytes, or run sandboxd undo purge"
	}
	return err
}

// countLines counts the lines again.
func (j *journal) countLines(ctx context.Context) error {
	n := int64(0)
	err := j.db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM undo_changes`).Scan(&n)
	})
	if err == nil {
		j.lines.Store(n)
	}
	return err
}

// purgeOld removes the calls and the notes about trees that are older than the configuration allows.
func (j *journal) purgeOld(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	old := j.now().Add(-j.settingsKeep())
	err := j.forgetTrees(ctx, old)
	if err == nil {
		_, err = j.forget(ctx, `at < $1`, old.UnixMilli())
	}
	if err == nil {
		err = j.countLines(ctx)
	}
	return err
}

// purge removes all calls, or all calls of a session.
func (j *journal) purge(ctx context.Context, session string) (purged, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := j.size
	where := `session = $1`
	if session == "" {
		where = `$1 = ''`
		if err := j.forgetTrees(ctx, j.now()); err != nil {
			return purged{}, err
		}
	}
	calls, err := j.forget(ctx, where, session)
	return purged{int(calls), before - j.size}, err
}

// call is a call of the journal.
type call struct {
	ID, Account, Session string // no session: it was deleted
	Tool, Dir            string
	Rights               string
	At                   time.Time
	Settled              bool
	Why                  string
	Undoes, Plan         string
	Changes              []change
}

const callColumns = `call_id, account, session, tool, dir, rights, at, settled, why, undoes, plan`

func (c *call) scan(row scan) error {
	var at, settled int64
	err := row(&c.ID, &c.Account, &c.Session, &c.Tool, &c.Dir, &c.Rights, &at, &settled, &c.Why, &c.Undoes, &c.Plan)
	c.At, c.Settled = time.UnixMilli(at).UTC(), settled != 0
	return err
}

// calls reads calls with their changes, in the order of the query.
func (j *journal) calls(ctx context.Context, rest string, args ...any) ([]call, error) {
	var all []call
	err := j.db.Read(ctx, func(tx *sql.Tx) error {
		err := each(tx, func(row scan) error {
			var c call
			err := c.scan(row)
			all = append(all, c)
			return err
		}, `SELECT `+callColumns+` FROM undo_calls WHERE `+rest, args...)
		for i := range all {
			err = errors.Join(err, all[i].read(tx))
		}
		return err
	})
	return all, err
}

// read reads the changes of the call.
func (c *call) read(tx *sql.Tx) error {
	return each(tx, func(row scan) error {
		var x change
		var path, temp, before, after []byte
		if err := row(&x.N, &path, &temp, &x.State, &before, &after, &x.Undone); err != nil {
			return err
		}
		x.Path, x.Temp = string(path), string(temp)
		err := x.decode(before, after)
		c.Changes = append(c.Changes, x)
		return err
	}, `SELECT n, path, temp, state, before, after, undone FROM undo_changes WHERE call_id = $1 ORDER BY n`, c.ID)
}

// decode reads the states of the change.
func (c *change) decode(before, after []byte) error {
	return errors.Join(json.Unmarshal(before, &c.Before), json.Unmarshal(after, &c.After))
}

// call finds one call by its id.
func (j *journal) call(ctx context.Context, id string) (call, error) {
	all, err := j.calls(ctx, `call_id = $1`, id)
	if err == nil && len(all) == 0 {
		if err = notKept(id); j.marks.has(id) {
			err = isRunning(id)
		}
	}
	if err != nil {
		return call{}, err
	}
	return all[0], nil
}

func isRunning(id string) error {
	return &tool.Error{
		Code: "undo_running", Msg: "call " + id + " has not ended",
		Hint: "wait for its end, or stop it: sandboxd jobs stop, if it is a job",
	}
}

func notKept(id string) error {
	return &tool.Error{
		Code: "undo_not_kept", Msg: "nothing is kept of call " + id,
		Hint: "it changed no file, or is too old: sandboxd changes lists what is kept",
	}
}

// encode returns a value as the journal stores it.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("cannot happen, %T has a JSON form: %v", v, err))
	}
	return string(b)
}
