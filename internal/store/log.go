package store

import (
	"context"
	"database/sql"
	"sync"

	"modernc.org/sqlite"
)

// A commit goes to the log of SQLite, and from there to the database, which syncs the disk twice (the checkpoint of
// https://sqlite.org/wal.html). Whoever makes the log long copies it before its next write, while others write:
// else the writer of the last page does that for everybody, and all wait for it.
const (
	manyPages = 2000   // of 4 KiB, of one account
	longPages = 8000   // where the log is to begin again, which it does when it is copied as a whole
	mostPages = 16_000 // where whoever writes copies it all the same
)

// log is who made the log long.
type log struct {
	copying sync.Mutex // held by who copies it

	mu    sync.Mutex
	pages map[string]int // that an account has written since it was copied
}

// wrote counts the pages that the writer has written for an account. Whoever has the turn calls it.
func (l *log) wrote(account string, writer *sql.Conn) {
	pages := 0
	err := writer.Raw(func(c any) (err error) {
		if s, ok := c.(sqlite.DBStatus); ok {
			pages, _, err = s.Status(sqlite.DBStatusCacheWrite, true)
		}
		return err
	})
	if err != nil || pages == 0 {
		return // the writer copies the log at last
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages[account] += pages
}

// long reports whether an account has made the log long.
func (l *log) long(account string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pages[account] >= manyPages
}

// copyLog copies the log to the database if the account of ctx has made it long. An account that writes more than
// the disk takes waits for that here, and nobody else.
func (db *DB) copyLog(ctx context.Context) {
	account := db.turns.accountOf(ctx)
	if db.reader == nil || db.asIs || !db.log.long(account) {
		return
	}
	db.log.copying.Lock()
	defer db.log.copying.Unlock()
	if !db.log.long(account) {
		return // another write of the account, or another account, has done it meanwhile
	}
	// What cannot be copied now is copied later: by the next who makes the log long, or by the writer.
	var busy, pages, copied int
	err := db.reader.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &copied)
	if err == nil && pages >= longPages { // nobody writes while the little is copied that came meanwhile
		if release, err := db.acquire(ctx); err == nil {
			_, _ = db.conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA wal_checkpoint(PASSIVE)")
			release()
		}
	}
	db.log.mu.Lock()
	defer db.log.mu.Unlock()
	db.log.pages = map[string]int{}
}
