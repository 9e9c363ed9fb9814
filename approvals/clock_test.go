package approvals

import (
	"database/sql"
	"testing"
	"testing/synctest"
	"time"
)

// setBack sets the clock of the host back: what was written is that much more in the future.
func setBack(t *testing.T, q *Queue, by time.Duration) {
	t.Helper()
	err := q.db.Write(t.Context(), func(tx *sql.Tx) error {
		for _, set := range []string{
			`approval_grants SET created_at = created_at + $1, expires_at = expires_at + $1`,
			`approval_questions SET expires_at = expires_at + $1`,
			`approval_questions SET decided_at = decided_at + $1, usable_until = usable_until + $1
				WHERE status <> 'pending'`,
		} {
			if _, err := tx.Exec("UPDATE "+set, by.Milliseconds()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAClockThatIsSetBack gives no answer a longer life: whoever gave it is asked again. Clocks
// that are set by seconds, as they all are, bother nobody.
func TestAClockThatIsSetBack(t *testing.T) {
	for _, tt := range []struct {
		by    time.Duration
		asked bool
	}{{30 * time.Second, false}, {time.Hour, true}, {10_000 * time.Hour, true}} {
		inBubble(t, Options{}, func(t *testing.T, q *Queue) {
			answerNext(t, q, askOnce("yes"), Decision{Approved: true, By: "ann"})
			decide(t, q, abandon(t, q, "late"), Decision{Approved: true})
			setBack(t, q, tt.by)
			if asked, _ := asks(t, q, askOnce("yes")); asked != tt.asked {
				t.Errorf("a grant, set back by %v: asked %v", tt.by, asked)
			}
			if asked, _ := asks(t, q, bashCall("late")); asked != tt.asked {
				t.Errorf("a late answer, set back by %v: asked %v", tt.by, asked)
			}
		})
	}
}

// TestAQuestionDoesNotOutliveItsTime: also if the clock is set back while the daemon is restarted.
func TestAQuestionDoesNotOutliveItsTime(t *testing.T) {
	inBubble(t, Options{Timeout: 5 * time.Minute}, func(t *testing.T, q *Queue) {
		abandon(t, q, "x")
		setBack(t, q, 1000*time.Hour)
		again, err := New(t.Context(), q.db, q.opts)
		if err != nil {
			t.Fatal(err)
		}
		if again.Pending() != 1 {
			t.Fatalf("%d questions wait after the restart, want 1", again.Pending())
		}
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		if again.Pending() != 0 {
			t.Error("the question waits longer than any question")
		}
	})
}
