package store

import (
	"context"
	"database/sql"
	"errors"
	"iter"
)

// partBytes bounds how much of a page is in memory at once. A single row may be larger.
const partBytes = 256 << 10

// Key names a row of a page, and says how large the row is.
type Key struct {
	ID    string
	Bytes int64
}

// Page is a part of a list. Its rows are read while they are passed on, few at a time, so
// that a page takes little memory however large its rows are, and holds up nobody however
// slow its reader is. A row that was deleted since the page was made is left out.
type Page[T any] struct {
	Total int // rows of the whole list
	Keys  []Key
	load  func(*sql.Tx, string) (T, error)
	db    *DB
}

// ReadPage makes a page. keys returns the number of all rows, and the keys of those on the page. row reads one row;
// if it returns [sql.ErrNoRows], the row has gone.
func ReadPage[T any](
	ctx context.Context, db *DB, keys func(*sql.Tx) (total int, wanted *sql.Rows, err error),
	row func(*sql.Tx, string) (T, error),
) (Page[T], error) {
	p := Page[T]{db: db, load: row}
	err := db.Read(ctx, func(tx *sql.Tx) error {
		total, rows, err := keys(tx)
		if err != nil {
			return err
		}
		defer rows.Close()
		for p.Total = total; rows.Next(); {
			var k Key
			if err := rows.Scan(&k.ID, &k.Bytes); err != nil {
				return err
			}
			p.Keys = append(p.Keys, k)
		}
		return rows.Err()
	})
	return p, err
}

// Bytes returns the most memory that the page takes at once.
func (p Page[T]) Bytes() int64 {
	var most int64
	for part := range p.parts() {
		var n int64
		for _, k := range part {
			n += k.Bytes
		}
		most = max(most, n)
	}
	return most
}

// parts divides the keys so that the rows of each part fit into the memory.
func (p Page[T]) parts() iter.Seq[[]Key] {
	return func(yield func([]Key) bool) {
		start, n := 0, int64(0)
		for i, k := range p.Keys {
			if n += k.Bytes; n > partBytes && i > start {
				if !yield(p.Keys[start:i]) {
					return
				}
				start, n = i, k.Bytes
			}
		}
		if start < len(p.Keys) {
			yield(p.Keys[start:])
		}
	}
}

// Rows yields the rows in their order. After an error it ends.
func (p Page[T]) Rows(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for part := range p.parts() {
			rows, err := p.read(ctx, part)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

func (p Page[T]) read(ctx context.Context, part []Key) (rows []T, err error) {
	err = p.db.Read(ctx, func(tx *sql.Tx) error {
		for _, k := range part {
			switch row, err := p.load(tx, k.ID); {
			case errors.Is(err, sql.ErrNoRows):
			case err != nil:
				return err
			default:
				rows = append(rows, row)
			}
		}
		return nil
	})
	return rows, err
}
