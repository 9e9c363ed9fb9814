package scopes

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/bench"
)

func hostOf(db *store.DB) part.Host { return part.Host{DB: db} }

// bareDB is the same kind of database through database/sql and nothing else.
func bareDB(b *testing.B) *sql.DB {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	if _, err := db.Exec(`CREATE TABLE bare (name TEXT PRIMARY KEY, value BLOB)`); err != nil {
		b.Fatal(err)
	}
	return db
}

func bareTx(ctx context.Context, db *sql.DB, name string, value []byte) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO bare (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = $2`, name, value); err != nil {
		return err
	}
	return tx.Commit()
}

// BenchmarkScoped compares a read through five scopes and a write with what the driver needs for one row.
func BenchmarkScoped(b *testing.B) {
	w, bare := newWorld(b), bareDB(b)
	w.session("s")
	f := w.floor("s", "main", 0)
	p := w.page(f, 0, "output")
	for _, x := range []struct{ scope, id string }{{"global", "g"}, {"chat", "s"}, {"branch", "branch:s:main"}, {"floor", f}, {"page", p}} {
		for i := range 100 {
			w.put(x.scope, x.id, fmt.Sprint("key", i), `"a value of some length"`)
		}
	}
	value := json.RawMessage(`"a value of some length"`)
	for i := range 100 {
		if err := bareTx(b.Context(), bare, fmt.Sprint("key", i), value); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	next := func() string { n++; return fmt.Sprint("key", n%100) }
	fatal := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	in := tool.In{Account: "a", Session: "s", Host: tool.Host{Page: p}, Args: json.RawMessage(`{"key":"key7"}`)}
	bench.Compare(b, []bench.Case{
		{Name: "bare SELECT", Run: func() {
			var value []byte
			fatal(bare.QueryRowContext(b.Context(), `SELECT value FROM bare WHERE name = $1`, next()).Scan(&value))
		}},
		{Name: "scoped read", Run: func() {
			fatal(w.read(b.Context(), "a", noHost, func(v view) error {
				_, _, err := v.effective(place{"s", "main", f, p}, next())
				return err
			}))
		}},
		{Name: "get_variable", Run: func() {
			_, err := w.run("get_variable", in)
			fatal(err)
		}},
		{Name: "bare transaction", Run: func() { fatal(bareTx(b.Context(), bare, next(), value)) }},
		{Name: "scoped write", Run: func() {
			_, err := w.putAll(b.Context(), "a", []write{{target: target{scope: Chat, host: "s"}, key: next(), value: value}}, func(int) string { return "" })
			fatal(err)
		}},
	},
		bench.Limit{Case: "scoped read", Over: "bare SELECT", AtMost: 2},
		bench.Limit{Case: "scoped write", Over: "bare transaction", AtMost: 2.5})
}

// BenchmarkList compares a list of 100 out of 10,000 variables and out of a million.
func BenchmarkList(b *testing.B) {
	var cases []bench.Case
	for _, n := range []int{10_000, 1_000_000} {
		w := newWorld(b)
		w.session("s")
		err := w.db.Write(b.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
				INSERT INTO scope_vars (id, account, scope, host, key, authors, updated, value)
				SELECT printf('var_%08d', i), 'a', 'chat', 's', printf('key%d', i), 1, i, '"a value"' FROM n`, n)
			if err == nil {
				_, err = tx.Exec(`INSERT INTO scope_counts (account, scope, vars) VALUES ('a', 'chat', $1)`, n)
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		cases = append(cases, bench.Case{Name: fmt.Sprint("100 out of ", n), Run: func() {
			page, err := w.list(b.Context(), "a", filter{orderBy: "v.updated", desc: true, limit: 100})
			if err != nil || page.Total != n || len(page.Keys) != 100 {
				b.Fatal(page.Total, len(page.Keys), err)
			}
			for _, err := range page.Rows(b.Context()) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}})
	}
	bench.Compare(b, cases, bench.Limit{Case: "100 out of 1000000", Over: "100 out of 10000", AtMost: 1.5})
}
