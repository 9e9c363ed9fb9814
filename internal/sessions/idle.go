package sessions

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Used notes that a call of the session ended now. [Store.Idle] and [Store.Flush] store it.
func (s *Store) Used(id string) {
	if id == "" { // of a call that found no session
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[id] = s.db.Now()
}

// Flush stores which sessions were used.
func (s *Store) Flush(ctx context.Context) error {
	s.mu.Lock()
	used := s.used
	s.used = map[string]time.Time{}
	s.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		for id, at := range used {
			if _, err := tx.Exec(`UPDATE sessions SET used = $1 WHERE id = $2`, at.UnixNano(), id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil { // the next time, unless they were used since
		s.mu.Lock()
		defer s.mu.Unlock()
		for id, at := range used {
			if s.used[id].Before(at) {
				s.used[id] = at
			}
		}
	}
	return err
}

// Idle returns the sessions of all accounts that nobody has used or changed since then, the oldest first.
func (s *Store) Idle(ctx context.Context, since time.Time) ([]tool.Session, error) {
	if err := s.Flush(ctx); err != nil {
		return nil, err
	}
	var all []tool.Session
	err := s.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT `+columns+` FROM sessions
			WHERE deleted = 0 AND updated < $1 AND used < $1 ORDER BY created, id`, since.UnixNano())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			sess, err := scan(rows)
			if err != nil {
				return err
			}
			all = append(all, sess)
		}
		return rows.Err()
	})
	return all, err
}

// DeleteIdle deletes a session of [Store.Idle]. It returns false if somebody used or changed the session meanwhile.
// Calls that a client left open in the session do not keep it.
func (s *Store) DeleteIdle(ctx context.Context, account, id string, since time.Time) (bool, error) {
	err := s.remove(ctx, account, id, func(tx *sql.Tx, all []string) error {
		for _, id := range all { // whoever uses one below it uses it
			if err := s.abandon(tx, id, since); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errUsed) {
		return false, nil
	}
	return err == nil, err
}

// abandon ends what a client left open in a session that nobody used since then.
func (s *Store) abandon(tx *sql.Tx, id string, since time.Time) error {
	s.mu.Lock()
	used := s.used[id]
	s.mu.Unlock()
	var last int64
	err := tx.QueryRow(`SELECT CASE WHEN updated > used THEN updated ELSE used END FROM sessions WHERE id = $1`,
		id).Scan(&last)
	if err != nil {
		return err
	}
	if last >= since.UnixNano() || !used.Before(since) {
		return errUsed
	}
	for _, p := range s.attached() {
		if p.Abandoned == nil {
			continue
		}
		if err := p.Abandoned(tx, id); err != nil {
			return err
		}
	}
	return nil
}

var errUsed = errors.New("the session is used again")
