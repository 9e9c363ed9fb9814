// Package storetest is what every database behind package store must pass. A
// second database runs the same suite:
//
//	func TestPostgres(t *testing.T) { storetest.Run(t, openPostgres) }
//
// It tests guarantees, not SQL.
package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/sandboxd/sandboxd/store"
)

// Open opens the database of this test, the same one each time it is called.
type Open func(ctx context.Context, schemas ...store.Schema) (*store.DB, error)

// Notes is the schema the suite uses.
var Notes = schema("notes", `CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)`)

func schema(name string, steps ...string) store.Schema {
	files := fstest.MapFS{}
	for i, text := range steps {
		files[fmt.Sprintf("%04d_step.sql", i+1)] = &fstest.MapFile{Data: []byte(text)}
	}
	return store.Schema{Name: name, Files: files}
}

// Run runs the suite; newOpen makes an empty database.
func Run(t *testing.T, newOpen func(*testing.T) Open) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"a committed write is read", committed},
		{"an error of the function undoes everything", undone},
		{"a panic of the function undoes everything", panicked},
		{"a read cannot write", readOnly},
		{"writers do not lose updates", concurrent},
		{"a cancelled context does not begin", cancelled},
		{"migrations run once, in order, and are recorded", migrated},
		{"a failed migration leaves the old state", failedMigration},
		{"a newer database is refused", newer},
		{"a gap in the numbers is refused", gap},
		{"prepared statements are part of the transaction", prepared},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, newOpen(t)) })
	}
}

func must(t *testing.T, open Open, schemas ...store.Schema) *store.DB {
	t.Helper()
	db, err := open(t.Context(), schemas...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func insert(text string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO notes (text) VALUES ($1)`, text)
		return err
	}
}

func count(t *testing.T, db *store.DB) (n int) {
	t.Helper()
	err := db.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM notes`).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Basics is the part of the suite that an empty database with [Notes] passes
// without being opened again, an in-memory one too.
func Basics(t *testing.T, db *store.DB) {
	open := func(context.Context, ...store.Schema) (*store.DB, error) { return db, nil }
	committed(t, open)
	if err := db.Read(t.Context(), insert("b")); err == nil {
		t.Error("a write inside Read succeeded")
	}
	if got := count(t, db); got != 1 {
		t.Errorf("got %d rows, want 1", got)
	}
}

func committed(t *testing.T, open Open) {
	db := must(t, open, Notes)
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	if got := count(t, db); got != 1 {
		t.Errorf("got %d rows, want 1", got)
	}
}

func undone(t *testing.T, open Open) {
	db := must(t, open, Notes)
	boom := errors.New("boom")
	err := db.Write(t.Context(), func(tx *sql.Tx) error {
		return errors.Join(insert("a")(tx), boom)
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want the error of the function", err)
	}
	if got := count(t, db); got != 0 {
		t.Errorf("got %d rows, want 0", got)
	}
}

func panicked(t *testing.T, open Open) {
	db := must(t, open, Notes)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = db.Write(t.Context(), func(tx *sql.Tx) error {
			if err := insert("a")(tx); err != nil {
				return err
			}
			panic("boom")
		})
	}()
	if got := count(t, db); got != 0 {
		t.Errorf("got %d rows, want 0", got)
	}
	if err := db.Write(t.Context(), insert("b")); err != nil {
		t.Errorf("a write after a panic: %v", err)
	}
}

func readOnly(t *testing.T, open Open) {
	db := must(t, open, Notes)
	if err := db.Read(t.Context(), insert("a")); err == nil {
		t.Error("a write inside Read succeeded")
	}
	if err := db.Write(t.Context(), insert("b")); err != nil {
		t.Errorf("the writer after a refused write: %v", err)
	}
}

func concurrent(t *testing.T, open Open) {
	db := must(t, open, Notes)
	if err := db.Write(t.Context(), insert("0")); err != nil {
		t.Fatal(err)
	}
	const writers, rounds = 8, 25
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				if err := db.Write(t.Context(), increment); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var got int
	err := db.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT CAST(text AS INTEGER) FROM notes`).Scan(&got)
	})
	if err != nil || got != writers*rounds {
		t.Errorf("got %d (%v), want %d", got, err, writers*rounds)
	}
}

func increment(tx *sql.Tx) error {
	var n int
	if err := tx.QueryRow(`SELECT CAST(text AS INTEGER) FROM notes`).Scan(&n); err != nil {
		return err
	}
	_, err := tx.Exec(`UPDATE notes SET text = $1`, fmt.Sprint(n+1))
	return err
}

func cancelled(t *testing.T, open Open) {
	db := must(t, open, Notes)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Write(ctx, insert("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if got := count(t, db); got != 0 {
		t.Errorf("got %d rows, want 0", got)
	}
}

func migrated(t *testing.T, open Open) {
	const first, second = `CREATE TABLE notes (id INTEGER PRIMARY KEY)`, `ALTER TABLE notes ADD COLUMN text TEXT NOT NULL DEFAULT ''`
	must(t, open, schema("notes", first)).Close()
	must(t, open, schema("notes", first, second)).Close()
	db := must(t, open, schema("notes", first, second), schema("other", `CREATE TABLE other (id INTEGER)`))
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Error(err)
	}
}

func failedMigration(t *testing.T, open Open) {
	const good, bad = `CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)`, `CREATE TABLE half (id INTEGER); CREATE TABLE nonsense (`
	must(t, open, schema("notes", good)).Close()
	if _, err := open(t.Context(), schema("notes", good, bad)); err == nil {
		t.Fatal("a broken migration was accepted")
	}
	db := must(t, open, schema("notes", good, `CREATE TABLE half (id INTEGER)`)) // fails if the broken one left its table
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Error(err)
	}
}

func newer(t *testing.T, open Open) {
	const first, second = `CREATE TABLE notes (id INTEGER)`, `CREATE TABLE more (id INTEGER)`
	must(t, open, schema("notes", first, second)).Close()
	if _, err := open(t.Context(), schema("notes", first)); !errors.Is(err, store.ErrNewer) {
		t.Errorf("got %v, want ErrNewer", err)
	}
}

func gap(t *testing.T, open Open) {
	files := fstest.MapFS{"0002_late.sql": {Data: []byte(`CREATE TABLE late (id INTEGER)`)}}
	if _, err := open(t.Context(), store.Schema{Name: "notes", Files: files}); err == nil {
		t.Error("a schema without its first migration was accepted")
	}
}

func prepared(t *testing.T, open Open) {
	db := must(t, open, Notes)
	add := func(tx *sql.Tx) error {
		st, err := db.Stmt(`INSERT INTO notes (text) VALUES ($1)`)
		if err != nil {
			return err
		}
		_, err = st.Exec("a")
		return err
	}
	boom := errors.New("boom")
	undo := func(tx *sql.Tx) error { return errors.Join(add(tx), boom) }
	for _, step := range []struct {
		fn   func(*sql.Tx) error
		err  error
		want int
	}{{undo, boom, 0}, {add, nil, 1}, {undo, boom, 1}, {add, nil, 2}} {
		if err := db.Write(t.Context(), step.fn); !errors.Is(err, step.err) {
			t.Fatal(err)
		}
		if got := count(t, db); got != step.want {
			t.Errorf("got %d rows, want %d", got, step.want)
		}
	}
}
