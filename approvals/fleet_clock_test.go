package approvals

import (
	"fmt"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/pgtest"
)

// TestClocksAnHourApart: the clock of the database is an hour from those of the hosts, as those of the hosts
// may be from each other. Questions, grants and late answers live as long as they should.
func TestClocksAnHourApart(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			url := pgtest.URLWithClock(t, ahead)
			a, _ := member(t, url, "a", Options{Approver: true})
			b, _ := member(t, url, "b", Options{Approver: true})
			if apart := b.db.Now().Sub(time.Now().Add(ahead)).Abs(); apart > 10*time.Minute {
				t.Fatalf("the clock of the database is %v from where it should be", apart)
			}
			call := askAt(t, a, bashCall("git push"))
			item := waitFor(t, b, 1)[0]
			_, err := b.Decide(t.Context(), item.ID, Decision{Approved: true, By: "ann", Remember: RememberAlways})
			if err != nil {
				t.Fatal(err)
			}
			call.want(t, true, "ann", "")
			for _, q := range []*Queue{a, b} { // by the grant
				askAt(t, q, bashCall("git push")).want(t, true, "ann", "")
			}
			// The caller left before: the answer serves the next one.
			call = askAt(t, a, bashCall("git pull"))
			item = waitFor(t, b, 1)[0]
			call.leave()
			call.want(t, false, "", CodeLeft)
			if _, err := b.Decide(t.Context(), item.ID, Decision{Approved: true, By: "bob"}); err != nil {
				t.Fatal(err)
			}
			for a.lacks(t, item.ID) { // until a has heard of it
				time.Sleep(time.Millisecond)
			}
			askAt(t, b, bashCall("git pull")).want(t, true, "bob", "")
		})
		t.Run(fmt.Sprint(ahead, " and nobody answers"), func(t *testing.T) {
			a, _ := member(t, pgtest.URLWithClock(t, ahead), "a", Options{Approver: true, Timeout: time.Second})
			askAt(t, a, bashCall("git push")).want(t, false, "", CodeTimedOut)
		})
		t.Run(fmt.Sprint(ahead, " and the daemon dies"), func(t *testing.T) {
			expiresWithItsDaemon(t, pgtest.URLWithClock(t, ahead))
		})
	}
}

// lacks reports whether no later call could use the answer to a question.
func (q *Queue) lacks(t *testing.T, id string) bool {
	t.Helper()
	ids, err := q.ids(t.Context(), `SELECT id FROM approval_questions WHERE daemon = $1 AND uses = 1`)
	if err != nil {
		t.Fatal(err)
	}
	return len(ids) != 1 || ids[0] != id
}
