package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"modernc.org/sqlite"
)

// A commit goes to the log of SQLite. From there it goes to the database in a checkpoint, which syncs the disk twice
// (https://sqlite.org/wal.html) and takes tens of milliseconds. So a goroutine of its own does that beside the
// writes. An account that writes faster than the disk waits for it; others do not.
const (
	manyPages = 2000   // pages of 4 KiB: so many start a copy; an account may write as many while it runs
	longPages = 8000   // from here on the log is copied as a whole, so that it begins again
	mostPages = 16_000 // at so many the writer itself copies the log
)

// log counts how long the log has become since the last copy.
type log struct {
	work sync.WaitGroup // the goroutine that copies, and those that prepare statements

	mu      sync.Mutex     // guards the fields below
	pages   map[string]int // by account: written since the last copy began
	all     int            // the sum of all accounts
	copying chan struct{}  // closed when the running copy has ended; nil if none runs
	closed  bool
}

// wrote counts the pages that the writer has written for an account. The caller has the turn.
func (l *log) wrote(account string, writer *sql.Conn) {
	pages := 0
	err := writer.Raw(func(c any) (err error) {
		if s, ok := c.(sqlite.DBStatus); ok {
			pages, _, err = s.Status(sqlite.DBStatusCacheWrite, true)
		}
		return err
	})
	if err != nil || pages == 0 {
		return // the writer copies the log when it is longest
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages[account] += pages
	l.all += pages
}

// copyLog starts a copy of the log if the log is long. If the account of ctx has written much since that copy began,
// it waits for the end.
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

// copyNow copies the log to the database. What cannot be copied now, the next copy or the writer copies.
func (db *DB) copyNow() {
	ctx := context.Background()
	var busy, pages, copied int
	err := db.reader.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &copied)
	if err == nil && pages >= longPages { // nobody writes while the short rest is copied
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

// Uncopied returns how many bytes of the log are not in the database yet, 0 if that cannot be known. The copy
// needs as many once more.
func (db *DB) Uncopied(ctx context.Context) int64 {
	if db.reader == nil || db.asIs {
		return 0
	}
	var busy, pages, copied, size int64
	if db.reader.QueryRowContext(ctx, "PRAGMA wal_checkpoint(NOOP)").Scan(&busy, &pages, &copied) != nil ||
		db.reader.QueryRowContext(ctx, "PRAGMA page_size").Scan(&size) != nil {
		return 0
	}
	return max(0, pages-copied) * size
}

// syncLog syncs the log, if a commit does not do that itself. Other writes go on meanwhile. What a checkpoint has
// copied from the log by then is safe as well: it syncs the log before it copies, and the database after it.
func (db *DB) syncLog() error {
	if db.path == "" || db.sync == full {
		return nil
	}
	names := []string{db.path + "-wal"}
	first := !db.entered.Load()
	if first { // the name of the log, which stays as long as the database is open
		names = append(names, filepath.Dir(db.path))
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(db.flush(f), f.Close()); err != nil {
			return err
		}
	}
	if first {
		db.entered.Store(true)
	}
	return nil
}

// beside runs a function in a goroutine, for whose end close waits, unless that was called.
func (l *log) beside(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.work.Go(f)
	}
}

// close waits until the log is copied, and nothing else runs beside the calls.
func (l *log) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
}
