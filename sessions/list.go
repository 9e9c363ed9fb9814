package sessions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/tool"
)

// Filter chooses and orders sessions. Its zero value is all of them, the newest
// first.
type Filter struct {
	Dir, Tag  string // "" is any
	ByUpdated bool   // order by the last change instead of the creation
	Ascending bool
	Limit     int // 0 is no limit
	Offset    int
}

// List returns a page of an account's sessions and how many there are in all.
func (s *Store) List(ctx context.Context, account string, f Filter) (page []tool.Session, total int, err error) {
	where := `account = $1 AND deleted = 0 AND ($2 = '' OR dir = $2) AND ($3 = '' OR tag = $3)`
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
	err = s.db.Read(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRow(`SELECT count(*) FROM sessions WHERE `+where, account, f.Dir, f.Tag).Scan(&total)
		if err != nil {
			return err
		}
		rows, err := tx.Query(`SELECT `+columns+` FROM sessions WHERE `+where+` ORDER BY `+order+` LIMIT $4 OFFSET $5`,
			account, f.Dir, f.Tag, limit, f.Offset)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			sess, err := scan(rows)
			if err != nil {
				return err
			}
			page = append(page, sess)
		}
		return rows.Err()
	})
	return page, total, err
}

// Ensure returns the account's latest session with this directory and tag, and
// creates it from want if there is none. Two callers at once get the same one.
func (s *Store) Ensure(ctx context.Context, want tool.Session) (sess tool.Session, created bool, err error) {
	fresh, err := prepare(want)
	if err != nil {
		return tool.Session{}, false, err
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		row := tx.QueryRow(`SELECT `+columns+` FROM sessions
			WHERE account = $1 AND deleted = 0 AND dir = $2 AND tag = $3 ORDER BY created DESC, id DESC LIMIT 1`,
			want.Account, want.Dir, want.Tag)
		sess, err = scan(row)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		sess, created = fresh, true
		return s.create(tx, fresh)
	})
	if err != nil {
		return tool.Session{}, false, fmt.Errorf("session of %q: %w", want.Dir, err)
	}
	return sess, created, nil
}
