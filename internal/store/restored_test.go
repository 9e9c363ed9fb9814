package store_test

import (
	"database/sql"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/tests/pgtest"
)

// TestManyConnectionsAreOfOneDatabase: those that are made while others commit are not taken for those of
// a database that was restored.
func TestManyConnectionsAreOfOneDatabase(t *testing.T) {
	url := pgtest.URL(t)
	two := []*store.DB{member(t, url, "a", 0), member(t, url, "b", 0)}
	var g sync.WaitGroup
	for i := range 20 { // of each daemon one writes, and eight connect to read
		g.Go(func() {
			for range 20 {
				err := two[i%2].Write(t.Context(), note("x"))
				if err == nil {
					err = two[i%2].Read(t.Context(), func(tx *sql.Tx) error {
						return tx.QueryRow(`SELECT count(*) FROM notes`).Scan(new(int))
					})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	g.Wait()
}
