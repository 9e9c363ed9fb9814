package vars

import (
	"context"
	"database/sql"
)

// Kept returns how many bytes the variables of each session have.
func (s *System) Kept(ctx context.Context) (map[string]int64, error) {
	kept := map[string]int64{}
	err := s.db.Read(ctx, func(tx *sql.Tx) error {
		// The length of a blob is in the head of its row, so no value is read.
		for _, query := range []string{
			`SELECT session, ` + sizeOf + ` + length(descr) + length(folded) FROM vars`,
			`SELECT session, length(value) + length(descr) FROM var_pending`,
		} {
			if err := addUp(ctx, tx, query, kept); err != nil {
				return err
			}
		}
		return nil
	})
	return kept, err
}

func addUp(ctx context.Context, tx *sql.Tx, query string, kept map[string]int64) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var session string
		var n int64
		if err := rows.Scan(&session, &n); err != nil {
			return err
		}
		kept[session] += n
	}
	return rows.Err()
}
