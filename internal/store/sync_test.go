package store

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
)

// A synced write syncs the log behind its commit, and once the directory; another write syncs nothing. With full,
// SQLite syncs each commit itself.
func TestASyncedWriteSyncsTheLog(t *testing.T) {
	notes := Schema{Name: "notes", Files: fstest.MapFS{"0001_notes.sql": {Data: []byte("CREATE TABLE notes (text TEXT)")}}}
	add := func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO notes VALUES ('x')`)
		return err
	}
	for sync, want := range map[string][]string{"normal": {"s.db-wal", "d", "s.db-wal"}, "full": nil} {
		path := filepath.Join(t.TempDir(), "d", "s.db")
		db, err := Open(t.Context(), Options{Path: path, Sync: sync}, notes)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var synced []string
		broken := errors.New("broken disk")
		db.flush = func(f *os.File) error {
			var rows int
			err := db.Read(t.Context(), func(tx *sql.Tx) error {
				return tx.QueryRow(`SELECT count(*) FROM notes`).Scan(&rows)
			})
			if synced = append(synced, filepath.Base(f.Name())); err != nil || rows == 0 {
				t.Errorf("%d rows are committed, %v", rows, err)
			}
			return f.Sync()
		}
		for i, write := range []func() error{
			func() error { return db.WriteSynced(t.Context(), add) },
			func() error { return db.Write(t.Context(), add) },
			func() error { return db.WriteSynced(t.Context(), add) },
		} {
			if err := write(); err != nil {
				t.Errorf("sync %s, write %d: %v", sync, i, err)
			}
		}
		if !slices.Equal(synced, want) {
			t.Errorf("sync %s: synced %v, want %v", sync, synced, want)
		}
		db.flush = func(*os.File) error { return broken }
		if err := db.WriteSynced(t.Context(), add); errors.Is(err, broken) != (sync == "normal") {
			t.Errorf("sync %s on a broken disk: %v", sync, err)
		}
	}
}

// While one write is synced, others are done.
func TestNobodyWaitsForTheSyncOfAnother(t *testing.T) {
	db, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "s.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	nothing := func(*sql.Tx) error { return nil }
	inside := false
	db.flush = func(*os.File) error {
		inside = true
		return db.Write(t.Context(), nothing) // would wait for itself if the turn were held
	}
	if err := db.WriteSynced(t.Context(), nothing); err != nil || !inside {
		t.Errorf("it was synced: %t, %v", inside, err)
	}
}
