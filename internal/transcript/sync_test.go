package transcript

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// saved saves one message of the session s.
func saved(d *Dir, message string) error {
	n, err := d.Write(Metadata{ID: "s"}, nil, 0, []json.RawMessage{json.RawMessage(message)})
	if err != nil {
		return err
	}
	return errors.Join(n.Placed("s"), n.Drop())
}

// TestD04_WhatIsSavedSurvivesALossOfPower: the new file is synced before it gets its place, and then each directory
// that has got a name.
func TestD04_WhatIsSavedSurvivesALossOfPower(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var synced []string
	d.testOnlySync = func(f *os.File) error {
		name, err := filepath.Rel(dir, f.Name())
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, newDir) {
			text, err := os.ReadFile(f.Name()) // it is not in its place yet, and whole
			if err != nil || !strings.HasSuffix(string(text), tail) {
				t.Errorf("synced %q, %v", text, err)
			}
			name = "the new file"
		}
		synced = append(synced, name)
		return f.Sync()
	}
	for _, want := range [][]string{{"the new file", ".", "s"}, {"the new file", "s"}} {
		synced = nil
		if err := saved(d, `{"role":"user","content":"x"}`); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(synced, want) {
			t.Errorf("synced %q, want %q", synced, want)
		}
	}
}

// TestD04_WhatCannotBeSyncedIsNotSaved: the file of before stays, and nothing is left of the new one.
func TestD04_WhatCannotBeSyncedIsNotSaved(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := saved(d, `{"role":"user","content":"before"}`); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is broken")
	d.testOnlySync = func(*os.File) error { return broken }
	if err := saved(d, `{"role":"user","content":"after"}`); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	text, err := os.ReadFile(filepath.Join(dir, "s", fileName))
	if err != nil || !strings.Contains(string(text), "before") {
		t.Errorf("the transcript is %q, %v", text, err)
	}
	left, err := os.ReadDir(filepath.Join(dir, newDir))
	if err != nil || len(left) > 0 {
		t.Errorf("left of the new one: %s, %v", fmt.Sprint(left), err)
	}
}

// A reader of a version that somebody replaced meanwhile is told to read again.
func TestATranscriptThatIsSavedWhileItIsRead(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`CREATE TABLE transcript_parts (version TEXT, n INTEGER, part BLOB)`) // without the part
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &parts{db: db, version: "before", id: "s", size: 10, at: -1}
	_, err = p.ReadAt(make([]byte, 10), 0)
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != "transcript_changed" || e.Hint != "read it again" || !errors.Is(err, ErrStale) {
		t.Errorf("got %v, want transcript_changed", err)
	}
}
