package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
)

func newFile(t *testing.T) storetest.Open {
	path := filepath.Join(t.TempDir(), "state", "sandboxd.db")
	return func(ctx context.Context, schemas ...store.Schema) (*store.DB, error) {
		return store.Open(ctx, store.Options{Path: path}, schemas...)
	}
}

func TestSuite(t *testing.T) { storetest.Run(t, newFile) }

func TestMemoryWrites(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, storetest.Notes)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.Basics(t, db)
}

// TestReadersDoNotWaitForEachOther: as many as there are connections begin, and only then ask for a statement
// that nobody has prepared yet.
func TestReadersDoNotWaitForEachOther(t *testing.T) {
	db, err := newFile(t)(t.Context(), storetest.Notes)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	together(t, db, 8)
}

func together(t *testing.T, db *store.DB, readers int) {
	t.Helper()
	for round := range 3 { // the last ones find it prepared
		var began, ended sync.WaitGroup
		began.Add(readers)
		for range readers {
			ended.Go(func() {
				var n int
				err := db.Read(t.Context(), func(tx *sql.Tx) error {
					began.Done()
					began.Wait()
					return db.Reading(tx).Row(`SELECT count(*) + $1 FROM notes`, 7).Scan(&n)
				})
				if err != nil || n != 7 {
					t.Errorf("round %d: got %d, %v", round, n, err)
				}
			})
		}
		ended.Wait()
	}
}

// TestAnOpenDatabaseIsClosedToOthers: a file that others could read, as after a
// restore from a backup, is theirs no more once it is used.
func TestAnOpenDatabaseIsClosedToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	for _, mode := range []fs.FileMode{0o644, 0o666, 0o640} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		db, err := store.Open(t.Context(), store.Options{Path: path}, storetest.Notes)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v became %v, %v, want 0600", mode, info.Mode(), err)
		}
		if err := errors.Join(db.Close(), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnotherProgramsDatabaseIsLeftAlone: a path that was mistyped does not get our
// tables.
func TestAnotherProgramsDatabaseIsLeftAlone(t *testing.T) {
	for name, statement := range map[string]string{
		"tables":                   `CREATE TABLE theirs (id INTEGER)`,
		"a mark and nothing else":  `PRAGMA application_id = 4711`,
		"their mark on our tables": `CREATE TABLE notes (id INTEGER); PRAGMA application_id = 4711`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "theirs.db")
			theirs, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Close()
			if _, err := theirs.Exec(statement); err != nil {
				t.Fatal(err)
			}
			_, err = store.Open(t.Context(), store.Options{Path: path}, storetest.Notes)
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
			var ours int
			err = theirs.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE name = 'migrations'`).Scan(&ours)
			if err != nil || ours != 0 {
				t.Errorf("%d tables of ours, %v", ours, err)
			}
		})
	}
}

// TestSyncIsWhatWasAsked: "full" survives a loss of power, so every commit must
// reach the disk.
func TestSyncIsWhatWasAsked(t *testing.T) {
	for sync, want := range map[string]int{"": 1, "normal": 1, "full": 2} {
		o := store.Options{Path: filepath.Join(t.TempDir(), "s.db"), Sync: sync}
		db, err := store.Open(t.Context(), o, storetest.Notes)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.Write(t.Context(), func(tx *sql.Tx) error {
			var got int
			err := tx.QueryRow(`PRAGMA synchronous`).Scan(&got)
			if got != want {
				t.Errorf("%q: synchronous is %d, want %d", sync, got, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestFileModesDoNotFollowTheUmask(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "a", "b")
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "s.db")}, storetest.Notes)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	want := map[string]fs.FileMode{".": 0o700, "s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600}
	for name, mode := range want {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := info.Mode().Perm(); got != mode {
			t.Errorf("%s: got mode %o, want %o", name, got, mode)
		}
	}
}

func TestPathsWithSpecialCharacters(t *testing.T) {
	for _, name := range []string{"a b?c#d%20.db", "ö&mode=memory.db", "file:x.db"} {
		path := filepath.Join(t.TempDir(), name)
		db, err := store.Open(t.Context(), store.Options{Path: path}, storetest.Notes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		db.Close()
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s: the database is elsewhere (%v)", name, err)
		}
	}
}

// A file that is no longer at its path is lost with the process: nothing more is written to it.
func TestAFileThatIsReplacedIsUsedNoMore(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			db, err := store.Open(t.Context(), store.Options{Path: path}, storetest.Notes)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			nothing := func(*sql.Tx) error { return nil }
			if err := errors.Join(db.Write(t.Context(), nothing), db.Read(t.Context(), nothing), replace(path)); err != nil {
				t.Fatal(err)
			}
			if err := db.Write(t.Context(), nothing); !errors.Is(err, store.ErrRestored) {
				t.Errorf("a write: got %v, want ErrRestored", err)
			}
			if err := db.Read(t.Context(), nothing); !errors.Is(err, store.ErrRestored) {
				t.Errorf("a read: got %v, want ErrRestored", err)
			}
		})
	}
}

// A daemon does not open a file into which a copy has not ended. Who looks at it as it is may, and goes on.
func TestAnUnfinishedCopyIsOpenedAsItIsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	open := func(asIs bool) (*store.DB, error) {
		return store.Open(t.Context(), store.Options{Path: path, AsIs: asIs}, storetest.Notes)
	}
	db, err := open(true)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	begin := func(tx *sql.Tx) error { return db.BeginCopy(tx, "there") }
	if err := errors.Join(db.Migrate(t.Context(), storetest.Notes), db.Write(t.Context(), begin)); err != nil {
		t.Fatal(err)
	}
	if from, err := db.UnfinishedFrom(t.Context()); from != "there" || err != nil {
		t.Errorf("a copy from %q, %v", from, err)
	}
	if other, err := open(false); !errors.Is(err, store.ErrUnfinished) || !strings.Contains(err.Error(), "from there") {
		t.Errorf("a daemon: got %v, %v", other, err)
	}
	if err := db.Migrate(t.Context(), storetest.Notes); err != nil {
		t.Errorf("who copies: %v", err)
	}
	if err := db.Write(t.Context(), db.EndCopy); err != nil {
		t.Fatal(err)
	}
	daemon, err := open(false)
	if err != nil {
		t.Fatalf("after the end: %v", err)
	}
	daemon.Close()
}

func TestUnknownSyncIsRefused(t *testing.T) {
	_, err := store.Open(t.Context(), store.Options{Path: ":memory:", Sync: "off"})
	if err == nil {
		t.Error("sync off was accepted")
	}
}

func TestCorruptFilesAreNamed(t *testing.T) {
	header := "SQLite format 3\x00\x10\x00\x02\x02\x00\x40\x20\x20garbage garbage garbage"
	for name, content := range map[string]string{
		"text":       "this is not a database, it is a text that is longer than a header of a hundred bytes, honestly, it really is so",
		"cut header": header,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := store.Open(t.Context(), store.Options{Path: path}, storetest.Notes)
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
			if got, _ := os.ReadFile(path); string(got) != content {
				t.Error("the file that was refused has been changed")
			}
		})
	}
}

// TestTightNeedsNoRoomForTheLog: on a disk that is nearly full the log of the database does not
// grow, and nothing is lost.
func TestTightNeedsNoRoomForTheLog(t *testing.T) {
	size := func(tight bool) int64 {
		path := filepath.Join(t.TempDir(), "state.db")
		db, err := store.Open(t.Context(), store.Options{Path: path}, storetest.Notes)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.Tight(tight)
		write := func(i int) {
			err := db.Write(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.Exec(`INSERT INTO tight (id, text) VALUES ($1, $2)`, i, strings.Repeat("x", 10_000))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`CREATE TABLE tight (id INTEGER, text TEXT)`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			write(i)
		}
		var n int
		if err := db.Read(t.Context(), func(tx *sql.Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM tight WHERE length(text) = 10000`).Scan(&n)
		}); err != nil || n != 50 {
			t.Errorf("%d rows, %v", n, err)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if roomy, tight := size(false), size(true); tight > roomy/4 {
		t.Errorf("the log has %d bytes, and %d without", tight, roomy)
	}
}

// TestNothingIsOpenedAfterTheEnd: who has closed a database may remove its directory at once.
func TestNothingIsOpenedAfterTheEnd(t *testing.T) {
	for round := range 20 {
		dir := t.TempDir()
		path := filepath.Join(dir, "s.db")
		db, err := store.Open(t.Context(), store.Options{Path: path}, storetest.Notes)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Read(t.Context(), func(tx *sql.Tx) error {
			for i := range 8 { // each is prepared for later Reads, beside this one
				var n int
				if err := db.Reading(tx).Row(fmt.Sprintf(`SELECT count(*) + %d FROM notes`, i)).Scan(&n); err != nil {
					return err
				}
			}
			return nil
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Fatalf("round %d: after the end there are %v, %v", round, left, err)
		}
	}
}

// TestAnotherProgramMayHoldTheLockForTenSeconds: so long a statement waits for it.
func TestAnotherProgramMayHoldTheLockForTenSeconds(t *testing.T) {
	db, err := newFile(t)(t.Context(), storetest.Notes)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, begin := range map[string]func(context.Context, func(*sql.Tx) error) error{"reads": db.Read, "writes": db.Write} {
		var waits int
		err := begin(t.Context(), func(tx *sql.Tx) error { return tx.QueryRow("PRAGMA busy_timeout").Scan(&waits) })
		if err != nil || waits != 10_000 {
			t.Errorf("%s wait for %d ms, %v, want 10000", name, waits, err)
		}
	}
}
