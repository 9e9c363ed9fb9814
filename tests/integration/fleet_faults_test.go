package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/pgtest"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// crashRounds is how often something is killed.
func crashRounds(t *testing.T) int { return tier.Rounds(t, 5, 400) }

// What happens to a question in a round of TestFleet_NoAnswerIsUsedTwice.
const (
	askerWhile     = iota // the daemon that asked is killed while the yes is given
	databaseWhile         // the database is killed then
	databaseBefore        // the database is killed before, and is back
)

// TestFleet_NoAnswerIsUsedTwice: one yes lets one call run, whether the daemon that asked is killed while it is
// given, or the database.
func TestFleet_NoAnswerIsUsedTwice(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	fleet := newFleet(t, server.Database(t), fleetAsks, 2)
	a, b := fleet[0], fleet[1]
	session := a.session()
	for round := range crashRounds(t) {
		command := fmt.Sprintf(`{"command":"echo %d >> ran"}`, round)
		call := a.ask(session, "Bash", command)
		id := b.waiting(1)[0].ID
		kind := round % 3
		if kind == databaseBefore {
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := server.Run(); err != nil {
				t.Fatal(err)
			}
		}
		said := make(chan error, 1)
		go func() { said <- answer(b, id, true) }()
		// the moment does not matter, so long as they differ
		time.Sleep(time.Duration(7*round%20) * time.Millisecond)
		least := 0 // how often the call must run
		switch kind {
		case askerWhile:
			a.stop(os.Kill)
			if err := <-said; err != nil {
				t.Fatalf("round %d, the daemon that asked was killed: %v", round, err)
			}
			<-call
			a.start()
		case databaseWhile:
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			err := <-said
			if err := server.Run(); err != nil {
				t.Fatal(err)
			}
			if err != nil { // it may count all the same
				if err := answer(b, id, true); err != nil && errorCode(err) != "already_decided" {
					t.Fatalf("round %d, the database is back: %v", round, err)
				}
			}
			switch r := <-call; {
			case r.Status == client.StatusSuccess:
				least = 1
			case r.Error == nil || r.Error.Code != "store_unavailable": // it had the yes and could not write that it begins
				t.Errorf("round %d: there was a yes, and the call got %+v", round, r)
			}
		case databaseBefore:
			if err := <-said; err != nil {
				t.Fatalf("round %d, the database was away while nobody had answered: %v", round, err)
			}
			least = 1
			if r := <-call; r.Status != client.StatusSuccess {
				t.Errorf("round %d: there was a yes, and the call got %+v", round, r)
			}
		}
		for range 2 { // by the yes if nobody has used it, else somebody is asked
			a.refused(b, session, command)
		}
		text, err := os.ReadFile(filepath.Join(a.ws, "ran"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		n := 0
		for _, line := range strings.Fields(string(text)) {
			if line == fmt.Sprint(round) {
				n++
			}
		}
		if n < least || n > 1 {
			t.Fatalf("round %d: one yes, and the call ran %d times", round, n)
		}
		var q struct{ Status string }
		if a.do(http.MethodGet, "/approvals/"+id, nil, &q); q.Status != "approved" {
			t.Fatalf("round %d: the yes was acknowledged, and the question is %s", round, q.Status)
		}
	}
}

// refused makes a call, and says no at another daemon if that asks.
func (d *running) refused(at *running, session, command string) {
	d.t.Helper()
	call := d.ask(session, "Bash", command)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		select {
		case <-call:
			return
		case <-time.After(10 * time.Millisecond):
			page, _ := at.questions("")
			for _, q := range page {
				if err := answer(at, q.ID, false); err != nil && errorCode(err) != "already_decided" {
					d.t.Fatal(err)
				}
			}
		}
	}
	d.t.Fatal("the call still waits")
}

// TestFleet_ADatabaseThatTakesNoWrites: nothing runs that cannot be written down, also not with a database
// of yesterday; and a daemon that starts goes on with that one.
func TestFleet_ADatabaseThatTakesNoWrites(t *testing.T) {
	tier.Long(t, "PostgreSQL with faults")
	t.Parallel()
	server := pgtest.Start(t)
	d := newFleet(t, server.Database(t), "", 1)[0]
	session := d.session()
	ran, wasted := 0, 0
	appends := func() client.Result {
		t.Helper()
		r, err := d.agent.Call(t.Context(), session, "Bash", []byte(`{"command":"echo x >> ran"}`))
		switch {
		case err == nil && r.Status == client.StatusSuccess:
			ran++
		case err != nil:
			r.Error = &client.Error{Code: errorCode(err)}
		}
		return r
	}
	works := func() bool { return appends().Status == client.StatusSuccess }
	// A call that has begun when a write is refused for the first time has run. For two seconds nothing begins.
	fails := func(code string, vain time.Duration) {
		t.Helper()
		begun := time.Now()
		if !waitFor(func() bool { return !works() }) { // connections read a setting when they are idle
			t.Fatal("calls run")
		}
		for range 3 {
			if r := appends(); r.Error == nil || r.Error.Code != code {
				t.Errorf("got %+v, want %s", r, code)
			}
		}
		text, err := os.ReadFile(filepath.Join(d.ws, "ran"))
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		if vain > 0 {
			most = 1 + int(time.Since(begun)/vain)
		}
		n := strings.Count(string(text), "x") - ran - wasted
		if n < 0 || n > most {
			t.Errorf("%d calls ran in vain, want %d at most", n, most)
		}
		wasted += n
	}
	if !works() {
		t.Fatal("the call did not run")
	}
	server.SQL(t, `ALTER SYSTEM SET default_transaction_read_only = on`)
	server.SQL(t, `SELECT pg_reload_conf()`)
	fails("store_unavailable", 2*time.Second)
	server.SQL(t, `ALTER SYSTEM RESET default_transaction_read_only`)
	server.SQL(t, `SELECT pg_reload_conf()`)
	if !waitFor(works) {
		t.Fatalf("the daemon does not come back:\n%s", d.log)
	}

	restore := server.Backup(t)
	if !waitFor(works) {
		t.Fatalf("the daemon does not come back:\n%s", d.log)
	}
	later := d.session()
	restore()
	fails("store_restored", 0)
	d.stop(os.Interrupt)
	d.start()
	if !works() {
		t.Error("a daemon that has started again does not use the database")
	}
	_, err := d.agent.Call(t.Context(), later, "Bash", []byte(`{"command":"true"}`))
	wantErrorCode(t, err, "session_not_found")
}

// TestFleet_AnOlderVersionDoesNotStart: where a newer one has changed the tables. The older one that runs goes on.
func TestFleet_AnOlderVersionDoesNotStart(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	d := newFleet(t, url, "", 1)[0]
	s := d.session()
	at(t, url, `ALTER TABLE sessions ADD COLUMN later TEXT NOT NULL DEFAULT ''`,
		`INSERT INTO sandboxd_migrations (name, version, applied) VALUES ('sessions', 99, 'later')`)
	d.mustCall(s, "Bash", `{"command":"true"}`)
	d.session()
	// Nor does a new connection take it for another database.
	at(t, url, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	if !waitFor(func() bool { return d.agent.Do(t.Context(), "GET", "/sessions/"+s, nil, nil) == nil }) {
		t.Fatalf("it lost its session: %s", d.log)
	}
	d.mustCall(s, "Bash", `{"command":"true"}`)
	other := newPlaces(t, "")
	other.over(url)
	out, err := other.loneSays("serve")
	if err == nil || !strings.Contains(out, "newer version") || !strings.Contains(out, "hint: a newer sandboxd") {
		t.Errorf("it ended with %v:\n%s", err, out)
	}
}
