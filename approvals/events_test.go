package approvals

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestSubscribersSeeQuestionsAndAnswers(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		ctx, cancel := context.WithCancel(t.Context())
		events := q.Subscribe(ctx)
		done := start(t.Context(), q.Execution, bashCall("x"))
		asked := <-events
		decide(t, q, asked.Item.ID, Decision{Approved: true, By: "ann"})
		decided := <-events
		<-done
		if asked.Kind != EventAsked || asked.Item.Status != StatusPending {
			t.Errorf("got %+v, want the question", asked)
		}
		if decided.Kind != EventDecided || decided.Item.Status != StatusApproved || decided.Item.DecidedBy != "ann" {
			t.Errorf("got %+v, want the answer", decided)
		}
		cancel()
		synctest.Wait()
		if _, open := <-events; open {
			t.Error("the channel is open after its context ended")
		}
	})
}

func TestASlowSubscriberIsCutOffAndTheOthersAreNot(t *testing.T) {
	var f feed
	q := &Queue{}
	slow, fast := q.Subscribe(t.Context()), q.Subscribe(t.Context())
	for range subscriberBuffer + 1 {
		q.feed.send(Event{Kind: EventAsked})
		<-fast
	}
	n := 0
	for range slow {
		n++
	}
	if n != subscriberBuffer {
		t.Errorf("the slow one got %d events before the end, want %d", n, subscriberBuffer)
	}
	q.feed.close()
	if _, open := <-fast; open {
		t.Error("the channel is open after the queue closed")
	}
	if _, open := <-q.Subscribe(t.Context()); open {
		t.Error("a closed queue takes subscribers")
	}
	f.send(Event{}) // nobody listens
}
