package vars

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/tool"
)

// head is the row of a session, read at the start of every write and stored at
// its end.
type head struct {
	session     string
	total, kept int
	released    authors
	rules       string
	outside     int64 // last id of the texts from outside
	outsideSize int   // bytes of them

	stored bool // this write stored a variable; not in the row
	loose  int  // 1 when one of them may be evicted; not in the row
}

var errNoSession = errors.New("the session has no variables yet")

const selectHead = `SELECT gone, total, kept, released, rules, outside, outside_size FROM var_sessions WHERE session = $1`

// load reads the head from its row. errNoSession says that begin must be called
// first.
func (s *System) load(row scanner, session string) (head, error) {
	h := head{session: session}
	var gone bool
	err := row.Scan(&gone, &h.total, &h.kept, &h.released, &h.rules, &h.outside, &h.outsideSize)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return head{}, errNoSession
	case err != nil:
		return head{}, err
	case gone:
		return head{}, &tool.Error{Code: "session_not_found", Msg: fmt.Sprintf("session %q was deleted", session), Hint: "create a new one"}
	case h.rules != s.revision:
		return h, errNoSession
	}
	return h, nil
}

// write runs fn with the head of a session and stores what fn made of it. A
// session begins with its first write: then its rules are there.
func (s *System) write(ctx context.Context, session string, fn func(tx *sql.Tx, h *head) error) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		h, err := s.heads.Get(session, func() (head, error) { return s.load(s.row(selectHead, session), session) })
		if errors.Is(err, errNoSession) {
			h, err = s.begin(tx, session)
		}
		if err != nil {
			return err
		}
		before := h
		if err := fn(tx, &h); err != nil {
			return err
		}
		if err := s.evict(&h); err != nil || h == before {
			return err
		}
		s.heads.Set(session, h)
		return s.exec(`UPDATE var_sessions SET total = $2, kept = $3, released = $4, outside = $5, outside_size = $6 WHERE session = $1`,
			h.session, h.total, h.kept, h.released, h.outside, h.outsideSize)
	})
}

// begin makes the row of a session and registers the rules of all sessions: for
// a new session, and after the program came with other rules.
func (s *System) begin(tx *sql.Tx, session string) (head, error) {
	err := s.exec(`INSERT INTO var_sessions (session) VALUES ($1) ON CONFLICT (session) DO NOTHING`, session)
	if err != nil {
		return head{}, err
	}
	h, err := s.load(s.row(selectHead, session), session)
	if err != nil && !errors.Is(err, errNoSession) {
		return head{}, err
	}
	for _, r := range s.rules {
		if err := s.putRule(tx, &h, r); err != nil {
			return head{}, err
		}
	}
	h.rules = s.revision
	s.heads.Set(session, h)
	return h, s.exec(`UPDATE var_sessions SET total = $2, kept = $3, rules = $4 WHERE session = $1`, session, h.total, h.kept, h.rules)
}

// head is the head of a session that has begun, errNoSession of one that has not.
func (s *System) head(ctx context.Context, session string) (head, error) {
	return s.heads.Get(session, func() (h head, err error) {
		err = s.db.Read(ctx, func(tx *sql.Tx) error {
			h, err = s.load(tx.QueryRow(selectHead, session), session)
			return err
		})
		return h, err
	})
}

// read runs fn with the head of a session that has begun.
func (s *System) read(ctx context.Context, session string, fn func(tx *sql.Tx, h head) error) error {
	once := func(tx *sql.Tx) error {
		h, err := s.load(tx.QueryRow(selectHead, session), session)
		if err != nil {
			return err
		}
		return fn(tx, h)
	}
	err := s.db.Read(ctx, once)
	if !errors.Is(err, errNoSession) {
		return err
	}
	if err := s.write(ctx, session, func(*sql.Tx, *head) error { return nil }); err != nil {
		return err
	}
	return s.db.Read(ctx, once)
}

// now is the time of the write that is going on, in nanoseconds. It does not go
// back when the clock is set back: what is stored then is not the oldest.
func (s *System) now() int64 {
	switch clock := s.o.Now().UnixNano(); {
	case clock > s.latest:
		s.latest = clock
	case clock < s.latest:
		s.latest++
	}
	return s.latest
}

type scanner interface{ Scan(...any) error }

type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

// row runs a query for one row in the write that is going on.
func (s *System) row(query string, args ...any) scanner {
	st, err := s.db.Stmt(query)
	if err != nil {
		return failed{err}
	}
	return st.QueryRow(args...)
}

// exec runs a statement of the write that is going on.
func (s *System) exec(query string, args ...any) error {
	_, err := s.execCount(query, args...)
	return err
}

func (s *System) execCount(query string, args ...any) (int, error) {
	st, err := s.db.Stmt(query)
	if err != nil {
		return 0, err
	}
	res, err := st.Exec(args...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// SessionCreated lets a session that was deleted and is created anew begin, in
// the transaction that creates it.
func (s *System) SessionCreated(tx *sql.Tx, session string) error {
	s.heads.Drop(session)
	_, err := tx.Exec(`DELETE FROM var_sessions WHERE session = $1`, session)
	return err
}

// SessionDeleted removes everything of a session, in the transaction that deletes
// it. A call that is still under way stores nothing any more.
func (s *System) SessionDeleted(tx *sql.Tx, session string) error {
	s.heads.Drop(session)
	for _, query := range []string{
		`DELETE FROM vars WHERE session = $1`,
		`DELETE FROM var_pending WHERE session = $1`,
		`DELETE FROM var_untrusted WHERE session = $1`,
		`INSERT INTO var_sessions (session, gone) VALUES ($1, 1)
			ON CONFLICT (session) DO UPDATE SET gone = 1, total = 0, kept = 0, released = 0, rules = '', outside = 0, outside_size = 0`,
	} {
		if _, err := tx.Exec(query, session); err != nil {
			return err
		}
	}
	s.content.forget(session)
	return nil
}

// DropPending deletes results that waited for a person when the daemon ended. It
// is called once, before the first call.
func (s *System) DropPending(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM var_pending`)
		return err
	})
}

// Released says whose text the model of a session was shown.
func (s *System) Released(ctx context.Context, session string) ([]tool.Origin, error) {
	var list []tool.Origin
	err := s.read(ctx, session, func(_ *sql.Tx, h head) error {
		list = h.released.list()
		return nil
	})
	return list, err
}

// ResetOrigins forgets whose text the model was shown. Only a person may decide
// that: it lifts the questions that follow from it.
func (s *System) ResetOrigins(ctx context.Context, session string) error {
	return s.write(ctx, session, func(_ *sql.Tx, h *head) error {
		h.released = 0
		return nil
	})
}
