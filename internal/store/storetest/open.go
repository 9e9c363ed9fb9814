package storetest

import (
	"context"
	"os"
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
	mu  sync.Mutex // guards urls
	all = map[string]string{}
)

// FileOnly skips what is true over a file alone: how it plans queries, how it came to be.
func FileOnly(t testing.TB) {
	t.Helper()
	if os.Getenv(OverPostgres) == "postgres" {
		needs.Elsewhere(t, "it is about a database that is a file")
	}
}

// At opens the database of a file, or of memory, for a test. With SANDBOXD_TEST_STORE=postgres it is
// one of PostgreSQL, the same for the same file.
func At(ctx context.Context, t testing.TB, path string, schemas ...store.Schema) (*store.DB, error) {
	t.Helper()
	if os.Getenv(OverPostgres) != "postgres" {
		return store.Open(ctx, store.Options{Path: path}, schemas...)
	}
	mu.Lock()
	url, found := all[path]
	if !found || path == ":memory:" {
		url = pgtest.URL(t)
		all[path] = url
	}
	mu.Unlock()
	return store.OpenShared(ctx, store.SharedOptions{URL: url, Daemon: "d1"}, schemas...)
}
