package vars

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// Get reads a variable, which counts as a visit. The answer false is that there
// is none (V-11).
func (s *System) Get(ctx context.Context, session, name string) (Var, bool, error) {
	var r record
	err := s.write(ctx, session, func(_ *sql.Tx, _ *head) (err error) {
		r, err = s.visit(session, name)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Var{}, false, nil
	}
	return r.public(), err == nil, err
}

// visit reads a variable and counts it (V-08).
func (s *System) visit(session, name string) (record, error) {
	row := s.row(`UPDATE vars SET visited = $3, refs = refs + 1 WHERE session = $1 AND name = $2
		RETURNING `+fields+`, value`, session, name, s.now())
	var r record
	err := row.Scan(append(r.targets(), &r.value)...)
	return r, err
}

// Filter chooses variables; its parts combine with and (V-12).
type Filter struct {
	Type   Type
	Tag    string // has this tag
	Search string // in name or description, in any case
	Limit  int    // 0 is no limit
	Offset int
}

// List returns a page of variables without their values, the last visited first,
// and how many match in all. It visits nothing.
func (s *System) List(ctx context.Context, session string, f Filter) (page []Var, total int, err error) {
	const where = `session = $1 AND ($2 = '' OR type = $2) AND ($3 = '' OR instr(tags, $3) > 0) AND ($4 = '' OR instr(folded, $4) > 0)`
	tag := ""
	if f.Tag != "" {
		tag = joinTags([]string{f.Tag})
	}
	args := []any{session, f.Type, tag, strings.ToLower(f.Search)}
	limit := f.Limit
	if limit <= 0 {
		limit = int(^uint(0) >> 1)
	}
	err = s.read(ctx, session, func(tx *sql.Tx, _ head) error {
		if err := tx.QueryRow(`SELECT count(*) FROM vars WHERE `+where, args...).Scan(&total); err != nil {
			return err
		}
		rows, err := tx.Query(`SELECT `+fields+` FROM vars WHERE `+where+`
			ORDER BY visited DESC, updated DESC, created DESC, name LIMIT $5 OFFSET $6`, append(args, limit, f.Offset)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r record
			if err := rows.Scan(r.targets()...); err != nil {
				return err
			}
			v := r.public()
			v.Value = nil
			page = append(page, v)
		}
		return rows.Err()
	})
	return page, total, err
}

// Remove deletes variables. Those that are missing or rules are in failed
// (V-13).
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
