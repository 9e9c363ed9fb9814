package transfer

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
)

// between returns a plan from one file to another, for the table of sessions. What refuses a copy is the same for files
// as for PostgreSQL.
func between(t *testing.T) *Plan {
	t.Helper()
	side := func(name string) Side {
		dir := t.TempDir()
		db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "state.db")}, sessions.Schema())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		files, err := transcript.Open(filepath.Join(dir, "transcripts"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { files.Close() })
		return Side{DB: db, Name: name, Transcripts: files}
	}
	return &Plan{From: side("here"), To: side("there"), tables: []table{{
		name: "sessions", key: []int{0},
		columns: []store.Column{{Name: "id", Type: "text"}, {Name: "account", Type: "text"}},
	}}}
}

// refuses wants a code, and words in the message.
func refuses(t *testing.T, err error, code, words string) {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Msg, words) || e.Hint == "" {
		t.Errorf("got %v, want %s with %q and a hint", err, code, words)
	}
}

func TestACopyGoesIntoAnEmptyDatabase(t *testing.T) {
	p := between(t)
	row(t, p.To, "s1")
	refuses(t, p.begin(t.Context()), "store_not_empty", "there is not empty: table sessions has 1 rows")
}

// With Replace what the destination had is gone before the first row comes.
func TestACopyThatReplacesEmptiesItsDestination(t *testing.T) {
	p := between(t)
	row(t, p.To, "old")
	p.Replace = true
	if err := p.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestACopyFromAnotherSourceWaitsForTheFirst(t *testing.T) {
	p := between(t)
	if err := p.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.From.Name = "elsewhere"
	refuses(t, p.begin(t.Context()), "store_unfinished", "a copy from here into there has not ended")
}

func TestACopyWhoseSidesDifferFails(t *testing.T) {
	p := between(t)
	row(t, p.From, "s1")
	row(t, p.To, "s2")
	_, err := p.verify(t.Context())
	refuses(t, err, "store_differs", "sessions is not the same: here has 1 rows")
}

// A row that the destination does not take ends the copy, whose error names the rows of its batch.
func TestTheRowsThatCannotBeCopiedAreNamed(t *testing.T) {
	p := between(t)
	row(t, p.From, "s1")
	row(t, p.From, "s2")
	err := p.To.DB.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`CREATE TRIGGER refuse BEFORE INSERT ON sessions
			BEGIN SELECT RAISE(ABORT, 'no such text'); END`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = p.copyTable(t.Context(), p.tables[0])
	if err == nil || !strings.Contains(err.Error(), `the rows from "s1" to "s2": `) ||
		!strings.Contains(err.Error(), "no such text") {
		t.Errorf("got %v", err)
	}
}

// row adds a session.
func row(t *testing.T, s Side, id string) {
	t.Helper()
	err := s.DB.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO sessions (id, account, dir, tag, created, updated, data)
			VALUES ($1, 'a', '/', '', 0, 0, '{}')`, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
