package vars

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// head is the row of a session, read at the start of every write and stored at
// its end.
type head struct {
	session     string
	total, kept int
	released    provenance.Authors
	hosts       provenance.Hosts // of released
	rules       string
	in          string // its scope
	since       int64  // so much of what the scope was told does not count

	// Not in the row.
	scope  told // of the scope, which has a row of its own
	stored bool // this write stored a variable
	loose  int  // 1 when one of them may be evicted
}

// headBytes estimates the memory that a head takes.
func headBytes(h head) int { return 200 + len(h.session) + len(h.in) + len(h.rules) + len(h.hosts) }

var errNoSession = errors.New("the session has no variables yet")

const selectHead = `SELECT gone, total, kept, released, hosts, rules, scope, since
	FROM var_sessions WHERE session = $1`

// load reads the head from its row. errNoSession says that begin must be called
// first: the session is new, or has other rules than those declared.
func (s *System) load(row scanner, session string) (head, error) {
	h := head{session: session}
	var gone bool
	err := row.Scan(&gone, &h.total, &h.kept, &h.released, &h.hosts, &h.rules, &h.in, &h.since)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return head{}, errNoSession
	case err != nil:
		return head{}, err
	case gone:
		return head{}, &tool.Error{
			Code: "session_not_found", Msg: fmt.Sprintf("session %q was deleted", session),
			Hint: "create a new one",
		}
	}
	h.in = cmp.Or(h.in, session)
	return h, s.current(h)
}

// current returns errNoSession if the session has other rules than those that are declared now.
func (s *System) current(h head) error {
	if h.rules != s.declared.Load().revision {
		return errNoSession
	}
	return nil
}

// cached is load with a cache before it. The cache may hold a head that is older than the last Declare. row reads from
// the database what the caches lack.
func (s *System) cached(session string, row func(query string, args ...any) scanner) (head, error) {
	h, err := s.heads.Get(session, func() (head, error) { return s.load(row(selectHead, session), session) })
	if err == nil {
		err = s.current(h)
	}
	if err == nil {
		h.scope, err = s.scopeOf(h, row)
	}
	return h, err
}

// write runs fn with the head of a session and stores the head again. The first write of a session creates its row and
// its rules.
func (s *System) write(ctx context.Context, session string, fn func(tx *sql.Tx, h *head) error) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		h, err := s.cached(session, s.row)
		if errors.Is(err, errNoSession) {
			if h, err = s.begin(tx, session); err == nil {
				h.scope, err = s.scopeOf(h, s.row)
			}
		}
		if err != nil {
			return err
		}
		before := h
		if err := fn(tx, &h); err != nil {
			return err
		}
		if err := s.evict(&h); err != nil {
			return err
		}
		if h.scope != before.scope {
			if err := s.storeScope(h); err != nil {
				return err
			}
		}
		if h.scope, before.scope = (told{}), (told{}); h == before {
			return nil
		}
		s.heads.Set(session, h)
		return s.exec(`UPDATE var_sessions SET total = $2, kept = $3, released = $4, since = $5, hosts = $6
			WHERE session = $1`, h.session, h.total, h.kept, h.released, h.since, h.hosts)
	})
}

// begin makes the row of a session and registers the declared rules: for a new
// session, and after other rules were declared.
func (s *System) begin(tx *sql.Tx, session string) (head, error) {
	err := s.exec(`INSERT INTO var_sessions (session) VALUES ($1) ON CONFLICT (session) DO NOTHING`, session)
	if err != nil {
		return head{}, err
	}
	h, err := s.load(s.row(selectHead, session), session)
	if err != nil && !errors.Is(err, errNoSession) {
		return head{}, err
	}
	d := s.declared.Load()
	if h.rules != "" {
		if err := s.dropRules(tx, &h, d.rules); err != nil {
			return head{}, err
		}
	}
	for _, r := range d.rules {
		if err := s.putRule(tx, &h, r); err != nil {
			return head{}, err
		}
	}
	h.rules = d.revision
	s.heads.Set(session, h)
	return h, s.exec(`UPDATE var_sessions SET total = $2, kept = $3, rules = $4 WHERE session = $1`,
		session, h.total, h.kept, h.rules)
}

// head returns the head of a session that has begun, errNoSession of one that has not.
func (s *System) head(ctx context.Context, session string) (head, error) {
	return s.cached(session, func(query string, args ...any) scanner { return apart{s, ctx, query, args} })
}

// apart is a query for one row in a transaction of its own.
type apart struct {
	s     *System
	ctx   context.Context
	query string
	args  []any
}

func (a apart) Scan(dest ...any) error {
	return a.s.db.Read(a.ctx, func(tx *sql.Tx) error { return tx.QueryRow(a.query, a.args...).Scan(dest...) })
}

// read runs fn with the head of a session that has a row. It uses one transaction and no cache, so the head and what fn
// reads are of the same moment.
func (s *System) read(ctx context.Context, session string, fn func(tx *sql.Tx, h head) error) error {
	return s.begun(ctx, session, func() error {
		defer budget.Of(ctx).Compute(ctx)() // values may have megabytes
		return s.db.Read(ctx, func(tx *sql.Tx) error {
			h, err := s.load(tx.QueryRow(selectHead, session), session)
			if err == nil {
				h.scope, err = loadScope(tx.QueryRow(selectScope, h.in))
			}
			if err != nil {
				return err
			}
			return fn(tx, h)
		})
	})
}

// begun runs a read. If the session has no row yet, it creates the row and runs the read again.
func (s *System) begun(ctx context.Context, session string, once func() error) error {
	err := once()
	for range 3 { // other rules may be declared meanwhile
		if !errors.Is(err, errNoSession) {
			return err
		}
		if err = s.write(ctx, session, func(*sql.Tx, *head) error { return nil }); err == nil {
			err = once()
		}
	}
	return err
}

// now returns the time of the current write, in nanoseconds. It never goes back, also when somebody sets the clock
// back: otherwise the newest variable would look like the oldest, and be evicted.
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
	return s.db.Row(query, args...)
}

// exec runs a statement of the write that is going on.
func (s *System) exec(query string, args ...any) error {
	_, err := s.execCount(query, args...)
	return err
}

func (s *System) execCount(query string, args ...any) (int, error) {
	res, err := s.db.Exec(query, args...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// SessionCreated begins a session, also one that was deleted and is created anew, in the
// transaction that creates it.
func (s *System) SessionCreated(tx *sql.Tx, sess tool.Session) error {
	s.heads.Drop(sess.ID)
	_, err := tx.Exec(`DELETE FROM var_sessions WHERE session = $1`, sess.ID)
	if err != nil {
		return err
	}
	scope := s.scopeName(sess)
	in, err := loadScope(tx.QueryRow(selectScope, scope))
	if err != nil {
		return err
	}
	since := int64(0)
	if s.now()-in.at > int64(pause) {
		since = in.times
	}
	_, err = tx.Exec(`INSERT INTO var_sessions (session, scope, since) VALUES ($1, $2, $3)`, sess.ID, scope, since)
	return err
}

// SessionForked copies the authors that the model of a session has seen to the session that was forked from it, in the
// transaction that makes the fork: the new model begins with the same conversation.
func (s *System) SessionForked(tx *sql.Tx, from, to string) error {
	row := func(query string, args ...any) scanner { return tx.QueryRow(query, args...) }
	h, err := s.load(row(selectHead, from), from)
	if errors.Is(err, errNoSession) {
		err = nil // it has other rules now, and was shown what its head says
	}
	if err == nil && h.in != "" {
		h.scope, err = loadScope(row(selectScope, h.in))
	}
	if err != nil {
		return err
	}
	s.heads.Drop(to)
	_, err = tx.Exec(`UPDATE var_sessions SET released = $2, hosts = $3 WHERE session = $1`, to, h.heard(),
		h.hostsHeard())
	return err
}

// SessionDeleted removes everything of a session, in the transaction that deletes
// it. A call that is still under way stores nothing any more. What its scope was told
// stays: others of the account may act on it.
func (s *System) SessionDeleted(tx *sql.Tx, session string) error {
	s.heads.Drop(session)
	s.scopes.Drop(session)
	for _, query := range []string{
		`DELETE FROM vars WHERE session = $1`,
		`DELETE FROM var_pending WHERE session = $1`,
		`DELETE FROM var_untrusted WHERE scope = $1`,
		`DELETE FROM var_scopes WHERE scope = $1`,
		`INSERT INTO var_sessions (session, gone) VALUES ($1, 1)
			ON CONFLICT (session) DO UPDATE SET gone = 1, total = 0, kept = 0, released = 0, hosts = '',
				rules = '', since = 0`,
	} {
		if _, err := tx.Exec(query, session); err != nil {
			return err
		}
	}
	s.content.Forget(session)
	return nil
}

// DropPending deletes results that waited for a person when this daemon ended. It
// is called once, before the first call.
func (s *System) DropPending(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM var_pending WHERE daemon = $1`, s.db.Daemon())
		return err
	})
}
