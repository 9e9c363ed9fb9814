// Package sessions keeps the conversations that calls belong to: where they work,
// in which mode, with which tools.
//
//	s := sessions.New(db, sessions.Options{})
//	sess, err := s.Create(ctx, tool.Session{Account: "uid:1000", Dir: "/home/me/repo"})
//	sess, err = s.Session(ctx, sess.Account, sess.ID)
//
// A session belongs to the account that created it. For every other account it
// does not exist: the answer is the same "session_not_found". An id once used
// stays with its account, even after the session is deleted, because grants and
// records speak of it; the account may create it anew and finds it empty.
//
// This package checks ids and nothing else: whether an account may have that mode
// or that directory is decided by the front door.
package sessions

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/tool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Schema is the tables of this package.
func Schema() store.Schema { return store.Embedded("sessions", migrations) }

// Options ties other state of a session to its life: Created and Deleted run in
// the transaction that creates or deletes it; an error undoes it.
type Options struct {
	Created func(tx *sql.Tx, id string) error
	Deleted func(tx *sql.Tx, id string) error
	// PerAccount is how many sessions an account may have; 0 is no bound.
	PerAccount int
}

// Store is the sessions of all accounts. It is safe for concurrent use.
type Store struct {
	db    *store.DB
	o     Options
	known *store.Cache[tool.Session] // by id; of every account
}

// New returns the sessions in db, which was opened with [Schema]; there is one
// Store to a database.
func New(db *store.DB, o Options) *Store {
	return &Store{db: db, o: o, known: store.NewCache[tool.Session](db)}
}

// data is what is not searched for.
type data struct {
	Home     string            `json:"home,omitempty"`
	Mode     string            `json:"mode,omitempty"`
	Profile  string            `json:"profile,omitempty"`
	Title    string            `json:"title,omitempty"`
	Metadata json.RawMessage   `json:"metadata,omitempty"`
	Groups   map[string]bool   `json:"groups,omitempty"`
	Tools    map[string]bool   `json:"tools,omitempty"`
	Sandbox  *sandbox.Settings `json:"sandbox,omitempty"`
}

const columns = `id, account, dir, tag, created, updated, data`

// Create stores a session. Without an id it gets one that nobody can guess; a
// given id that is taken is the error "session_exists", one session too many for
// the account "too_many_sessions".
func (s *Store) Create(ctx context.Context, sess tool.Session) (tool.Session, error) {
	sess, err := prepare(sess)
	if err != nil {
		return tool.Session{}, err
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error { return s.create(tx, sess) })
	if err != nil {
		return tool.Session{}, err
	}
	return sess, nil
}

func prepare(sess tool.Session) (tool.Session, error) {
	if sess.ID == "" {
		sess.ID = "ses_" + rand.Text()
	}
	sess.Created = time.Now().UTC()
	sess.Updated = sess.Created
	return sess, CheckID(sess.ID)
}

func (s *Store) create(tx *sql.Tx, sess tool.Session) error {
	var account string
	var deleted int64
	err := tx.QueryRow(`SELECT account, deleted FROM sessions WHERE id = $1`, sess.ID).Scan(&account, &deleted)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return err
	case deleted == 0 || account != sess.Account:
		return &tool.Error{Code: "session_exists", Msg: fmt.Sprintf("session %q exists already", sess.ID), Hint: "leave the id out to get a new one"}
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
	s.known.Drop(sess.ID)
	if s.o.Created == nil {
		return nil
	}
	return s.o.Created(tx, sess.ID)
}

func (s *Store) room(tx *sql.Tx, account string) error {
	if s.o.PerAccount <= 0 {
		return nil
	}
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM sessions WHERE account = $1 AND deleted = 0`, account).Scan(&n); err != nil {
		return err
	}
	if n >= s.o.PerAccount {
		return &tool.Error{Code: "too_many_sessions", Msg: fmt.Sprintf("account %s has %d sessions, %d at most", account, n, s.o.PerAccount), Hint: "delete some, or reuse one; the limit is sessions.perAccount"}
	}
	return nil
}

func insert(tx *sql.Tx, sess tool.Session) error {
	rest, err := encode(sess)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO sessions (`+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		sess.ID, sess.Account, sess.Dir, sess.Tag, sess.Created.UnixNano(), sess.Updated.UnixNano(), rest)
	return err
}

// Session returns one session of an account. What it points to is shared: whoever
// changes a session does it by Patch.
func (s *Store) Session(ctx context.Context, account, id string) (tool.Session, error) {
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
	return sess, err
}

func notFound(id string) error {
	return &tool.Error{Code: "session_not_found", Msg: fmt.Sprintf("session %q not found", id), Hint: "create it first"}
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

// Patch changes a session in one step: change sees the present state and what it
// leaves is stored. Id, account and times are not its to change.
func (s *Store) Patch(ctx context.Context, account, id string, change func(*tool.Session) error) (tool.Session, error) {
	var sess tool.Session
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		old, err := get(tx, account, id)
		if err != nil {
			return err
		}
		sess = old
		if err := change(&sess); err != nil {
			return err
		}
		sess.ID, sess.Account, sess.Created, sess.Updated = old.ID, old.Account, old.Created, time.Now().UTC()
		rest, err := encode(sess)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE sessions SET dir = $1, tag = $2, updated = $3, data = $4 WHERE id = $5`,
			sess.Dir, sess.Tag, sess.Updated.UnixNano(), rest, sess.ID)
		s.known.Drop(sess.ID)
		return err
	})
	if err != nil {
		return tool.Session{}, err
	}
	return sess, nil
}

// Delete removes a session and all that hangs on it.
func (s *Store) Delete(ctx context.Context, account, id string) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := get(tx, account, id); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE sessions SET deleted = $1, dir = '', tag = '', data = '{}' WHERE id = $2`,
			time.Now().UnixNano(), id)
		s.known.Drop(id)
		if err != nil || s.o.Deleted == nil {
			return err
		}
		return s.o.Deleted(tx, id)
	})
}

func encode(sess tool.Session) (string, error) {
	b, err := json.Marshal(data{
		Home: sess.Home, Mode: sess.Mode, Profile: sess.Profile, Title: sess.Title,
		Metadata: sess.Metadata, Groups: sess.Groups, Tools: sess.Tools, Sandbox: sess.Sandbox,
	})
	if err != nil {
		return "", fmt.Errorf("encode session %q: %w", sess.ID, err)
	}
	return string(b), nil
}

func scan(row interface{ Scan(...any) error }) (tool.Session, error) {
	var sess tool.Session
	var created, updated int64
	var rest string
	if err := row.Scan(&sess.ID, &sess.Account, &sess.Dir, &sess.Tag, &created, &updated, &rest); err != nil {
		return tool.Session{}, err
	}
	var d data
	if err := json.Unmarshal([]byte(rest), &d); err != nil {
		return tool.Session{}, fmt.Errorf("decode session %q: %w", sess.ID, err)
	}
	sess.Created, sess.Updated = time.Unix(0, created).UTC(), time.Unix(0, updated).UTC()
	sess.Home, sess.Mode, sess.Profile, sess.Title = d.Home, d.Mode, d.Profile, d.Title
	sess.Metadata, sess.Groups, sess.Tools, sess.Sandbox = d.Metadata, d.Groups, d.Tools, d.Sandbox
	return sess, nil
}
