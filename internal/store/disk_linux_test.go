package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// tinyDisk mounts a file system of this many bytes.
func tinyDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); err != nil {
		needs.Root(t, "to mount")
		needs.Missing(t, "mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestAFullDiskIsNamedAndTheDatabaseGoesOn: what was acknowledged stays, what was
// not leaves nothing, and with room again writes succeed on the same DB.
func TestAFullDiskIsNamedAndTheDatabaseGoesOn(t *testing.T) {
	dir := tinyDisk(t, "size=1m")
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "s.db")}, storetest.Notes)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	text := bytes.Repeat([]byte("x"), 10_000)
	add := func() error {
		return db.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`INSERT INTO notes (text) VALUES ($1)`, text)
			return err
		})
	}
	written := 0
	for err = add(); err == nil; err = add() {
		if written++; written > 1000 {
			t.Fatal("ten times the disk was written")
		}
	}
	if !errors.Is(err, store.ErrFull) {
		t.Fatalf("after %d rows: got %v, want ErrFull", written, err)
	}
	if got := countNotes(t, db); got != written {
		t.Errorf("full: got %d rows, want the %d that were acknowledged", got, written)
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	if err := add(); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	if got := countNotes(t, db); got != written+1 {
		t.Errorf("got %d rows, want %d", got, written+1)
	}
}

func TestADiskWithoutRoomForADatabaseIsNamed(t *testing.T) {
	dir := tinyDisk(t, "size=8k")
	_, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "s.db")}, storetest.Notes)
	if !errors.Is(err, store.ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "s.db")}, storetest.Notes)
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	defer db.Close()
	storetest.Basics(t, db)
}

func TestAReadOnlyDatabaseIsNamed(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		dir = tinyDisk(t, "size=8m") // root writes to whatever the mode forbids
	}
	path := filepath.Join(dir, "s.db")
	open := func() (*store.DB, error) {
		return store.Open(context.Background(), store.Options{Path: path}, storetest.Notes)
	}
	db, err := open()
	if err != nil {
		t.Fatal(err)
	}
	storetest.Basics(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	writable(t, dir, path, false)
	if db, err := open(); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("got %v, %v, want ErrReadOnly", db, err)
	}
	writable(t, dir, path, true)
	if db, err = open(); err != nil {
		t.Fatalf("writable again: %v", err)
	}
	defer db.Close()
	if got := countNotes(t, db); got != 1 {
		t.Errorf("got %d rows, want 1", got)
	}
}

// writable lets the file system, or for other users the modes, forbid writing.
func writable(t *testing.T, dir, path string, yes bool) {
	t.Helper()
	if os.Geteuid() == 0 {
		flags := uintptr(syscall.MS_REMOUNT)
		if !yes {
			flags |= syscall.MS_RDONLY
		}
		if err := syscall.Mount("none", dir, "tmpfs", flags, "size=8m"); err != nil {
			t.Fatal(err)
		}
		return
	}
	mode := os.FileMode(0o500)
	if yes {
		mode = 0o700
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
}

func countNotes(t *testing.T, db *store.DB) (n int) {
	t.Helper()
	err := db.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM notes`).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
