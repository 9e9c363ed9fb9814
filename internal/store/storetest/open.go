package storetest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/pgtest"
)

// OverPostgres names the variable with which tests that use [At] run over PostgreSQL: every package
// that keeps state which daemons share passes all of its tests over both (make test-postgres).
const OverPostgres = "SANDBOXD_TEST_STORE"

var (
	mu   sync.Mutex            // guards what follows, and made
	urls = map[string]string{} // by path
)

// FileOnly skips what is true over a file alone: how it plans queries, how it came to be.
func FileOnly(t testing.TB) {
	t.Helper()
	if os.Getenv(OverPostgres) == "postgres" {
		needs.Elsewhere(t, "it is about a database that is a file")
	}
}

// At opens the database of a file, or of memory, for a test. With SANDBOXD_TEST_STORE=postgres it is
// one of PostgreSQL, the same for the same file. ":memory:" is a file that nobody else opens.
func At(ctx context.Context, t testing.TB, path string, schemas ...store.Schema) (*store.DB, error) {
	t.Helper()
	if os.Getenv(OverPostgres) != "postgres" {
		if path == ":memory:" {
			path = filepath.Join(t.TempDir(), "state.db")
			if err := copyTables(ctx, path, schemas); err != nil {
				return nil, err
			}
		}
		return store.Open(ctx, store.Options{Path: path}, schemas...)
	}
	mu.Lock()
	url, found := urls[path]
	if !found || path == ":memory:" {
		url = pgtest.URL(t)
		urls[path] = url
	}
	mu.Unlock()
	return store.OpenShared(ctx, store.SharedOptions{URL: url, Daemon: "d1"}, schemas...)
}

// made are databases with tables and no rows, by the files of their schemas. To make the tables takes a hundred times
// as long as to copy them, which is half of the time of many tests.
var made = map[string][]byte{}

// copyTables makes a database with the tables of the schemas at a path.
func copyTables(ctx context.Context, path string, schemas []store.Schema) error {
	var key strings.Builder
	for _, s := range schemas {
		files, err := fs.Glob(s.Files, "*")
		if err != nil {
			return err
		}
		fmt.Fprintln(&key, s.Name, files)
	}
	mu.Lock()
	defer mu.Unlock()
	if made[key.String()] == nil {
		db, err := store.Open(ctx, store.Options{Path: path}, schemas...)
		if err != nil {
			return err
		}
		if err := db.Close(); err != nil {
			return err
		}
		made[key.String()], err = os.ReadFile(path)
		return err
	}
	return os.WriteFile(path, made[key.String()], 0o600)
}
