package approvals

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// abandon files a question whose caller leaves, and returns its id.
func abandon(t *testing.T, q *Queue, command string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := start(ctx, q.Execution, bashCall(command))
	item := onlyPending(t, q)
	cancel()
	if got := <-done; got.Approved || got.Code != CodeLeft {
		t.Fatalf("got %+v, want %q", got, CodeLeft)
	}
	return item.ID
}

func TestLateAnswerServesOneCall(t *testing.T) {
	for _, tt := range []struct {
		name     string
		approved bool
		wait     time.Duration
		digest   string
		used     bool
	}{
		{"a yes at once", true, 0, "digest of x", true},
		{"a no at once", false, 0, "digest of x", true},
		{"a yes just in time", true, 10*time.Minute - time.Second, "digest of x", true},
		{"a yes too late", true, 10 * time.Minute, "digest of x", false},
		{"another digest", true, 0, "digest of y", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, q *Queue) {
				id := abandon(t, q, "x")
				decide(t, q, id, Decision{Approved: tt.approved, By: "ann"})
				time.Sleep(tt.wait)
				again := bashCall("x")
				again.Digest = tt.digest
				done := start(t.Context(), q.Execution, again)
				if asked := q.Pending() == 1; asked == tt.used {
					t.Fatalf("asked again: %v, want %v", asked, !tt.used)
				}
				if tt.used {
					if got := <-done; got.Approved != tt.approved || got.By != "ann" || got.ID != id {
						t.Errorf("got %+v, want the late answer", got)
					}
					done = start(t.Context(), q.Execution, bashCall("x"))
					if q.Pending() != 1 {
						t.Error("a late answer served twice")
					}
				}
				decide(t, q, onlyPending(t, q).ID, Decision{})
				<-done
			})
		})
	}
}

func TestLateAnswerIsBoundToItsType(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		decide(t, q, abandon(t, q, "x"), Decision{Approved: true})
		done := start(t.Context(), q.Result, bashCall("x"))
		decide(t, q, onlyPending(t, q).ID, Decision{})
		if got := <-done; got.Approved {
			t.Error("an approval to run released a result")
		}
	})
}

func TestAnswerThatWasReceivedIsNotUsableAgain(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		done := start(t.Context(), q.Execution, bashCall("x"))
		decide(t, q, onlyPending(t, q).ID, Decision{Approved: true})
		<-done
		done = start(t.Context(), q.Execution, bashCall("x"))
		decide(t, q, onlyPending(t, q).ID, Decision{})
		if got := <-done; got.Approved {
			t.Error("one answer served two calls, one after the other")
		}
	})
}

func TestEqualQuestionsAreJoined(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		told := q.Subscribe(t.Context())
		first := start(t.Context(), q.Execution, bashCall("x"))
		second := start(t.Context(), q.Execution, bashCall("x"))
		item := onlyPending(t, q)
		if asked, joined := <-told, <-told; asked.Kind != EventAsked || joined.Kind != EventJoined ||
			joined.Item.ID != item.ID || !joined.Item.ExpiresAt.Equal(item.ExpiresAt) {
			t.Errorf("told %+v, then %+v", asked, joined)
		}
		if got, want := item.Waiting, 2; got != want {
			t.Errorf("the person sees %d waiting calls, want %d", got, want)
		}
		decide(t, q, item.ID, Decision{Approved: true})
		for _, done := range []<-chan outcome{first, second} {
			if got := <-done; !got.Approved || got.ID != item.ID {
				t.Errorf("got %+v, want the one answer", got)
			}
		}
	})
}

func TestACallRepeatedWhileItsQuestionWaitsJoinsIt(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		id := abandon(t, q, "x")
		done := start(t.Context(), q.Execution, bashCall("x"))
		if item := onlyPending(t, q); item.ID != id {
			t.Errorf("got question %q, want %q again", item.ID, id)
		}
		decide(t, q, id, Decision{Approved: true})
		if got := <-done; !got.Approved {
			t.Errorf("got %+v, want an approval", got)
		}
	})
}

// The answer and the end of the caller can come at the same moment; then the
// answer is kept for the call that comes back.
func TestAnswerToACallerThatJustLeftIsGivenBack(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		c := bashCall("x")
		item := itemOf(c, TypeExecution)
		item.Digest = c.Digest
		w, answers, _, err := q.file(t.Context(), item)
		if err != nil {
			t.Fatal(err)
		}
		decide(t, q, w.id, Decision{Approved: true})
		if a, err := q.leave(w, answers); err != nil || a.Approved {
			t.Errorf("got %+v, %v, want a refusal", a, err)
		}
		a, err := q.Execution(t.Context(), c)
		if err != nil || !a.Approved {
			t.Errorf("got %+v, %v, want the answer", a, err)
		}
	})
}

func TestResultQuestionEndsWithItsCall(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		ctx, cancel := context.WithCancel(t.Context())
		done := start(ctx, q.Result, bashCall("x"))
		id := onlyPending(t, q).ID
		cancel()
		<-done
		_, err := q.Decide(t.Context(), id, Decision{Approved: true})
		wantCode(t, err, "already_decided")
	})
}

// The time of a question can be up while its answer is stored; the answer counts.
func TestTimeThatIsUpAfterTheAnswerChangesNothing(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		c := bashCall("x")
		item := itemOf(c, TypeExecution)
		item.Digest = c.Digest
		w, answers, _, err := q.file(t.Context(), item)
		if err != nil {
			t.Fatal(err)
		}
		decide(t, q, w.id, Decision{Approved: true})
		q.expire(w)
		if a := <-answers; !a.Approved {
			t.Errorf("got %+v, want the answer", a)
		}
	})
}

// A timeout that cannot be stored still refuses.
func TestTimeoutRefusesWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, closeDB := openQueueAt(t, ":memory:", Options{Approver: true})
		done := start(t.Context(), q.Execution, bashCall("x"))
		closeDB()
		if got := <-done; got.Approved || got.Code != CodeTimedOut {
			t.Errorf("got %+v, want %q", got, CodeTimedOut)
		}
	})
}

func TestQuestionWithoutACallerEndsInTime(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		abandon(t, q, "x")
		events := q.Subscribe(t.Context())
		if e := <-events; e.Item.Status != StatusExpired || q.Pending() != 0 {
			t.Errorf("got %+v with %d pending, want it expired", e, q.Pending())
		}
	})
}

// TestATimerThatIsLateLetsNoAnswerCount: the time of a question is what was said,
// not when the machine gets round to ending it.
func TestATimerThatIsLateLetsNoAnswerCount(t *testing.T) {
	inBubble(t, Options{Timeout: time.Minute}, func(t *testing.T, q *Queue) {
		done := start(t.Context(), q.Execution, bashCall("x"))
		id := onlyPending(t, q).ID
		q.mu.Lock()
		q.waiting[id].timer.Stop()
		q.mu.Unlock()
		time.Sleep(time.Minute)
		_, err := q.Decide(t.Context(), id, Decision{Approved: true, By: "ann"})
		wantCode(t, err, "expired")
		if got := <-done; got.Approved || got.Code != CodeTimedOut {
			t.Errorf("got %+v, want %q", got, CodeTimedOut)
		}
	})
}

// A call of the daemon's own is never made again by the one that left, so its question ends with the last who asks.
func TestA13_AQuestionOfTheDaemonEndsWithWhoAsked(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		ask := func() (cancel func(), done <-chan outcome) {
			ctx, cancel := context.WithCancel(t.Context())
			c := bashCall("x")
			c.Request.Own = struct{ tool.Tool }{}
			return cancel, start(ctx, q.Execution, c)
		}
		first, done := ask()
		id := onlyPending(t, q).ID
		second, other := ask()
		for i, leave := range []func(){first, second} {
			leave()
			<-[]<-chan outcome{done, other}[i]
			want := []Status{StatusPending, StatusCancelled}[i]
			if item, err := q.Get(t.Context(), id); err != nil || item.Status != want {
				t.Errorf("after %d left the question is %q, %v, want %q", i+1, item.Status, err, want)
			}
		}
	})
}
