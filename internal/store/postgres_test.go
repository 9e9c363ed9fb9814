package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/tests/pgtest"
)

func newShared(t *testing.T) storetest.Open {
	url := pgtest.URL(t)
	return func(ctx context.Context, schemas ...store.Schema) (*store.DB, error) {
		return store.OpenShared(ctx, store.SharedOptions{URL: url, Daemon: "d1"}, schemas...)
	}
}

func TestSuiteOverPostgreSQL(t *testing.T) { storetest.Run(t, newShared) }

// member opens the database as one of several daemons.
func member(t *testing.T, url, daemon string, timeout time.Duration) *store.DB {
	t.Helper()
	o := store.SharedOptions{URL: url, Daemon: daemon, Timeout: timeout}
	db, err := store.OpenShared(t.Context(), o, storetest.Notes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func note(text string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO notes (text) VALUES ($1)`, text)
		return err
	}
}

func TestReadersDoNotWaitForEachOtherOverPostgreSQL(t *testing.T) {
	together(t, member(t, pgtest.URL(t), "d1", time.Minute), 8)
}

// TestDaemonsMakeTheTablesAtOnce: and then none of them loses what another one counts.
func TestDaemonsMakeTheTablesAtOnce(t *testing.T) {
	url := pgtest.URL(t)
	var g sync.WaitGroup
	for i := range 6 {
		g.Go(func() {
			db := member(t, url, fmt.Sprint("d", i), 0)
			for range 20 {
				err := db.Write(t.Context(), func(tx *sql.Tx) error {
					var n int
					if err := tx.QueryRow(`SELECT count(*) FROM notes`).Scan(&n); err != nil {
						return err
					}
					return note(fmt.Sprint(n))(tx) // the number of those before, if nobody writes beside
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	db := member(t, url, "reader", 0)
	var all, different int
	err := db.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT count(*), count(DISTINCT text) FROM notes`).Scan(&all, &different)
	})
	if err != nil || all != 120 || different != 120 {
		t.Errorf("%d rows with %d numbers, %v, want 120", all, different, err)
	}
}

// TestADatabaseThatDiesIsUsedAgain: nothing that was acknowledged is lost, and nobody opens it anew.
func TestADatabaseThatDiesIsUsedAgain(t *testing.T) {
	server := pgtest.Start(t)
	const timeout = time.Second
	url := server.Database(t)
	db := member(t, url, "d1", timeout)
	acknowledged := 0
	for range 3 {
		var writer sync.WaitGroup
		stop, begun := make(chan struct{}), make(chan struct{}, 1)
		writer.Go(func() { // killed in the middle of its commits
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch err := db.Write(t.Context(), note("x")); {
				case err == nil:
					acknowledged++
					select {
					case begun <- struct{}{}:
					default:
					}
				case !errors.Is(err, store.ErrUnavailable):
					t.Errorf("got %v, want ErrUnavailable", err)
				}
			}
		})
		select {
		case <-begun: // so the next commit is under way
		case <-time.After(2 * time.Minute):
			t.Fatal("nothing was written")
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := db.Read(t.Context(), note("y")); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("away: got %v, want ErrUnavailable", err)
		}
		if _, why, away := db.Away(); !away || why == "" {
			t.Errorf("away: %v, %q", away, why)
		}
		close(stop)
		writer.Wait()
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
		// On a busy machine even a write to a server that is back may take longer than the timeout.
		eventually(t, func() error { return db.Write(t.Context(), note("z")) })
		acknowledged++
		if _, why, away := db.Away(); away {
			t.Errorf("it is back, and said to be away: %s", why)
		}
	}
	if got := countNotes(t, member(t, url, "d2", time.Minute)); got < acknowledged {
		t.Errorf("%d rows, and %d were acknowledged", got, acknowledged)
	}
}

// TestADatabaseThatStandsStill: a server that neither answers nor closes keeps nobody for ever.
func TestADatabaseThatStandsStill(t *testing.T) {
	server := pgtest.Start(t)
	db := member(t, server.Database(t), "d1", time.Minute)
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// A new connection waits for the server; one that is there has a process of its own.
	_ = db.Close()
	_, err := func() (*store.DB, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return store.OpenShared(ctx, store.SharedOptions{
			URL: "postgres://sandboxd@/postgres?host=" + server.Dir(), Daemon: "d2", Timeout: 300 * time.Millisecond,
		}, storetest.Notes)
	}()
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// TestAStoppedWriterKeepsNobody: the database ends the transaction of a daemon that stopped in it.
func TestAStoppedWriterKeepsNobody(t *testing.T) {
	url := pgtest.URL(t)
	a, b := member(t, url, "a", 2*time.Minute), member(t, url, "b", 5*time.Minute)
	err := a.Write(t.Context(), func(tx *sql.Tx) error {
		if err := note("half")(tx); err != nil {
			return err
		}
		const limit = "idle_in_transaction_session_timeout"
		var set string
		if err := tx.QueryRow(`SHOW ` + limit).Scan(&set); err != nil || set != "2min" {
			t.Errorf("the database waits for %q, %v, want the timeout of the daemon", set, err)
		}
		// From here on it stops. Before that, a busy machine has the whole timeout.
		if _, err := tx.Exec(`SET LOCAL ` + limit + ` = '100ms'`); err != nil {
			return err
		}
		return b.Write(t.Context(), note("whole")) // a says nothing to the database meanwhile
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the one that stopped: got %v, want ErrUnavailable", err)
	}
	if got := countNotes(t, b); got != 1 {
		t.Errorf("%d rows, want that of the other", got)
	}
}

// TestANoticeWakesTheOthers: before they would look by themselves.
func TestANoticeWakesTheOthers(t *testing.T) {
	url := pgtest.URL(t)
	a, b := member(t, url, "a", 0), member(t, url, "b", 0)
	told := b.Changes(t.Context(), "notes")
	<-told // it listens
	for i := range 20 {
		err := a.Write(t.Context(), func(tx *sql.Tx) error { return errors.Join(note("x")(tx), a.Notify(tx, "notes")) })
		if err != nil {
			t.Fatal(err)
		}
		for countNotes(t, b) <= i {
			if _, open := <-told; !open {
				t.Fatal("it listens no more")
			}
		}
	}
}

// TestANoticeIsOfItsTopic: who follows another one is not woken, and one daemon alone is told too.
func TestANoticeIsOfItsTopic(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, storetest.Notes)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	mine, other := db.Changes(ctx, "mine"), db.Changes(ctx, "other")
	for range 2 {
		<-mine
		select {
		case <-other: // the first look
		default:
		}
		err := db.Write(t.Context(), func(tx *sql.Tx) error { return db.Notify(tx, "mine") })
		if err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-other:
		t.Error("who follows another topic was woken")
	default:
	}
	cancel()
	for range mine { // it ends
	}
}

// TestConnectionsAreBounded: under load, with many who follow changes.
func TestConnectionsAreBounded(t *testing.T) {
	url := pgtest.URL(t)
	two := []*store.DB{member(t, url, "a", time.Minute), member(t, url, "b", time.Minute)}
	var g sync.WaitGroup
	most := atomic.Int64{}
	for i := range 60 {
		db := two[i%2]
		db.Changes(t.Context(), fmt.Sprint("topic ", i))
		g.Go(func() {
			for range 5 {
				err := errors.Join(db.Write(t.Context(), note("x")), db.Read(t.Context(), func(tx *sql.Tx) error {
					var n int64
					err := tx.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`).Scan(&n)
					most.Store(max(most.Load(), n))
					return err
				}))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	if n := most.Load(); n > 20 || n < 4 {
		t.Errorf("two daemons had %d connections, want 20 at most", n)
	}
}

func TestAddressesOfDatabases(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"postgres://u@h/d", ""},
		{"postgresql://u@h:5433/d?sslmode=disable", ""},
		{"postgres://u@/d?host=/run/postgresql", ""},
		{"mysql://u@h/d", "does not begin with postgres://"},
		{"host=h user=u", "does not begin with postgres://"},
		{"postgres://u:SECRET@h/d", "has a password"},
		{"postgres://u@h/d?password=SECRET", "has a password"},
		{"postgres://u@h/d?sslpassword=SECRET", "has a password"},
		{"postgres://u@h:nan/d", "is not an address"},
	} {
		err := store.CheckURL(tt.url)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.url, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// TestNoPasswordIsShown: the database refuses one, and the error names user and database alone.
func TestNoPasswordIsShown(t *testing.T) {
	_, err := store.OpenShared(t.Context(), store.SharedOptions{
		URL: strings.Replace(pgtest.URL(t), "sandboxd@", "nobody_here@", 1), Password: "SECRET", Daemon: "d1",
	}, storetest.Notes)
	if !errors.Is(err, store.ErrDenied) || strings.Contains(err.Error(), "SECRET") ||
		!strings.Contains(err.Error(), `of user "nobody_here"`) {
		t.Errorf("got %v", err)
	}
}

// TestTextThatTheDatabaseCannotKeep: it is the caller's mistake, and nothing was changed.
func TestTextThatTheDatabaseCannotKeep(t *testing.T) {
	db := member(t, pgtest.URL(t), "d1", 0)
	for _, text := range []string{"a\x00b", "a\xff"} {
		if err := db.Write(t.Context(), note(text)); !errors.Is(err, store.ErrText) {
			t.Errorf("%q: got %v, want ErrText", text, err)
		}
	}
	if got := countNotes(t, db); got != 0 {
		t.Errorf("%d rows, want none", got)
	}
}

// TestACacheKeepsNothingThatOthersChange: what another daemon wrote is read at once.
func TestACacheKeepsNothingThatOthersChange(t *testing.T) {
	url := pgtest.URL(t)
	a, b := member(t, url, "a", 0), member(t, url, "b", 0)
	cache := store.NewCache(a, func(string) int { return 1 })
	get := func() (text string) {
		t.Helper()
		text, err := cache.Get("k", func() (text string, err error) {
			err = a.Read(t.Context(), func(tx *sql.Tx) error {
				return tx.QueryRow(`SELECT coalesce(max(text), '') FROM notes`).Scan(&text)
			})
			return text, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, want := range []string{"", "1", "2"} {
		if want != "" {
			if err := b.Write(t.Context(), note(want)); err != nil {
				t.Fatal(err)
			}
		}
		if got := get(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
