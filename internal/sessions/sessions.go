// Package sessions keeps the conversations that calls belong to: where they work, in which mode,
// with which tools.
//
//	s := sessions.New(db, sessions.Options{Transcripts: files}) // nil keeps no messages
//	s.Attach(parts...)   // they hear of new, forked and deleted sessions
//	err := s.Sweep(ctx)  // at the start: removes what a killed daemon left of deleted sessions
//	go s.Follow(ctx, failed) // needed if daemons share db
//	sess, err := s.Create(ctx, tool.Session{ID: "s1", Account: "uid-1000", Dir: "/home/me/repo"})
//	sess, err = s.Session(ctx, sess.Account, sess.ID)
//	err = s.Flush(ctx)   // from time to time and at the end: stores which sessions were used
//
// [Store.Patch] changes a session, [Store.Delete] removes it with all below it, and [Store.List]
// lists those of an account. [Store.Ensure] returns the latest session with a tag that began in a
// directory, or creates it.
//
// A session belongs to the account that created it. For every other account it does not exist: the
// answer is the same "session_not_found". Only what makes a session tells that an id is taken:
// "session_exists".
// An id once used stays with its account, even after the session is deleted, because records speak
// of it. The account may create it anew and finds it empty, without the grants of before.
//
// The messages of a session are kept by package transcript: in a file beside the database, or in
// rows of a database that daemons share ([Store.Save], [Store.Messages], [Store.Cut],
// [Store.Fork]). A save writes a new file, then changes the row of the session, then puts the file
// in its place. If a save fails before that, the old messages are still there.
//
// The package checks ids, the size of fields and the number of sessions. It does not check whether
// an account may have that mode or that directory: package api does, before it calls. Its other errors
// are validation_error and too_large (a field), too_many_sessions, agent_exists, transcript_corrupt and
// session_elsewhere ([Runs], which finds sessions for calls). After an error of Create or Delete, look
// again: what fails behind the commit, such as the removal of a file, does not undo it.
//
// Whoever gets [Messages] closes them. A function that is passed to Patch must not change sessions through
// the Store: a write inside a write waits for itself.
//
// Files: tree.go is about sessions below others, idle.go about sessions that nobody uses, daemon.go and
// here.go about daemons that share db. A new field of a session that no query names goes into data, encode
// and scan (row.go). A new column is a migration in migrations/ and one in migrations/postgres/. The tests
// run over both databases (make test-postgres).
package sessions

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
)

//go:embed migrations/*.sql migrations/postgres/*.sql
var migrations embed.FS

// Schema returns the tables of this package.
func Schema() store.Schema { return store.EmbeddedBoth("sessions", migrations) }

// Options bound the sessions.
type Options struct {
	// PerAccount is how many sessions an account may have; 0 is no bound.
	PerAccount int
	// Transcripts store the messages of the sessions; nil stores none.
	Transcripts Transcripts
	// Local is the database that this daemon has to itself, where others share that of the sessions.
	Local *store.DB
}

// Transcripts keep what was said: in files, or in rows of the database of the sessions. They are safe for concurrent
// use. Package transcript implements them, and says in which order a save calls them.
type Transcripts interface {
	// Lock is held by whoever saves or deletes.
	Lock(id string) (unlock func())
	// Read opens a transcript, which the caller closes; without one the error is fs.ErrNotExist.
	Read(id string) (*transcript.File, error)
	// Regular reports whether a save may replace what is there, also if it is damaged.
	Regular(id string) bool
	// Write writes the first messages of old and those that are added; old may be nil.
	Write(meta transcript.Metadata, old *transcript.File, keep int, add []json.RawMessage) (transcript.New, error)
	// Forget runs in the transaction that deletes a session, Remove after it.
	Forget(tx *sql.Tx, id string) error
	Remove(id string) error
	// IDs returns the ids that Sweep looks at: it removes what a crash left of deleted sessions.
	IDs() ([]string, error)
	// Sizes returns the bytes of each transcript.
	Sizes(ctx context.Context) (map[string]int64, error)
}

// Store is the sessions of all accounts. It is safe for concurrent use.
type Store struct {
	db    *store.DB
	o     Options
	known *store.Cache[tool.Session]  // by id; of every account
	parts atomic.Pointer[[]part.Part] // what else a session has

	mu   sync.Mutex           // guards what follows
	used map[string]time.Time // by session, when a call ended last; not stored yet
	made map[string]int64     // by id, creation time of the session whose data this daemon keeps
	seen time.Time            // this daemon has read the changes of others up to this time
}

// New returns the sessions in db, which was opened with [Schema]; there is one
// Store to a database.
func New(db *store.DB, o Options) *Store {
	return &Store{
		db: db, o: o, known: store.NewCache(db, sizeOf), used: map[string]time.Time{}, made: map[string]int64{},
	}
}

// Attach makes the store tell these parts when a session is made, forked or deleted, in place of the parts that were
// attached before.
func (s *Store) Attach(parts ...part.Part) { s.parts.Store(&parts) }

func (s *Store) attached() []part.Part {
	if p := s.parts.Load(); p != nil {
		return *p
	}
	return nil
}

// Create stores a session. Without an id it gets one that nobody can guess; a
// given id that is taken is the error "session_exists". If the account has too
// many sessions, the error is "too_many_sessions".
func (s *Store) Create(ctx context.Context, sess tool.Session) (tool.Session, error) {
	sess, err := s.prepare(sess)
	if err != nil {
		return tool.Session{}, err
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		sess, err = s.create(tx, sess)
		return err
	})
	if err != nil {
		return tool.Session{}, err
	}
	return sess, s.here(ctx, sess)
}

func (s *Store) prepare(sess tool.Session) (tool.Session, error) {
	if sess.ID == "" {
		sess.ID = "ses_" + rand.Text()
	}
	sess.Created = s.db.Now().UTC()
	sess.Updated = sess.Created
	sess.Begun = cmp.Or(sess.Begun, sess.Dir)
	sess.Daemon, sess.Place = s.db.Daemon(), ""
	if s.db.Shared() {
		sess.Place = placeOf(sess.Dir)
	}
	if err := CheckID(sess.ID); err != nil {
		return sess, err
	}
	if sess.Agent != "" || sess.Parent != "" {
		if err := tool.CheckAgent(sess.Agent); err != nil {
			return sess, err
		}
	}
	return sess, checkBounds(tool.Session{}, sess)
}

// create stores a session, and returns it below the one that it names as its parent.
func (s *Store) create(tx *sql.Tx, sess tool.Session) (tool.Session, error) {
	sess, err := s.join(tx, sess)
	if err != nil {
		return sess, err
	}
	return sess, s.make(tx, sess)
}

func (s *Store) make(tx *sql.Tx, sess tool.Session) error {
	var account string
	var deleted int64
	err := tx.QueryRow(`SELECT account, deleted FROM sessions WHERE id = $1`, sess.ID).Scan(&account, &deleted)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return err
	case deleted == 0 || account != sess.Account:
		return &tool.Error{
			Code: "session_exists", Msg: fmt.Sprintf("session %q exists already", sess.ID),
			Hint: "leave the id out to get a new one",
		}
	}
	if err := s.room(tx, sess.Account); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM sessions WHERE id = $1`, sess.ID); err != nil {
		return err
	}
	if err := insert(tx, sess); err != nil {
		return err
	}
	if s.o.Transcripts != nil { // what a crash has left of one that was deleted
		if err := errors.Join(s.o.Transcripts.Forget(tx, sess.ID), s.o.Transcripts.Remove(sess.ID)); err != nil {
			return err
		}
	}
	s.known.Drop(sess.ID)
	for _, p := range s.attached() {
		if p.Created == nil || s.own(p) {
			continue
		}
		if err := p.Created(tx, sess); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) room(tx *sql.Tx, account string) error {
	if s.o.PerAccount <= 0 {
		return nil
	}
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM sessions WHERE account = $1 AND deleted = 0`,
		account).Scan(&n); err != nil {
		return err
	}
	if n >= s.o.PerAccount {
		return &tool.Error{
			Code: "too_many_sessions",
			Msg:  fmt.Sprintf("account %s has %d sessions, %d at most", account, n, s.o.PerAccount),
			Hint: "delete some, or reuse one; the limit is sessions.perAccount",
		}
	}
	return nil
}

func insert(tx *sql.Tx, sess tool.Session) error {
	rest, err := encode(sess)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO sessions (`+columns+`, root)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		sess.ID, sess.Account, sess.Dir, sess.Tag, sess.Created.UnixNano(), sess.Updated.UnixNano(), rest,
		sess.Parent, sess.Agent, sess.Begun, sess.Root())
	return err
}

// Session returns one session of an account, with those above it: its mode and profile are the
// strictest of all. What it points to is shared: whoever changes a session does it by Patch.
func (s *Store) Session(ctx context.Context, account, id string) (tool.Session, error) {
	return climb(id, func(id string) (tool.Session, error) { return s.row(ctx, account, id) })
}

func (s *Store) row(ctx context.Context, account, id string) (tool.Session, error) {
	sess, err := s.known.Get(id, func() (sess tool.Session, err error) {
		err = s.db.Read(ctx, func(tx *sql.Tx) error {
			sess, err = get(tx, account, id)
			return err
		})
		return sess, err
	})
	if err == nil && sess.Account != account {
		return tool.Session{}, notFound(id)
	}
	if err == nil {
		err = s.here(ctx, sess)
	}
	return sess, err
}

// Owner returns the account that a session belongs to, "" if there is no such session.
func (s *Store) Owner(ctx context.Context, id string) (account string, err error) {
	err = s.db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT account FROM sessions WHERE id = $1 AND deleted = 0`, id).Scan(&account)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return account, err
}

func notFound(id string) error {
	return &tool.Error{
		Code: "session_not_found", Msg: fmt.Sprintf("session %q not found", id),
		Hint: "sandboxd sessions list, or GET /sessions, says which there are",
	}
}

func get(tx *sql.Tx, account, id string) (tool.Session, error) {
	if err := CheckID(id); err != nil {
		return tool.Session{}, err
	}
	row := tx.QueryRow(`SELECT `+columns+` FROM sessions WHERE id = $1 AND account = $2 AND deleted = 0`, id, account)
	sess, err := scan(row)
	if errors.Is(err, sql.ErrNoRows) {
		return tool.Session{}, notFound(id)
	}
	return sess, err
}

// Patch changes a session in one step: change sees the present state, of this session alone, and
// what it leaves is stored. It cannot change id, account, parent, agent, daemon,
// place, times and where it began.
func (s *Store) Patch(ctx context.Context, account, id string, change func(*tool.Session) error) (tool.Session, error) {
	var old tool.Session
	sess, err := s.patch(ctx, account, id, s.db.Now().UTC(), func(_ *sql.Tx, x *tool.Session) error {
		old = *x
		return change(x)
	})
	if err == nil && (sess.Title != old.Title || sess.Tag != old.Tag) {
		err = s.retitle(ctx, account, id)
	}
	return sess, err
}

// patch changes the row of a session alone.
func (s *Store) patch(ctx context.Context, account, id string, at time.Time,
	change func(*sql.Tx, *tool.Session) error,
) (
	tool.Session, error,
) {
	var sess tool.Session
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		old, err := get(tx, account, id)
		if err != nil {
			return err
		}
		sess = old
		if err := change(tx, &sess); err != nil {
			return err
		}
		if err := checkBounds(old, sess); err != nil {
			return err
		}
		sess.ID, sess.Account, sess.Created, sess.Updated = old.ID, old.Account, old.Created, at
		sess.Parent, sess.Agent, sess.Begun = old.Parent, old.Agent, old.Begun
		sess.Daemon, sess.Place = old.Daemon, old.Place
		rest, err := encode(sess)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE sessions SET dir = $1, tag = $2, updated = $3, data = $4 WHERE id = $5`,
			sess.Dir, sess.Tag, sess.Updated.UnixNano(), rest, sess.ID)
		s.known.Drop(sess.ID)
		if err != nil || sess.Parent == "" {
			return err
		}
		sess, err = climb(id, func(id string) (tool.Session, error) { return get(tx, account, id) })
		return err
	})
	if err != nil {
		return tool.Session{}, err
	}
	return sess, nil
}

// Delete removes a session with all below it, and all that parts keep of them. What runs in them has
// ended when Delete returns, also when ctx ends meanwhile: the ids may be used again.
func (s *Store) Delete(ctx context.Context, account, id string) error {
	return s.remove(ctx, account, id, func(*sql.Tx, []string) error { return nil })
}

// remove deletes a session and all sessions below it. Before that it calls first with all their ids, in
// the same transaction. An error of first keeps the sessions.
func (s *Store) remove(ctx context.Context, account, id string, first func(*sql.Tx, []string) error) error {
	for {
		var found []string
		err := s.db.Read(ctx, func(tx *sql.Tx) (err error) {
			found, err = below(tx, account, id)
			return err
		})
		if err != nil {
			return err
		}
		err = s.removeAll(ctx, account, id, found, first)
		if !errors.Is(err, errGrown) {
			return err
		}
	}
}

// errGrown says that the tree of sessions has changed since it was read.
var errGrown = errors.New("the tree has changed")

// removeAll deletes a tree if it has exactly these sessions, the lowest last.
func (s *Store) removeAll(
	ctx context.Context, account, id string, all []string, first func(*sql.Tx, []string) error,
) error {
	if s.o.Transcripts != nil { // who makes a session anew saves after the old file has gone
		for _, one := range slices.Sorted(slices.Values(all)) {
			defer s.o.Transcripts.Lock(one)()
		}
	}
	var gone []tool.Session
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		now, err := below(tx, account, id)
		if err != nil {
			return err
		}
		if !slices.Equal(now, all) {
			return errGrown
		}
		if err := first(tx, all); err != nil {
			return err
		}
		for _, one := range slices.Backward(all) {
			sess, err := climb(one, func(id string) (tool.Session, error) { return get(tx, account, id) })
			if err != nil {
				return err
			}
			gone = append(gone, sess)
		}
		for _, one := range gone {
			if err := s.markDeleted(tx, one.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	for _, one := range gone {
		if s.o.Transcripts != nil {
			err = errors.Join(err, s.o.Transcripts.Remove(one.ID))
		}
		err = errors.Join(err, s.locally(ctx, func(tx *sql.Tx, p part.Part) error {
			if p.Deleted == nil {
				return nil
			}
			return p.Deleted(tx, one.ID)
		}))
		for _, p := range s.attached() {
			if p.Forget != nil {
				err = errors.Join(err, p.Forget(ctx, one))
			}
		}
		err = errors.Join(err, s.notHere(ctx, one.ID))
	}
	return err
}

func (s *Store) markDeleted(tx *sql.Tx, id string) error {
	_, err := tx.Exec(`UPDATE sessions SET deleted = $1, dir = '', begun = '', tag = '', data = '{}', parent = '',
		agent = '' WHERE id = $2`, s.db.Now().UnixNano(), id)
	s.known.Drop(id)
	if err == nil && s.o.Transcripts != nil {
		err = s.o.Transcripts.Forget(tx, id)
	}
	for _, p := range s.attached() {
		if err == nil && p.Deleted != nil && !s.own(p) {
			err = p.Deleted(tx, id)
		}
	}
	return err
}
