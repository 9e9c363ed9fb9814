package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// The table that marks a copy into the database. It exists until the copy has ended.
const mark = "sandboxd_copy"

// whole refuses a database into which a copy has not ended.
func (db *DB) whole(tx *sql.Tx) error {
	from, err := db.Unfinished(tx)
	if err == nil && from != "" {
		err = fmt.Errorf("%w: from %s", ErrUnfinished, from)
	}
	return err
}

// Unfinished returns the source of a copy into this database that has not ended, or "".
func (db *DB) Unfinished(tx *sql.Tx) (from string, err error) {
	query := `SELECT count(*) FROM sqlite_schema WHERE name = '` + mark + `'`
	if db.shared != nil {
		query = `SELECT count(*) FROM pg_class WHERE oid = to_regclass('` + mark + `')`
	}
	var n int
	if err := tx.QueryRow(query).Scan(&n); err != nil || n == 0 {
		return "", err
	}
	err = tx.QueryRow(`SELECT source FROM ` + mark).Scan(&from)
	if errors.Is(err, sql.ErrNoRows) || err == nil && from == "" {
		err = errors.New("cannot happen, the mark of a copy is empty")
	}
	return from, err
}

// BeginCopy marks the database: until [DB.EndCopy] no daemon opens it.
func (db *DB) BeginCopy(tx *sql.Tx, from string) error {
	if _, err := tx.Exec(`CREATE TABLE ` + mark + ` (source TEXT NOT NULL)`); err != nil {
		return err
	}
	_, err := tx.Exec(`INSERT INTO `+mark+` (source) VALUES ($1)`, from)
	return err
}

// EndCopy removes the mark.
func (db *DB) EndCopy(tx *sql.Tx) error {
	_, err := tx.Exec(`DROP TABLE ` + mark)
	return err
}

// UnfinishedFrom is [DB.Unfinished] in a transaction of its own.
func (db *DB) UnfinishedFrom(ctx context.Context) (from string, err error) {
	err = db.Read(ctx, func(tx *sql.Tx) (err error) {
		from, err = db.Unfinished(tx)
		return err
	})
	return from, err
}
