package store_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/tests/pgtest"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestADatabaseThatIsFull: a write that does not fit changes nothing, and they go on when there is room.
func TestADatabaseThatIsFull(t *testing.T) {
	tier.Long(t, "PostgreSQL with faults")
	server := pgtest.Start(t)
	url, disk := server.OnSmallDisk(t, 24)
	db := member(t, url, "d1", 0)
	large := strings.Repeat("x", 1<<20)
	err := db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`ALTER TABLE notes ALTER text SET STORAGE EXTERNAL`) // not compressed
		return err
	})
	fits := 0
	for ; err == nil && fits < 100; fits++ {
		err = db.Write(t.Context(), func(tx *sql.Tx) error { return errors.Join(note("first")(tx), note(large)(tx)) })
	}
	if !errors.Is(err, store.ErrFull) {
		t.Fatalf("after %d rows: got %v, want ErrFull", fits, err)
	}
	if _, why, away := db.Away(); !away || !strings.Contains(why, "no room") {
		t.Errorf("away: %v, %q", away, why)
	}
	disk.Grow(t, 64)
	if err := db.Write(t.Context(), note(large)); err != nil {
		t.Errorf("there is room: %v", err)
	}
	want := 2*(fits-1) + 1
	eventually(t, func() error { return db.Read(t.Context(), func(*sql.Tx) error { return nil }) })
	for {
		err := db.Write(t.Context(), note("small"))
		if want++; err != nil {
			t.Fatal(err)
		}
		if _, _, away := db.Away(); !away {
			break
		}
	}
	if got := countNotes(t, db); got != want {
		t.Errorf("%d rows, want the %d that were acknowledged", got, want)
	}
}

// TestADatabaseThatIsReadOnly: nothing is written until it is not, also by connections of before.
func TestADatabaseThatIsReadOnly(t *testing.T) {
	tier.Long(t, "PostgreSQL with faults")
	server := pgtest.Start(t)
	db := member(t, server.Database(t), "d1", 500*time.Millisecond)
	if err := db.Write(t.Context(), note("before")); err != nil {
		t.Fatal(err)
	}
	server.SQL(t, `ALTER SYSTEM SET default_transaction_read_only = on`)
	server.SQL(t, `SELECT pg_reload_conf()`)
	unknown := 0
	refused := func() bool {
		err := db.Write(t.Context(), note("x"))
		if errors.Is(err, store.ErrUnknown) {
			unknown++
		}
		if err != nil && !errors.Is(err, store.ErrReadOnly) && !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("got %v, want ErrReadOnly or ErrUnavailable", err)
		}
		return err != nil
	}
	written := 1                                                    // at least; a commit that was not answered in time may be there too
	for end := time.Now().Add(time.Minute); !refused(); written++ { // a connection reads the setting when it is idle
		if time.Now().After(end) {
			t.Fatal("it takes writes")
		}
	}
	for range 3 {
		if !refused() {
			t.Error("a write after one that was refused was not")
		}
	}
	server.SQL(t, `ALTER SYSTEM RESET default_transaction_read_only`)
	server.SQL(t, `SELECT pg_reload_conf()`)
	for end := time.Now().Add(time.Minute); refused(); {
		if time.Now().After(end) {
			t.Fatal("it can be written, and no write is let in")
		}
	}
	eventually(t, func() error { return db.Read(t.Context(), func(*sql.Tx) error { return nil }) })
	if got := countNotes(t, db); got < written+1 || got > written+1+unknown {
		t.Errorf("%d rows, want the %d that were acknowledged, and %d at most that may be", got, written+1, unknown)
	}
}

// TestADatabaseThatIsSlow: with half a second for each answer, one daemon after the other writes.
func TestADatabaseThatIsSlow(t *testing.T) {
	tier.Long(t, "PostgreSQL with faults")
	server := pgtest.Start(t)
	proxy := pgtest.Through(t, server)
	url := proxy.URL(server.Database(t))
	two := []*store.DB{member(t, url, "a", time.Minute), member(t, url, "b", time.Minute)}
	told := two[1].Changes(t.Context(), "notes")
	proxy.Slow(500 * time.Millisecond)
	var g sync.WaitGroup
	for _, db := range two {
		g.Go(func() {
			err := db.Write(t.Context(), func(tx *sql.Tx) error { return errors.Join(note("x")(tx), db.Notify(tx, "notes")) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	for countNotes(t, two[1]) < 2 {
		<-told
	}
	hurried := member(t, server.Database(t), "c", time.Minute)
	if err := hurried.Write(t.Context(), note("x")); err != nil {
		t.Errorf("a database beside: %v", err)
	}
}

// TestADatabaseTooSlow: what takes longer than the timeout is unavailable, and changed nothing.
func TestADatabaseTooSlow(t *testing.T) {
	server := pgtest.Start(t)
	proxy := pgtest.Through(t, server)
	direct := server.Database(t)
	db := member(t, proxy.URL(direct), "a", 400*time.Millisecond)
	proxy.Slow(500 * time.Millisecond)
	if err := db.Write(t.Context(), note("x")); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if _, _, away := db.Away(); !away {
		t.Error("it is not said to be away")
	}
	proxy.Slow(0)
	unknown := eventually(t, func() error { return db.Write(t.Context(), note("y")) })
	if got := countNotes(t, member(t, direct, "b", time.Minute)); got < 1 || got > 1+unknown {
		t.Errorf("%d rows, want the one that was acknowledged, and %d at most that may be", got, unknown)
	}
}

// eventually waits until a database is used again. It returns how many tries may have counted that were not
// answered in time.
func eventually(t *testing.T, try func() error) (unknown int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		err := try()
		if err == nil {
			return unknown
		}
		if errors.Is(err, store.ErrUnknown) {
			unknown++
		}
		if !errors.Is(err, store.ErrUnavailable) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestAFailoverToACopy: the address leads to another server. Until that takes writes nothing is written,
// and then all that was acknowledged is there.
func TestAFailoverToACopy(t *testing.T) {
	tier.Long(t, "PostgreSQL with faults")
	first := pgtest.Start(t)
	second := first.Standby(t)
	proxy := pgtest.Through(t, first)
	db := member(t, proxy.URL(first.Database(t)), "a", 500*time.Millisecond)
	acknowledged, unknown := 0, 0
	for range 30 {
		unknown += eventually(t, func() error { return db.Write(t.Context(), note("before")) })
		acknowledged++
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	proxy.To(second)
	if err := db.Write(t.Context(), note("to a copy")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a copy that follows: got %v, want ErrUnavailable", err)
	}
	second.Promote(t)
	unknown += eventually(t, func() error { return db.Write(t.Context(), note("after")) })
	if got := countNotes(t, db); got < acknowledged+1 || got > acknowledged+1+unknown {
		t.Errorf("%d rows, and %d were acknowledged, %d may be there too", got, acknowledged+1, unknown)
	}
}

// TestADatabaseOfYesterday: a daemon that has used what came after a backup refuses to go on with it, since
// it would take new rows for those that had their numbers. One that starts does.
func TestADatabaseOfYesterday(t *testing.T) {
	tier.Long(t, "PostgreSQL with faults")
	server := pgtest.Start(t)
	for name, replace := range map[string]func(t *testing.T, url string) (restore func()){
		"the files of the server": func(t *testing.T, _ string) func() { return server.Backup(t) },
		"made again": func(t *testing.T, url string) func() {
			name := strings.TrimPrefix(strings.Split(url, "?")[0], "postgres://sandboxd@/")
			return func() {
				server.SQL(t, "DROP DATABASE "+name+" WITH (FORCE)")
				server.SQL(t, "CREATE DATABASE "+name)
				member(t, url, "c", time.Minute)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := server.Database(t)
			a, b := member(t, url, "a", time.Second), member(t, url, "b", time.Second)
			restore := replace(t, url)
			eventually(t, func() error { return a.Write(t.Context(), note("after the backup")) })
			if got := countNotes(t, b); got < 1 {
				t.Fatal("what was acknowledged is not there")
			}
			restore()
			for range 5 { // also when the numbers of before have been given again
				if err := a.Write(t.Context(), note("x")); !errors.Is(err, store.ErrRestored) {
					t.Errorf("a write: got %v, want ErrRestored", err)
				}
				if err := a.Read(t.Context(), note("x")); !errors.Is(err, store.ErrRestored) {
					t.Errorf("a read: got %v, want ErrRestored", err)
				}
				fresh := member(t, url, "a", time.Minute)
				if err := fresh.Write(t.Context(), note("by one that has started again")); err != nil {
					t.Error(err)
				}
			}
			if _, why, away := a.Away(); !away || !strings.Contains(why, "restored") {
				t.Errorf("away: %v, %q", away, why)
			}
			// Another database, another server or a restart that lost nothing is no matter.
			other := member(t, server.Database(t), "a", time.Minute)
			if err := errors.Join(other.Write(t.Context(), note("x")), server.Kill(), server.Run()); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error { return other.Write(t.Context(), note("x")) })
		})
	}
}

// TestLostNoticesAreMadeUpFor: the connection that listens is ended over and over, and what another daemon
// writes without a word is seen too.
func TestLostNoticesAreMadeUpFor(t *testing.T) {
	url := pgtest.URL(t)
	a, b := member(t, url, "a", 0), member(t, url, "b", 0)
	told := b.Changes(t.Context(), "notes")
	for i := range 5 {
		err := a.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND query = 'LISTEN sandboxd'`)
			return errors.Join(err, note("x")(tx), a.Notify(tx, "notes"))
		})
		if err != nil {
			t.Fatal(err)
		}
		for countNotes(t, b) <= 2*i {
			<-told
		}
		if err := a.Write(t.Context(), note("without a word")); err != nil {
			t.Fatal(err)
		}
		for countNotes(t, b) <= 2*i+1 {
			<-told
		}
	}
}

// TestAnOlderVersionRefusesNewerTables: one that runs goes on beside tables and columns that were added.
func TestAnOlderVersionRefusesNewerTables(t *testing.T) {
	url := pgtest.URL(t)
	old := member(t, url, "old", 0)
	first, err := fs.ReadFile(storetest.Notes.Postgres, "0001_step.sql")
	if err != nil {
		t.Fatal(err)
	}
	later := storetest.Notes
	later.Postgres = fstest.MapFS{
		"0001_step.sql": {Data: first},
		"0002_more.sql": {Data: []byte(`ALTER TABLE notes ADD COLUMN more TEXT NOT NULL DEFAULT ''`)},
	}
	fresh, err := store.OpenShared(t.Context(), store.SharedOptions{URL: url, Daemon: "new"}, later)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if err := errors.Join(old.Write(t.Context(), note("old")), fresh.Write(t.Context(), note("new"))); err != nil {
		t.Error(err)
	}
	if a, b := countNotes(t, old), countNotes(t, fresh); a != 2 || b != 2 {
		t.Errorf("the old one has %d rows, the new one %d, want 2", a, b)
	}
	_, err = store.OpenShared(context.WithoutCancel(t.Context()), store.SharedOptions{URL: url, Daemon: "old"},
		storetest.Notes)
	if !errors.Is(err, store.ErrNewer) {
		t.Errorf("the old one starts: got %v, want ErrNewer", err)
	}
}

// TestAWriteWhoseConnectionBreaksEnds: its frequent statements are refused, and the next write goes on.
func TestAWriteWhoseConnectionBreaksEnds(t *testing.T) {
	db := member(t, pgtest.URL(t), "d1", 0)
	const insert = `INSERT INTO notes (text) VALUES ($1)`
	err := db.Write(t.Context(), func(tx *sql.Tx) error {
		if _, err := db.Exec(insert, "a"); err != nil {
			return err
		}
		_, gone := tx.Exec(`SELECT pg_terminate_backend(pg_backend_pid())`)
		_, after := db.Exec(insert, "b")
		if gone == nil || after == nil {
			t.Errorf("the connection is there: %v, %v", gone, after)
		}
		return errors.Join(after, db.Row(`SELECT 1`).Scan(new(int)), db.Writing(tx).Run(insert, "c"))
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if err := db.Write(t.Context(), note("d")); err != nil {
		t.Error(err)
	}
}
