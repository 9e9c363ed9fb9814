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

// A long log is copied beside the writes, and begins again then. Only a very long one is copied by a writer.
func TestALongLogIsCopied(t *testing.T) {
	db, write := openByAccount(t)
	defer db.Close()
	for i, tt := range []struct {
		account string
		pages   int
		short   bool // the log begins again, as all of it was copied
		copied  bool
		why     string
	}{
		{"a", manyPages - 100, false, false, "it is not long"},
		{"b", 200, false, true, "it is long"},
		{"a", 1, true, false, "it begins again"},
		{"b", mostPages, false, true, "a very long one is copied by its writer"},
	} {
		write(tt.account, tt.pages)
		if tt.pages < mostPages {
			db.copyLog(t.Context()) // as the next write does
		}
		db.log.work.Wait()
		var busy, written, copied int
		row := db.reader.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(NOOP)")
		if err := row.Scan(&busy, &written, &copied); err != nil {
			t.Fatal(err)
		}
		if (written < 100) != tt.short || (copied == written) != tt.copied {
			t.Errorf("write %d: of %d pages %d are copied: %s", i, written, copied, tt.why)
		}
	}
}

// What the log holds needs room once more, until it is copied.
func TestWhatIsNotCopied(t *testing.T) {
	db, write := openByAccount(t)
	if n := db.Uncopied(t.Context()); n > 100*4096 {
		t.Errorf("at first %d bytes are not copied", n)
	}
	write("a", 1000)
	if n := db.Uncopied(t.Context()); n < 1000*4096 || n > 1100*4096 {
		t.Errorf("%d bytes are not copied, want %d and a few", n, 1000*4096)
	}
	write("a", 1000)
	db.copyLog(t.Context())
	db.log.work.Wait()
	if n := db.Uncopied(t.Context()); n != 0 {
		t.Errorf("after the copy %d bytes are not copied", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := db.Uncopied(t.Context()); n != 0 {
		t.Errorf("after the end %d bytes are not copied", n)
	}
}

// The log is copied without anybody waiting for it.
func TestAWriteHasALongLogCopied(t *testing.T) {
	db, write := openByAccount(t)
	defer db.Close()
	write("a", manyPages)
	write("b", 1)
	db.log.work.Wait()
	if db.log.all >= manyPages {
		t.Errorf("%d pages are not copied", db.log.all)
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

// A turn that comes while its writer gives up is given on.
func TestATurnOfAWriterThatHasLeftIsGivenOn(t *testing.T) {
	for range 64 {
		synctest.Test(t, func(t *testing.T) {
			var order turns
			if err := order.take(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				if order.take(ctx) == nil {
					order.give()
				}
			}()
			synctest.Wait()
			leave()
			order.give()
			synctest.Wait()
			if order.taken || len(order.waiting) != 0 {
				t.Errorf("the turn is taken: %v, by %v", order.taken, order.waiting)
			}
		})
	}
}
