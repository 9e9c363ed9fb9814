package sessions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// own reports whether a part keeps what it has in the daemon's own database.
func (s *Store) own(p part.Part) bool { return p.Own && s.db.Shared() }

// locally runs fn for the parts that have tables in the daemon's own database, in one transaction.
func (s *Store) locally(ctx context.Context, fn func(*sql.Tx, part.Part) error) error {
	if !s.db.Shared() {
		return nil
	}
	return s.o.Local.Write(ctx, func(tx *sql.Tx) error {
		for _, p := range s.attached() {
			if !p.Own {
				continue
			}
			if err := fn(tx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// here notes that this daemon may store something for the session. It first deletes what the daemon stored for an
// earlier session of the same id, which another daemon has deleted.
func (s *Store) here(ctx context.Context, sess tool.Session) error {
	if !s.db.Shared() {
		return nil
	}
	made := sess.Created.UnixNano()
	s.mu.Lock()
	known := s.made[sess.ID]
	s.mu.Unlock()
	if known == made {
		return nil
	}
	old := tool.Session{ID: sess.ID}
	err := s.o.Local.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT account, created FROM sessions_here WHERE id = $1`, sess.ID).
			Scan(&old.Account, &known)
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err == nil && known != made {
		if err := s.forget(ctx, old); err != nil {
			return fmt.Errorf("forget the session %q of before: %w", sess.ID, err)
		}
	}
	err = s.o.Local.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO sessions_here (id, account, created) VALUES ($1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET account = $2, created = $3`, sess.ID, sess.Account, made)
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[sess.ID] = made
	return nil
}

// forget ends the calls and deletes the data that this daemon has of a session that another daemon deleted.
func (s *Store) forget(ctx context.Context, old tool.Session) error {
	err := s.locally(ctx, func(tx *sql.Tx, p part.Part) error {
		if p.Deleted == nil {
			return nil
		}
		return p.Deleted(tx, old.ID)
	})
	for _, p := range s.attached() {
		if p.Own && p.Forget != nil {
			err = errors.Join(err, p.Forget(ctx, old))
		}
	}
	return errors.Join(err, s.notHere(ctx, old.ID))
}

func (s *Store) notHere(ctx context.Context, id string) error {
	if !s.db.Shared() {
		return nil
	}
	s.mu.Lock()
	delete(s.made, id)
	s.mu.Unlock()
	return s.o.Local.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM sessions_here WHERE id = $1`, id)
		return err
	})
}

// overlap is how far behind the last look the next one begins.
const overlap = time.Minute

// Follow ends what this daemon has of sessions that other daemons delete, and stores which sessions
// are used, until ctx ends. Where nobody shares the database there is nothing to follow.
func (s *Store) Follow(ctx context.Context, failed func(error)) error {
	flushed := time.Now()
	if !s.db.Shared() {
		return nil
	}
	for range s.db.Changes(ctx, "") { // daemons do not announce deletions: look every two seconds
		err := s.look(ctx)
		if time.Since(flushed) > overlap { // others delete what nobody seems to use
			err, flushed = errors.Join(err, s.Flush(ctx)), time.Now()
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
	return nil
}

// look finds the sessions of here that are deleted, or made anew.
func (s *Store) look(ctx context.Context) error {
	now := s.db.Now()
	s.mu.Lock()
	since := s.seen
	s.mu.Unlock()
	mine, err := s.allHere(ctx)
	if err != nil || len(mine) == 0 {
		return err
	}
	made, err := s.changed(ctx, since)
	if err != nil {
		return err
	}
	for _, old := range mine {
		created, found := made[old.ID]
		if !found && !since.IsZero() || created == old.Created.UnixNano() {
			continue // not touched
		}
		err = errors.Join(err, s.forget(ctx, old))
	}
	if err == nil {
		s.mu.Lock()
		s.seen = now.Add(-overlap)
		s.mu.Unlock()
	}
	return err
}

func (s *Store) allHere(ctx context.Context) (all []tool.Session, err error) {
	err = s.o.Local.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id, account, created FROM sessions_here`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var one tool.Session
			var made int64
			if err := rows.Scan(&one.ID, &one.Account, &made); err != nil {
				return err
			}
			one.Created = time.Unix(0, made)
			all = append(all, one)
		}
		return rows.Err()
	})
	return all, err
}

// changed returns the sessions that were made or deleted since then, with the creation time of each; 0 if it is
// deleted.
func (s *Store) changed(ctx context.Context, since time.Time) (map[string]int64, error) {
	at := int64(0)
	if !since.IsZero() {
		at = since.UnixNano()
	}
	made := map[string]int64{}
	err := s.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id, CASE WHEN deleted = 0 THEN created ELSE 0 END FROM sessions
			WHERE deleted >= $1 OR created >= $1`, at)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			var n int64
			if err := rows.Scan(&id, &n); err != nil {
				return err
			}
			made[id] = n
		}
		return rows.Err()
	})
	return made, err
}

// Runs finds sessions for calls: those of another daemon only where their files are the same.
type Runs struct{ *Store }

// Session is that of the Store. The error of one whose files lie elsewhere is session_elsewhere.
func (r Runs) Session(ctx context.Context, account, id string) (tool.Session, error) {
	sess, err := r.Store.Session(ctx, account, id)
	if err != nil || sess.Daemon == r.db.Daemon() {
		return sess, err
	}
	_, dir, _ := strings.Cut(sess.Place, " ")
	if sess.Place != "" && placeOf(dir) == sess.Place {
		return sess, nil
	}
	return sess, &tool.Error{
		Code: "session_elsewhere",
		Msg: fmt.Sprintf("session %q was made at daemon %q, and its directory is not known to be the same here", id,
			sess.Daemon),
		Hint: "call it at the daemon that made it, or make a session here",
	}
}

// placeOf identifies a directory among all machines: by the boot id of the kernel and by its device and inode. It is ""
// if the kernel does not tell them.
func placeOf(dir string) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d %s", strings.TrimSpace(string(boot)), st.Dev, st.Ino, dir)
}
