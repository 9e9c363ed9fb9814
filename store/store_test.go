package store_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/store/storetest"
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
