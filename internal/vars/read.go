package vars

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/sandboxd/sandboxd/internal/store"
)

// Filter chooses variables; its parts combine with and (V-12).
type Filter struct {
	Type   Type
	Tag    string // has this tag
	Search string // in name or description, in any case
	Limit  int    // 0 is no limit
	Offset int
}

// listOrder puts the last visited first. One index has this order for kept variables and another for the rest, so the
// database merges both and stops when the page is full.
const (
	listOrder = `visited DESC, updated DESC, created DESC, name`
	listKey   = `SELECT name, visited, updated, created FROM vars WHERE session = $1 AND keep = `
	listNames = `SELECT name FROM (` + listKey + `0 UNION ALL ` + listKey + `1
		ORDER BY ` + listOrder + ` LIMIT $2 OFFSET $3) AS listed`
	listPage = `SELECT name, length(tags) + length(folded) + 500 FROM vars
		WHERE session = $1 AND name IN (` + listNames + `) ORDER BY ` + listOrder

	filtered = ` AND ($2 = '' OR type = $2) AND ($3 = '' OR replace(tags, $3, '') <> tags)
		AND ($4 = '' OR replace(folded, $4, '') <> folded)`
	foundCount = `SELECT count(*) FROM vars WHERE session = $1` + filtered
	foundKey   = `SELECT name, length(tags) + length(folded) + 500 AS size, visited, updated, created FROM vars
		WHERE session = $1` + filtered + ` AND keep = `
	foundPage = `SELECT name, size FROM (` + foundKey + `0 UNION ALL ` + foundKey + `1
		ORDER BY ` + listOrder + ` LIMIT $5 OFFSET $6) AS found`
	listed = `SELECT ` + fields + ` FROM vars WHERE session = $1 AND name = $2`
)

// List returns a page of variables without their values, the last visited first. It visits
// nothing. A filter looks at each variable of the session.
func (s *System) List(ctx context.Context, session string, f Filter) (store.Page[Var], error) {
	tag, limit := "", f.Limit
	if f.Tag != "" {
		tag = joinTags([]string{f.Tag})
	}
	if limit <= 0 {
		limit = int(^uint(0) >> 1)
	}
	args := []any{session, limit, f.Offset}
	page, all := listPage, true
	if f.Type != "" || tag != "" || f.Search != "" {
		page, all = foundPage, false
		args = []any{session, f.Type, tag, strings.ToLower(f.Search), limit, f.Offset}
	}
	keys := func(tx *sql.Tx) (total int, rows *sql.Rows, err error) {
		h, err := s.load(s.readRow(tx, selectHead, session), session)
		if total = h.total; err == nil && !all {
			err = s.readRow(tx, foundCount, args[:4]...).Scan(&total)
		}
		if err != nil {
			return 0, nil, err
		}
		st, err := s.db.ReadStmt(tx, page)
		if err == nil {
			rows, err = st.Query(args...)
		}
		return total, rows, err
	}
	row := func(tx *sql.Tx, name string) (Var, error) {
		var r record
		err := s.readRow(tx, listed, session, name).Scan(r.targets()...)
		v := r.public()
		v.Value = nil
		return v, err
	}
	var found store.Page[Var]
	err := s.begun(ctx, session, func() (err error) {
		found, err = store.ReadPage(ctx, s.db, keys, row)
		return err
	})
	return found, err
}

// readRow returns a row of a read, by a statement that is prepared once.
func (s *System) readRow(tx *sql.Tx, query string, args ...any) scanner {
	st, err := s.db.ReadStmt(tx, query)
	if err != nil {
		return failed{err}
	}
	return st.QueryRow(args...)
}

// Remove deletes variables. It does not delete rules; failed lists these and the names that do not exist (V-13).
func (s *System) Remove(ctx context.Context, session string, names []string) (removed, failed []string, err error) {
	err = s.write(ctx, session, func(_ *sql.Tx, h *head) error {
		removed, failed = []string{}, []string{}
		for _, name := range names {
			var keep bool
			err := s.row(`DELETE FROM vars WHERE session = $1 AND name = $2 AND type <> $3 RETURNING keep`,
				session, name, TypeRule).Scan(&keep)
			if errors.Is(err, sql.ErrNoRows) {
				failed = append(failed, name)
				continue
			}
			if err != nil {
				return err
			}
			removed = append(removed, name)
			h.total--
			if keep {
				h.kept--
			}
		}
		return nil
	})
	return removed, failed, err
}
