package team

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// bareTx changes one row in one transaction of the driver's, and nothing else.
func bareTx(ctx context.Context, db *sql.DB, name string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO bare (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = $2`, name, "a text of some length"); err != nil {
		return err
	}
	return tx.Commit()
}

// BenchmarkTogether compares the change of a task, and a message from being sent to being read, with
// what the driver needs for one row.
func BenchmarkTogether(b *testing.B) {
	dir := b.TempDir()
	bare, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bare.db")+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { bare.Close() })
	if _, err := bare.Exec(`CREATE TABLE bare (name TEXT PRIMARY KEY, value BLOB)`); err != nil {
		b.Fatal(err)
	}
	s := open(b, filepath.Join(dir, "s.db"))
	for i := range 100 {
		s.make(b, lead, fmt.Sprint("task ", i))
	}
	done(s.CreateTeam(b.Context(), lead, "n", "", []string{"a", "b", "c"}))
	n := 0
	next := func() int { n++; return n%100 + 1 }
	fatal := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	bench.Compare(b, []bench.Case{
		{Name: "bare transaction", Run: func() { fatal(bareTx(b.Context(), bare, fmt.Sprint("key", next()))) }},
		{Name: "task update", Run: func() {
			_, _, err := s.Update(b.Context(), lead, fmt.Sprintf("task_%d", next()), Change{
				Status: ptr("inProgress"), Owner: ptr("a"),
			}, provenance.ByModel)
			fatal(err)
		}},
		{Name: "message sent and read", Run: func() {
			_, err := s.Send(b.Context(), lead, Outgoing{To: "a", Message: "a text of some length"}, provenance.ByModel)
			fatal(err)
			all, _, err := s.Take(b.Context(), at("a"))
			if fatal(err); len(all) != 1 {
				b.Fatalf("got %d messages", len(all))
			}
		}},
	},
		bench.Limit{Case: "task update", Over: "bare transaction", AtMost: 2.5},
		// Two transactions, with one statement in each.
		bench.Limit{Case: "message sent and read", Over: "bare transaction", AtMost: 3},
	)
}
