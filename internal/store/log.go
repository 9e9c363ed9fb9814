package store

import (
	"context"
	"database/sql"
	"sync"

	"modernc.org/sqlite"
)

// A commit goes to the log of SQLite, and from there to the database, which syncs the disk twice (the checkpoint of
// https://sqlite.org/wal.html). That takes tens of milliseconds, so no write does it: it goes on beside them. An
// account that writes more than the disk takes waits for it, and nobody else.
const (
	manyPages = 2000   // of 4 KiB, after which the log is copied, and which an account may write meanwhile
	longPages = 8000   // where the log is to begin again, which it does when it is copied as a whole
	mostPages = 16_000 // where whoever writes copies it all the same
)

// log is how long the log has become since it was last copied.
type log struct {
	work sync.WaitGroup // who copies it

	mu      sync.Mutex     // guards what follows
	pages   map[string]int // that an account has written since the last copy began
	all     int            // of all accounts
	copying chan struct{}  // closed when the copy that goes on has ended; nil: none does
	closed  bool
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
	l.all += pages
}

// copyLog has the log copied if it is long. If the account of ctx has written much since that began, it waits for the
// end.
func (db *DB) copyLog(ctx context.Context) {
	if db.reader == nil || db.asIs {
		return
	}
	account, l := db.turns.accountOf(ctx), &db.log
	l.mu.Lock()
	if l.all >= manyPages && l.copying == nil && !l.closed {
		l.copying, l.pages, l.all = make(chan struct{}), map[string]int{}, 0
		l.work.Go(db.copyNow)
	}
	copying := l.copying
	if l.pages[account] < manyPages {
		copying = nil
	}
	l.mu.Unlock()
	if copying == nil {
		return
	}
	select {
	case <-copying:
	case <-ctx.Done():
	}
}

// copyNow copies the log to the database. What cannot be copied now is copied later: with the next, or by the writer.
func (db *DB) copyNow() {
	ctx := context.Background()
	var busy, pages, copied int
	err := db.reader.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &copied)
	if err == nil && pages >= longPages { // nobody writes while the little is copied that came meanwhile
		if release, err := db.acquire(ctx); err == nil {
			_, _ = db.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
			release()
		}
	}
	db.log.mu.Lock()
	defer db.log.mu.Unlock()
	close(db.log.copying)
	db.log.copying = nil
}

// close waits for who copies the log.
func (l *log) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
}
