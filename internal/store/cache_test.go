package store_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
)

// cached is a note and how it is read and written through a cache.
type cached struct {
	t     *testing.T
	db    *store.DB
	cache *store.Cache[string]
	reads int
}

func newCached(t *testing.T) *cached {
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "s.db")}, storetest.Notes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &cached{t: t, db: db, cache: store.NewCache(db, func(s string) int { return len(s) })}
}

func (c *cached) stored() (text string, err error) {
	err = c.db.Read(c.t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT text FROM notes WHERE id = 1`).Scan(&text)
	})
	return text, err
}

func (c *cached) get() (string, error) {
	return c.cache.Get("1", func() (string, error) { c.reads++; return c.stored() })
}

func (c *cached) set(text string, fail error) error {
	return c.db.Write(c.t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO notes (id, text) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET text = $1`, text)
		c.cache.Set("1", text)
		return errors.Join(err, fail)
	})
}

func (c *cached) want(text string, reads int) {
	c.t.Helper()
	if got, err := c.get(); got != text || err != nil || c.reads != reads {
		c.t.Errorf("got %q, %v after %d reads, want %q after %d", got, err, c.reads, text, reads)
	}
}

func TestACacheFollowsItsWrites(t *testing.T) {
	c := newCached(t)
	if _, err := c.get(); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("got error %v, want none found", err)
	}
	if err := c.set("a", nil); err != nil {
		t.Fatal(err)
	}
	c.want("a", 1)
	undone := errors.New("undone")
	if err := c.set("b", undone); !errors.Is(err, undone) {
		t.Fatal(err)
	}
	c.want("a", 2) // a failed write may have been committed: it is read again
	c.want("a", 2)
	if err := c.db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM notes`)
		c.cache.Drop("1")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.get(); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("got error %v, want none found", err)
	}
}

// What is read before a change and arrives after it is not kept.
func TestACacheKeepsNothingOfBeforeAChange(t *testing.T) {
	c := newCached(t)
	if err := c.set("old", nil); err != nil {
		t.Fatal(err)
	}
	c.cache = store.NewCache(c.db, func(s string) int { return len(s) })
	got, err := c.cache.Get("1", func() (string, error) {
		text, err := c.stored()
		return text, errors.Join(err, c.set("new", nil))
	})
	if got != "old" || err != nil {
		t.Errorf("got %q, %v, want what was read", got, err)
	}
	c.want("new", 0)
}

// What a write read back of its own goes when it panics.
func TestACacheKeepsNothingOfAWriteThatPanicked(t *testing.T) {
	c := newCached(t)
	if err := c.set("old", nil); err != nil {
		t.Fatal(err)
	}
	c.cache = store.NewCache(c.db, func(s string) int { return len(s) })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it did not panic")
			}
		}()
		_ = c.db.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`UPDATE notes SET text = 'new'`)
			c.cache.Set("1", "new")
			_, got := c.cache.Get("1", func() (text string, err error) {
				return text, tx.QueryRow(`SELECT text FROM notes`).Scan(&text)
			})
			panic(errors.Join(err, got))
		})
	}()
	c.want("old", 1)
}

// A cache that would become too large begins again.
func TestACacheIsBounded(t *testing.T) {
	c := newCached(t)
	for _, tt := range []struct {
		name       string
		rows, size int
		again      int // reads, if every row is read once more
	}{
		{"few", 4, 1 << 20, 0},
		{"many bytes", 5, 1 << 20, 5},
		{"large ones", 3, 3 << 20, 3},
		{"many rows", 10_000, 1, 0},
		{"too many rows", 10_001, 1, 10_001},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cache, reads := store.NewCache(c.db, func(int) int { return tt.size }), 0
			get := func(i int) {
				v, err := cache.Get(strconv.Itoa(i), func() (int, error) { reads++; return i, nil })
				if v != i || err != nil {
					t.Errorf("%d: got %d, %v", i, v, err)
				}
			}
			for i := range tt.rows {
				get(i)
			}
			reads = 0
			for i := range tt.rows {
				get(i)
			}
			if reads != tt.again {
				t.Errorf("%d of %d rows were read again, want %d", reads, tt.rows, tt.again)
			}
		})
	}
}

// A row that changes often is in the cache once, and takes no room of others.
func TestACacheCountsARowOnce(t *testing.T) {
	c := newCached(t)
	cache, reads := store.NewCache(c.db, func(int) int { return 1 << 20 }), 0
	get := func(key string) {
		if _, err := cache.Get(key, func() (int, error) { reads++; return 0, nil }); err != nil {
			t.Error(err)
		}
	}
	get("other")
	for i := range 10 {
		_, err := cache.Get("row", func() (int, error) { get("row"); return i, nil }) // two read it at once
		if err != nil {
			t.Fatal(err)
		}
		err = c.db.Write(t.Context(), func(*sql.Tx) error {
			if cache.Drop("row"); i%2 == 0 {
				cache.Set("row", i)
				cache.Set("row", i)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	reads = 0
	if get("other"); reads != 0 {
		t.Error("another row was read again")
	}
}

func TestACacheIsExactUnderLoad(t *testing.T) {
	c := newCached(t)
	if err := c.set("", nil); err != nil {
		t.Fatal(err)
	}
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for range 100 {
				err := c.db.Write(t.Context(), func(tx *sql.Tx) error {
					text, err := c.cache.Get("1", func() (text string, err error) {
						return text, tx.QueryRow(`SELECT text FROM notes WHERE id = 1`).Scan(&text)
					})
					text += "x"
					if err == nil {
						_, err = tx.Exec(`UPDATE notes SET text = $1 WHERE id = 1`, text)
					}
					c.cache.Set("1", text)
					return err
				})
				if err != nil {
					t.Error(err)
				}
				if _, err := c.cache.Get("1", c.stored); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	text, err := c.stored()
	if got, _ := c.get(); len(got) != 400 || got != text || err != nil {
		t.Errorf("got %d characters, the database has %d (%v), want 400", len(got), len(text), err)
	}
}
