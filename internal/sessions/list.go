package sessions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Filter chooses and orders sessions. Its zero value is all of them, the newest
// first.
type Filter struct {
	Everyone  bool   // of all accounts, for operators
	Dir, Tag  string // "" is any
	ByUpdated bool   // order by the last change instead of the creation
	Ascending bool
	Limit     int // 0 is no limit
	Offset    int
}

// List returns a page of an account's sessions, or of everyone's.
func (s *Store) List(ctx context.Context, account string, f Filter) (store.Page[tool.Session], error) {
	where, args := `account = $1 AND deleted = 0`, []any{account}
	if f.Everyone {
		where = strings.Replace(where, "account = $1", "$1 <> ''", 1)
	}
	for _, c := range []struct{ column, is string }{{"dir", f.Dir}, {"tag", f.Tag}} {
		if c.is != "" { // without needless conditions the index alone answers
			args = append(args, c.is)
			where += fmt.Sprintf(" AND %s = $%d", c.column, len(args))
		}
	}
	order := "created DESC, id DESC"
	if f.ByUpdated {
		order = "updated DESC, id DESC"
	}
	if f.Ascending {
		order = strings.ReplaceAll(order, "DESC", "ASC")
	}
	limit := int64(f.Limit)
	if limit <= 0 {
		limit = 1 << 62
	}
	keys := func(tx *sql.Tx) (total int, rows *sql.Rows, err error) {
		err = tx.QueryRow(`SELECT count(*) FROM sessions WHERE `+where, args...).Scan(&total)
		if err == nil {
			rows, err = tx.Query(fmt.Sprintf(`SELECT id, length(data) + length(dir) + length(tag) + 1000 FROM sessions
				WHERE %s ORDER BY %s LIMIT %d OFFSET %d`, where, order, limit, f.Offset), args...)
		}
		return total, rows, err
	}
	row := func(tx *sql.Tx, id string) (tool.Session, error) {
		owner := account
		if f.Everyone {
			if err := tx.QueryRow(`SELECT account FROM sessions WHERE id = $1`, id).Scan(&owner); err != nil {
				return tool.Session{}, err
			}
		}
		return climb(id, func(id string) (tool.Session, error) { return get(tx, owner, id) })
	}
	return store.ReadPage(ctx, s.db, keys, row)
}

// Ensure returns the account's latest session that began in this directory, with this
// tag, and creates it from want if there is none. Two callers at once get the same one.
func (s *Store) Ensure(ctx context.Context, want tool.Session) (sess tool.Session, created bool, err error) {
	fresh, err := s.prepare(want)
	if err != nil {
		return tool.Session{}, false, err
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		row := tx.QueryRow(`SELECT `+columns+` FROM sessions
			WHERE account = $1 AND deleted = 0 AND begun = $2 AND tag = $3 AND parent = ''
			ORDER BY created DESC, id DESC LIMIT 1`,
			want.Account, want.Dir, want.Tag)
		sess, err = scan(row)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		sess, created = fresh, true
		_, err = s.create(tx, fresh)
		return err
	})
	if err != nil {
		return tool.Session{}, false, fmt.Errorf("session of %q: %w", want.Dir, err)
	}
	return sess, created, s.here(ctx, sess)
}

// Kept calls each for every session of all accounts, with the bytes that it takes itself.
func (s *Store) Kept(ctx context.Context, each func(id, account string, bytes int64)) error {
	var said map[string]int64
	if s.o.Transcripts != nil {
		var err error
		if said, err = s.o.Transcripts.Sizes(ctx); err != nil {
			return err
		}
	}
	return s.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id, account, length(data) FROM sessions WHERE deleted = 0`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, account string
			var n int64
			if err := rows.Scan(&id, &account, &n); err != nil {
				return err
			}
			each(id, account, n+said[id])
		}
		return rows.Err()
	})
}
