package scopes

import (
	"context"
	"database/sql"
	"embed"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

//go:embed migrations/*.sql migrations/postgres/*.sql
var migrations embed.FS

// Store stores the scoped variables of all accounts, with their hosts. It is safe for concurrent use.
type Store struct {
	db   *store.DB
	last atomic.Int64 // time of the last id, in nanoseconds
	used func(session string)
}

// New returns the variables in db, which was opened with the schema of [Definition]; there is
// one Store to a database.
func New(db *store.DB) *Store { return &Store{db: db, used: func(string) {}} }

var idText = base32.HexEncoding.WithPadding(base32.NoPadding)

// newID returns an id that sorts after all earlier ones, so that rows of one millisecond keep their order. Ids are
// no secrets, because each look-up names the account too.
func (s *Store) newID(prefix string) string {
	for {
		last := s.last.Load()
		next := max(last+1, time.Now().UnixNano())
		if s.last.CompareAndSwap(last, next) {
			return prefix + strings.ToLower(idText.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(next))))
		}
	}
}

// view is one transaction of one account.
type view struct {
	store.Tx
	s       *Store
	account string
	absent  string          // error code for a host that the account does not have
	now     int64           // Unix milliseconds; 0 in a read
	found   map[string]bool // ids of sessions; nil records none
}

// The error codes for a missing host: of variables, and of everything else.
const (
	noHost  = "variable_host_not_found"
	noThing = "not_found"
)

// read runs f in a transaction that sees one state of the database.
func (s *Store) read(ctx context.Context, account, absent string, f func(view) error) error {
	return s.db.Read(ctx, func(tx *sql.Tx) error {
		return f(view{Tx: s.db.Reading(tx), s: s, account: account, absent: absent})
	})
}

// write runs f in a write transaction. The sessions that f finds count as used, so that sessions.keepDays does not
// delete them.
func (s *Store) write(ctx context.Context, account, absent string, f func(view) error) error {
	found := map[string]bool{}
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		return f(view{
			Tx: s.db.Writing(tx), s: s, account: account, absent: absent, now: time.Now().UnixMilli(), found: found,
		})
	})
	if err == nil {
		for session := range found {
			s.used(session)
		}
	}
	return err
}

// markUsed notes that the write uses a session.
func (v view) markUsed(session string) {
	if v.found != nil {
		v.found[session] = true
	}
}

// hasRow reports whether a query returns a row.
func (v view) hasRow(query string, args ...any) (bool, error) {
	var one int
	err := v.Row(query, args...).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// session returns an error unless the account has a session with the branch main.
func (v view) session(id string) error {
	return v.branchOf("session", id, mainBranch)
}

// branch returns an error unless a branch is registered in a session of the account (S-05).
func (v view) branch(session, branch string) error {
	if err := v.session(session); err != nil || branch == mainBranch {
		return err
	}
	return v.branchOf("branch", session, branch)
}

func (v view) branchOf(what, session, branch string) error {
	found, err := v.hasRow(`SELECT 1 FROM scope_branches WHERE session = $1 AND branch = $2 AND account = $3`,
		session, branch, v.account)
	if err == nil && !found {
		if what == "session" {
			branch = session
		}
		err = missing(v.absent, what, branch)
	}
	if err == nil {
		v.markUsed(session)
	}
	return err
}

// host returns an error unless the host exists. locked reports whether its variables may not be written (S-25).
func (v view) host(t target) (locked bool, err error) {
	if strings.ContainsRune(t.host, 0) { // not every database accepts a NUL in a text
		return false, missing(v.absent, string(t.scope), t.host)
	}
	switch t.scope {
	case Chat:
		return false, v.session(t.host)
	case Branch:
		return false, v.branch(t.host, t.branch)
	case Floor:
		f, err := v.floor(t.host)
		return f.locked(), err
	case Page:
		f, err := v.floorOfPage(t.host)
		return f.locked(), err
	}
	return false, nil
}

func lockedError(t target) error {
	return conflict("variable_target_locked", string(t.scope)+" "+clip(t.host)+
		" is locked: its floor is generating, committed or superseded",
		"write while the floor is draft or failed, or to a branch, chat or global variable")
}

// registerBranch registers a branch, unless it is registered (S-06).
func (v view) registerBranch(session, branch, source string) error {
	return v.Run(`INSERT INTO scope_branches (session, branch, account, source_floor, created)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (session, branch) DO NOTHING`, session, branch, v.account, source,
		v.now)
}

// sessionCreated registers the branch main.
func (s *Store) sessionCreated(tx *sql.Tx, sess tool.Session) error {
	v := view{Tx: s.db.Writing(tx), s: s, account: sess.Account, now: sess.Created.UnixMilli()}
	return v.registerBranch(sess.ID, mainBranch, "")
}
