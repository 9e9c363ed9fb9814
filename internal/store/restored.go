package store

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
)

// ErrRestored is of a database that is another one, or is as it was before, since this daemon has used
// it. Numbers of rows are given again then, so that what the daemon remembers of them is wrong.
var ErrRestored error = cause{
	nil, "store_restored",
	"the database is not the one that this daemon has used: it was removed, replaced or restored from a backup",
	"restart the daemon: it goes on with what the database has now",
}

// life distinguishes a database from another one that is put in its place.
type life struct {
	mu     sync.Mutex // guards the fields below
	id     string     // of the server, the database and our first table; "" before there is one
	newest uint64     // number of the last transaction that is known to be committed
	over   bool       // the database was replaced; that never becomes false again
}

// check looks at the database of a new connection.
func (l *life) check(ctx context.Context, c *pgx.Conn) error {
	l.mu.Lock()
	newest := l.newest // taken before the query, because others commit meanwhile
	l.mu.Unlock()
	var id, next string
	err := c.QueryRow(ctx, `SELECT (SELECT system_identifier FROM pg_control_system()) || ' ' || oid || ' ' ||
		to_regclass('sandboxd_migrations')::oid, pg_snapshot_xmax(pg_current_snapshot())::text
		FROM pg_database WHERE datname = current_database()
			AND to_regclass('sandboxd_migrations') IS NOT NULL`).Scan(&id, &next)
	if errors.Is(err, pgx.ErrNoRows) { // the database has no tables
		id, next, err = "", "0", nil
	}
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(next, 10, 64)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over, newest > 0 && (id != l.id && l.id != "" || number <= newest):
		l.over = true
		return ErrRestored
	case newest > 0 && l.id == "":
		l.id = id
	}
	return nil
}

// ended reports whether the database was replaced.
func (l *life) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// committed notes the number of a transaction that was committed.
func (l *life) committed(transaction string) {
	number, err := strconv.ParseUint(transaction, 10, 64)
	if err != nil {
		return // cannot happen: the database numbers them
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest = max(l.newest, number)
}
