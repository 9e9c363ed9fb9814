package policy

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
)

// Records are the decisions that are kept, for programs beside the daemon too. What was judged
// in the last moments may not be there yet.
type Records struct {
	DB    *store.DB
	Since time.Time // when the calls were judged first; the zero value is all
	Last  int       // the newest of these; 0 is all
}

// errEnough ends a read whose reader has enough.
var errEnough = errors.New("enough")

// All passes on the decisions in the order in which the calls were judged first. It holds up no
// writer. An error is the last element.
func (r Records) All(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		err := r.DB.Read(ctx, func(tx *sql.Tx) error {
			since := int64(0)
			if !r.Since.IsZero() {
				since = r.Since.UnixNano()
			}
			if r.Last > 0 {
				err := tx.QueryRowContext(ctx, `SELECT judged FROM decisions WHERE judged >= $1
					ORDER BY judged DESC LIMIT 1 OFFSET $2`, since, r.Last-1).Scan(&since)
				if err != nil && !errors.Is(err, sql.ErrNoRows) {
					return err
				}
			}
			rows, err := tx.QueryContext(ctx, `SELECT record FROM decisions WHERE judged >= $1
				ORDER BY judged, call_id`, since)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var text []byte
				var rec Record
				if err := rows.Scan(&text); err != nil {
					return err
				}
				if err := json.Unmarshal(text, &rec); err != nil {
					return fmt.Errorf("read a kept decision: %w", err)
				}
				if !yield(rec, nil) {
					return errEnough
				}
			}
			return rows.Err()
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(Record{}, err)
		}
	}
}

// Start is since when no decision that was kept has been dropped.
func (r Records) Start(ctx context.Context) (time.Time, error) {
	var since int64
	err := r.DB.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT since FROM decisions_kept`).Scan(&since)
	})
	return time.UnixMilli(since), err
}

// Records are those of this daemon.
func (d *Decisions) Records() Records { return Records{DB: d.db} }
