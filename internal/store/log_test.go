package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
)

// Whoever makes the log long copies it before its next write. Nobody else does, unless it is very long.
func TestWhoeverMakesTheLogLongCopiesIt(t *testing.T) {
	db, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "x.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	type key struct{}
	db.ShareBy(func(ctx context.Context) string { account, _ := ctx.Value(key{}).(string); return account })
	for i, tt := range []struct {
		account string
		pages   int
		short   bool // the log begins again, as all of it was copied
		copied  int  // at least; 0 is none
		why     string
	}{
		{"a", manyPages + 100, false, 0, "the writer copies nothing"},
		{"b", 1, false, 0, "another account copies nothing"},
		{"a", 1, true, 0, "the account copies it before it writes more"},
		{"a", manyPages / 2, false, 0, "and once"},
		{"b", mostPages, false, mostPages, "a very long log is copied by its writer"},
	} {
		ctx := context.WithValue(t.Context(), key{}, tt.account)
		err := db.Write(ctx, func(tx *sql.Tx) error {
			_, err := tx.Exec(`CREATE TABLE IF NOT EXISTS t (x)`)
			if err == nil {
				_, err = tx.Exec(`INSERT INTO t VALUES (zeroblob(?))`, tt.pages*4096)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var busy, written, copied int
		row := db.reader.QueryRowContext(ctx, "PRAGMA wal_checkpoint(NOOP)")
		if err := row.Scan(&busy, &written, &copied); err != nil {
			t.Fatal(err)
		}
		if (written < 100) != tt.short || copied < tt.copied || copied > 0 && tt.copied == 0 {
			t.Errorf("write %d: of %d pages %d are copied: %s", i, written, copied, tt.why)
		}
	}
}
