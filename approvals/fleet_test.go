package approvals

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/pgtest"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// opener opens the queue of a daemon over the database of the test. Over a file there is one daemon.
type opener func(t *testing.T, daemon string, o Options) *Queue

// overBoth runs a test over a file, with one daemon in the place of all, and over a PostgreSQL that
// several share.
func overBoth(t *testing.T, test func(t *testing.T, open opener)) {
	t.Run("file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		var one *Queue
		test(t, func(t *testing.T, _ string, o Options) *Queue {
			if one == nil {
				q, done := openQueueAt(t, path, o)
				t.Cleanup(done)
				one = q
			}
			return one
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := pgtest.URL(t)
		test(t, func(t *testing.T, daemon string, o Options) *Queue {
			q, _ := member(t, url, daemon, o)
			return q
		})
	})
}

// unfollowed is the timeout of a queue that hears of nothing by itself.
const unfollowed = 301 * time.Second

// member opens the queue of a daemon that shares a database. kill ends it as a signal would.
func member(t *testing.T, url, daemon string, o Options) (q *Queue, kill func()) {
	t.Helper()
	db, err := store.OpenShared(t.Context(), store.SharedOptions{URL: url, Daemon: daemon}, Schema())
	if err != nil {
		t.Fatal(err)
	}
	if q, err = New(t.Context(), db, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var follows sync.WaitGroup
	if o.Timeout == unfollowed {
		cancel()
	}
	follows.Go(func() {
		if err := q.Follow(ctx, func(err error) { t.Log(daemon, err) }); err != nil {
			t.Error(err)
		}
	})
	kill = sync.OnceFunc(func() {
		cancel()
		follows.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(kill)
	return q, kill
}

// asked is a call that waits for an answer.
type asked struct {
	done   chan struct{}
	answer tool.Approval
	err    error
	leave  context.CancelFunc
}

func askAt(t *testing.T, q *Queue, c *tool.Call) *asked {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &asked{done: make(chan struct{}), leave: cancel}
	go func() {
		defer close(a.done)
		a.answer, a.err = q.Execution(ctx, c)
	}()
	t.Cleanup(cancel)
	return a
}

func (a *asked) want(t *testing.T, approved bool, by, code string) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(time.Minute):
		t.Fatal("the caller still waits")
	}
	if a.err != nil || a.answer.Approved != approved || a.answer.By != by || a.answer.Code != code {
		t.Errorf("got %+v, %v, want approved %v by %q, code %q", a.answer, a.err, approved, by, code)
	}
}

// waitFor waits until so many questions wait, as this queue lists them.
func waitFor(t *testing.T, q *Queue, n int) []Item {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		page, err := q.List(t.Context(), Filter{})
		if err != nil {
			t.Fatal(err)
		}
		var all []Item
		for item, err := range q.Items(t.Context(), page) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, item)
		}
		if len(all) == n {
			return all
		}
		if time.Now().After(end) {
			t.Fatalf("%d questions wait, want %d", len(all), n)
		}
		time.Sleep(time.Millisecond)
	}
}

func execute(query string, args ...any) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	}
}

func TestAQuestionIsAnsweredAtAnotherDaemon(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		a, b := open(t, "a", Options{Approver: true}), open(t, "b", Options{Approver: true})
		for _, yes := range []bool{true, false} {
			call := askAt(t, a, bashCall("git push"))
			item := waitFor(t, b, 1)[0]
			if item.Waiting != 1 {
				t.Errorf("%d calls wait, want 1", item.Waiting)
			}
			if _, err := b.Decide(t.Context(), item.ID, Decision{Approved: yes, By: "ann"}); err != nil {
				t.Fatal(err)
			}
			call.want(t, yes, "ann", "")
			for _, q := range []*Queue{a, b} {
				_, err := q.Decide(t.Context(), item.ID, Decision{Approved: !yes, By: "bob"})
				wantCode(t, err, "already_decided")
			}
		}
	})
}

// A yes for always, given at one daemon, answers at the other, until it is revoked.
func TestGrantsAreOfAllDaemons(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		a, b := open(t, "a", Options{Approver: true}), open(t, "b", Options{Approver: true})
		call := askAt(t, a, bashCall("git push"))
		_, err := b.Decide(t.Context(), waitFor(t, b, 1)[0].ID, Decision{Approved: true, By: "ann", Remember: RememberAlways})
		if err != nil {
			t.Fatal(err)
		}
		call.want(t, true, "ann", "")
		askAt(t, b, bashCall("git push")).want(t, true, "ann", "")
		grants, err := a.Grants(t.Context())
		if err != nil || len(grants) != 1 {
			t.Fatalf("got %d grants, %v", len(grants), err)
		}
		if err := a.Revoke(t.Context(), grants[0].ID, "bob"); err != nil {
			t.Fatal(err)
		}
		call = askAt(t, b, bashCall("git push"))
		if _, err := a.Decide(t.Context(), waitFor(t, a, 1)[0].ID, Decision{By: "bob"}); err != nil {
			t.Fatal(err)
		}
		call.want(t, false, "bob", "")
	})
}

// raceTries is how often each race is tried.
func raceTries(t *testing.T) int { return tier.Rounds(t, 50, 1000) }

// TestAnAnswerCountsOnce: two daemons are given different answers at the same moment.
func TestAnAnswerCountsOnce(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		var mu sync.Mutex
		recorded := map[string][]string{} // answers, by question and daemon
		options := func(daemon string) Options {
			return Options{Approver: true, Record: func(_ context.Context, e Event) error {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == EventDecided {
					recorded[e.Item.ID] = append(recorded[e.Item.ID], e.By)
				}
				return nil
			}}
		}
		a, b := open(t, "a", options("a")), open(t, "b", options("b"))
		for i := range raceTries(t) {
			call := askAt(t, a, bashCall(fmt.Sprint("git push ", i)))
			item := waitFor(t, a, 1)[0]
			var g sync.WaitGroup
			errs := make([]error, 2)
			for n, q := range []*Queue{a, b} {
				g.Go(func() {
					_, errs[n] = q.Decide(t.Context(), item.ID, Decision{Approved: n == 0, By: fmt.Sprint("person ", n)})
				})
			}
			g.Wait()
			winner := slices.Index(errs, nil)
			if winner < 0 {
				t.Fatalf("nobody's answer counts: %v", errs)
			}
			wantCode(t, errs[1-winner], "already_decided")
			call.want(t, winner == 0, fmt.Sprint("person ", winner), "")
			mu.Lock()
			for _, by := range recorded[item.ID] {
				if by != fmt.Sprint("person ", winner) {
					t.Errorf("%s is recorded, and %d was first", by, winner)
				}
			}
			mu.Unlock()
		}
	})
}

// TestALateAnswerServesOneDaemon: it serves one call, at whichever daemon that comes first.
func TestALateAnswerServesOneDaemon(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		a, b := open(t, "a", Options{Approver: true}), open(t, "b", Options{Approver: true})
		call := askAt(t, a, bashCall("git push"))
		item := waitFor(t, b, 1)[0]
		call.leave()
		call.want(t, false, "", CodeLeft)
		if _, err := b.Decide(t.Context(), item.ID, Decision{Approved: true, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // until a has looked
			ids, err := a.ids(t.Context(), `SELECT id FROM approval_questions WHERE $1 <> '-' AND uses = 1`)
			if err != nil || time.Now().After(end) {
				t.Fatal(ids, err)
			}
			if len(ids) == 1 {
				break
			}
		}
		calls := []*asked{askAt(t, a, bashCall("git push")), askAt(t, b, bashCall("git push"))}
		waitFor(t, a, 1) // the question of one; the other is served, which its caller may hear later
		select {
		case <-calls[0].done:
		case <-calls[1].done:
		case <-time.After(3 * time.Minute):
			t.Error("no caller has an answer")
		}
		served := 0
		for _, c := range calls {
			select {
			case <-c.done:
				if c.answer.Approved && c.answer.By == "ann" {
					served++
				}
			default:
			}
		}
		if served != 1 {
			t.Errorf("the answer served %d calls, want 1", served)
		}
	})
}

// TestADeletedSessionIsAskedForNowhere: its questions end at every daemon.
func TestADeletedSessionIsAskedForNowhere(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		a, b := open(t, "a", Options{Approver: true}), open(t, "b", Options{Approver: true})
		call := askAt(t, a, bashCall("git push"))
		waitFor(t, b, 1)
		if err := b.CancelSession(t.Context(), "s1", "the session was deleted"); err != nil {
			t.Fatal(err)
		}
		call.want(t, false, "", CodeCancelled)
	})
}

// TestTheBoundsCountAllDaemons: a session has no more questions because it asks at two daemons.
func TestTheBoundsCountAllDaemons(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		o := Options{Approver: true, MaxPerSession: 2}
		a, b := open(t, "a", o), open(t, "b", o)
		askAt(t, a, bashCall("1"))
		waitFor(t, a, 1)
		askAt(t, b, bashCall("2"))
		waitFor(t, a, 2)
		askAt(t, a, bashCall("3")).want(t, false, "", CodeTooMany)
		askAt(t, b, bashCall("4")).want(t, false, "", CodeTooMany)
	})
}

// TestWatchersHearOfOtherDaemons: who follows one daemon is shown the questions of all.
func TestWatchersHearOfOtherDaemons(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		a, b := open(t, "a", Options{Approver: true}), open(t, "b", Options{Approver: true})
		if b.db.Shared() { // its reader has listed what waits
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if b.fleet.following.Load() {
					break
				}
			}
		}
		heard := b.Subscribe(t.Context())
		call := askAt(t, a, bashCall("git push"))
		e := <-heard
		if e.Kind != EventAsked || e.Item.Daemon != a.db.Daemon() {
			t.Fatalf("heard %s of %q", e.Kind, e.Item.Daemon)
		}
		if _, err := a.Decide(t.Context(), e.Item.ID, Decision{Approved: true, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		call.want(t, true, "ann", "")
		if e := <-heard; e.Kind != EventDecided || e.By != "ann" || e.Item.Status != StatusApproved {
			t.Errorf("heard %s by %q", e.Kind, e.By)
		}
	})
}

// TestTheQuestionsOfADeadDaemonExpire: they are not lost, and nobody can answer them.
func TestTheQuestionsOfADeadDaemonExpire(t *testing.T) { expiresWithItsDaemon(t, pgtest.URL(t)) }

func expiresWithItsDaemon(t *testing.T, url string) {
	t.Helper()
	a, killA := member(t, url, "a", Options{Approver: true})
	b, _ := member(t, url, "b", Options{Approver: true, Timeout: unfollowed})
	call := askAt(t, a, bashCall("git push"))
	item := waitFor(t, b, 1)[0]
	killA()
	call.leave()
	// As when half a minute has passed, for all three.
	set := func(query string, args ...any) {
		t.Helper()
		if err := b.db.Write(t.Context(), execute(query, args...)); err != nil {
			t.Fatal(err)
		}
	}
	live := func(ago time.Duration) {
		t.Helper()
		set(`UPDATE approval_daemons SET beat = $1 WHERE id = 'a'`, b.db.Now().Add(-ago).UnixMilli())
		if err := b.live(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	live(31 * time.Second)
	if got, err := b.Get(t.Context(), item.ID); err != nil || got.Status != StatusPending {
		t.Errorf("a daemon that has just come judges others: %s, %v", got.Status, err)
	}
	b.fleet.steady = b.db.Now().Add(-36 * time.Second)
	live(20 * time.Second)
	if got, err := b.Get(t.Context(), item.ID); err != nil || got.Status != StatusPending {
		t.Errorf("it was there 20 s ago: %s, %v", got.Status, err)
	}
	live(31 * time.Second)
	got, err := b.Get(t.Context(), item.ID)
	if err != nil || got.Status != StatusExpired || got.Reason != reasonDied {
		t.Errorf("got %s (%s), %v, want expired", got.Status, got.Reason, err)
	}
	_, err = b.Decide(t.Context(), item.ID, Decision{Approved: true})
	wantCode(t, err, "expired")
}

// TestAnExpiredQuestionIsAnsweredNowhere: its time may be over before the daemon that asked says so.
func TestAnExpiredQuestionIsAnsweredNowhere(t *testing.T) {
	url := pgtest.URL(t)
	a, _ := member(t, url, "a", Options{Approver: true, Timeout: unfollowed})
	b, _ := member(t, url, "b", Options{Approver: true, Timeout: unfollowed})
	item := itemOf(bashCall("git push"), TypeExecution)
	item.ID, item.Digest, item.Daemon = "apr_late", "digest", a.db.Daemon()
	// Well before: each daemon estimates the time of the database for itself.
	item.CreatedAt, item.ExpiresAt = a.db.Now().Add(-time.Minute), a.db.Now().Add(-30*time.Second)
	if err := a.db.Write(t.Context(), func(tx *sql.Tx) error { return insertItem(tx, item, itemText(t, item)) }); err != nil {
		t.Fatal(err)
	}
	_, err := b.Decide(t.Context(), item.ID, Decision{Approved: true, By: "ann"})
	wantCode(t, err, "expired")
}

// TestALateAnswerIsTakenOnce: two daemons look for it at the same moment.
func TestALateAnswerIsTakenOnce(t *testing.T) {
	url := pgtest.URL(t)
	a, _ := member(t, url, "a", Options{Approver: true, Timeout: unfollowed})
	b, _ := member(t, url, "b", Options{Approver: true, Timeout: unfollowed})
	for i := range raceTries(t) {
		item := itemOf(bashCall("git push"), TypeExecution)
		item.ID, item.Digest = fmt.Sprint("apr_", i), fmt.Sprint("digest ", i)
		item.CreatedAt, item.ExpiresAt = a.db.Now(), a.db.Now().Add(time.Minute)
		err := a.db.Write(t.Context(), func(tx *sql.Tx) error {
			yes := answer{Status: StatusApproved, By: "ann"}
			if err := insertItem(tx, item, itemText(t, item)); err != nil {
				return err
			}
			return updateAnswer(tx, item.ID, yes, a.db.Now(), time.Hour, 0, true)
		})
		if err != nil {
			t.Fatal(err)
		}
		var g sync.WaitGroup
		taken := make([]bool, 2)
		for n, q := range []*Queue{a, b} {
			g.Go(func() {
				var err error
				_, taken[n], err = q.lateAnswer(t.Context(), digestKey{item.Type, item.Digest}, q.db.Now())
				if err != nil {
					t.Error(err)
				}
			})
		}
		g.Wait()
		if taken[0] == taken[1] {
			t.Fatalf("round %d: taken by %v", i, taken)
		}
	}
}

// TestAnAnswerThatWasStoredUnheardReachesWhoWaits: the database goes away when it has stored an answer, or that
// it was delivered, and before it says so. Whoever waits gets that answer, once.
func TestAnAnswerThatWasStoredUnheardReachesWhoWaits(t *testing.T) {
	yes := answer{Status: StatusApproved, By: "ann", Remember: RememberOnce}
	for name, tt := range map[string]struct {
		answeredAt string
		store      func(q *Queue, id string) func(*sql.Tx) error // what the database kept of it
	}{
		"the delivery of another daemon's": {"b", func(*Queue, string) func(*sql.Tx) error {
			return execute(`UPDATE approval_questions SET seen = 1, uses = 0`)
		}},
		"the answer given here": {"a", func(q *Queue, id string) func(*sql.Tx) error {
			return func(tx *sql.Tx) error { return updateAnswer(tx, id, yes, q.db.Now(), time.Hour, 1, true) }
		}},
		"nothing": {"a", func(*Queue, string) func(*sql.Tx) error {
			return func(*sql.Tx) error { return nil }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.URL(t)
			var away atomic.Bool
			a, _ := member(t, url, "a", Options{Approver: true, Timeout: unfollowed, Record: func(context.Context, Event) error {
				if away.Load() {
					return errors.New("the database has gone away")
				}
				return nil
			}})
			b, _ := member(t, url, "b", Options{Approver: true, Timeout: unfollowed})
			call := askAt(t, a, bashCall("git push"))
			id := waitFor(t, a, 1)[0].ID

			away.Store(true)
			decision := Decision{Approved: true, By: "ann"}
			if tt.answeredAt == "b" {
				if _, err := b.Decide(t.Context(), id, decision); err != nil {
					t.Fatal(err)
				}
				if err := a.look(t.Context()); err == nil {
					t.Fatal("the answer was delivered without a database")
				}
			} else if _, err := a.Decide(t.Context(), id, decision); err == nil {
				t.Fatal("the answer was taken without a database")
			}
			if err := b.db.Write(t.Context(), tt.store(b, id)); err != nil {
				t.Fatal(err)
			}
			away.Store(false)

			if name == "nothing" {
				_, none := b.Decide(t.Context(), id, decision) // it waits on, and hears of the next answer
				if err := errors.Join(none, a.look(t.Context())); err != nil {
					t.Fatal(err)
				}
				call.want(t, true, "ann", "")
				return
			}
			_, err := b.Decide(t.Context(), id, decision)
			wantCode(t, err, "already_decided")
			another := askAt(t, a, bashCall("git push")) // the same call again: the yes is not for it
			if item := waitFor(t, b, 1)[0]; item.ID == id {
				t.Error("it joined the question that is answered")
			}
			if err := a.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			call.want(t, true, "ann", "")
			if _, err := b.Decide(t.Context(), waitFor(t, b, 1)[0].ID, Decision{By: "bob"}); err != nil {
				t.Fatal(err)
			}
			if err := a.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			another.want(t, false, "bob", "")
		})
	}
}

func itemText(t *testing.T, i Item) string {
	t.Helper()
	text, err := encoded(i)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
