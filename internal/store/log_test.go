package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
)

type accountKey struct{}

// openByAccount opens a database that knows who writes. write writes so many pages for an account.
func openByAccount(t *testing.T) (db *DB, write func(account string, pages int)) {
	t.Helper()
	db, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "x.db")})
	if err != nil {
		t.Fatal(err)
	}
	db.ShareBy(func(ctx context.Context) string { account, _ := ctx.Value(accountKey{}).(string); return account })
	return db, func(account string, pages int) {
		t.Helper()
		err := db.Write(context.WithValue(context.Background(), accountKey{}, account), func(tx *sql.Tx) error {
			_, err := tx.Exec(`CREATE TABLE IF NOT EXISTS t (x)`)
			if err == nil {
				_, err = tx.Exec(`INSERT INTO t VALUES (zeroblob(?))`, pages*4096)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A long log is copied beside the writes, from the next one on. Only a very long one is copied by a writer.
func TestALongLogIsCopied(t *testing.T) {
	db, write := openByAccount(t)
	defer db.Close()
	for i, tt := range []struct {
		account string
		pages   int
		short   bool // the log begins again, as all of it was copied
		copied  int  // at least; 0 is none
		why     string
	}{
		{"a", manyPages - 100, false, 0, "it is not long"},
		{"b", 200, false, 0, "the writer copies nothing"},
		{"c", 1, false, manyPages, "the next write has it copied"},
		{"a", 1, true, 0, "and it begins again"},
		{"b", mostPages, false, mostPages, "a very long log is copied by its writer"},
	} {
		write(tt.account, tt.pages)
		db.log.work.Wait()
		var busy, written, copied int
		row := db.reader.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(NOOP)")
		if err := row.Scan(&busy, &written, &copied); err != nil {
			t.Fatal(err)
		}
		if (written < 100) != tt.short || copied < tt.copied || copied > 0 && tt.copied == 0 {
			t.Errorf("write %d: of %d pages %d are copied: %s", i, written, copied, tt.why)
		}
	}
}

// While the log is copied an account that has written much waits, and others write.
func TestWhoWritesMuchWaitsForTheCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, write := openByAccount(t)
		defer db.Close()
		copying := make(chan struct{})
		db.log.copying = copying
		write("a", manyPages+1)
		ended := false
		go func() { write("a", 1); ended = true }()
		write("b", 1)
		synctest.Wait()
		if ended {
			t.Error("a does not wait")
		}
		write("b", 1)
		db.log.mu.Lock()
		db.log.copying = nil
		db.log.mu.Unlock()
		close(copying)
		synctest.Wait()
		if !ended {
			t.Error("a waits after the end")
		}
	})
}
