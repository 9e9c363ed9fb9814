package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandboxd/sandboxd/internal/store"
)

// pageOf is a page of all rows of a table, which were given as texts.
func pageOf(t *testing.T, texts ...string) (*store.DB, store.Page[string]) {
	t.Helper()
	schema := store.Schema{Name: "t", Files: fstest.MapFS{"0001_t.sql": {Data: []byte("CREATE TABLE t (id TEXT, text TEXT)")}}}
	db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
		for i, text := range texts {
			if _, err := tx.Exec("INSERT INTO t VALUES ($1, $2)", fmt.Sprint(i), text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := store.ReadPage(t.Context(), db, func(tx *sql.Tx) (int, *sql.Rows, error) {
		rows, err := tx.Query("SELECT id, length(text) FROM t ORDER BY id")
		return len(texts) + 3, rows, err
	}, func(tx *sql.Tx, id string) (text string, err error) {
		return text, tx.QueryRow("SELECT text FROM t WHERE id = $1", id).Scan(&text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, p
}

func rowsOf(t *testing.T, p store.Page[string]) []string {
	t.Helper()
	var out []string
	for row, err := range p.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

func TestAPageIsReadInPartsThatFitIntoMemory(t *testing.T) {
	large := strings.Repeat("x", 300<<10) // more than a part
	_, p := pageOf(t, "a", large, "b", "c")
	if p.Total != 7 || len(p.Keys) != 4 {
		t.Fatalf("%d keys of %d", len(p.Keys), p.Total)
	}
	if got := p.Bytes(); got != 300<<10 {
		t.Errorf("at most %d bytes at once, want those of the largest row alone", got)
	}
	if got := rowsOf(t, p); !slices.Equal(got, []string{"a", large, "b", "c"}) {
		t.Errorf("%d rows", len(got))
	}
	_, small := pageOf(t, "ab", "cde")
	if got := small.Bytes(); got != 5 {
		t.Errorf("at most %d bytes at once, want all five", got)
	}
	if _, none := pageOf(t); none.Bytes() != 0 || rowsOf(t, none) != nil {
		t.Error("a page without rows")
	}
}

func TestARowThatHasGoneIsLeftOut(t *testing.T) {
	db, p := pageOf(t, "a", "b", "c")
	err := db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("DELETE FROM t WHERE id = '1'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := rowsOf(t, p); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("got %q", got)
	}
}

func TestAPageThatCannotBeReadIsAnError(t *testing.T) {
	db, p := pageOf(t, "a", "b")
	failed := errors.New("no")
	keys := func(tx *sql.Tx) (int, *sql.Rows, error) { return 0, nil, failed }
	row := func(*sql.Tx, string) (string, error) { return "", failed }
	if _, err := store.ReadPage(t.Context(), db, keys, row); !errors.Is(err, failed) {
		t.Errorf("keys: %v", err)
	}
	bad, err := store.ReadPage(t.Context(), db, func(tx *sql.Tx) (int, *sql.Rows, error) {
		rows, err := tx.Query("SELECT id, 1 FROM t")
		return 2, rows, err
	}, row)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range bad.Rows(t.Context()) {
		if n++; !errors.Is(err, failed) {
			t.Errorf("row: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d rows of an error, want one", n)
	}
	for range p.Rows(t.Context()) {
		break // a reader that leaves
	}
}
