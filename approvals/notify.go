package approvals

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// noticeTries is how often a notice is sent at most, with waits of 1, 2, 4, 8 and
// 16 s between them.
const noticeTries = 6

// Notice tells somebody that a question waits, for when nobody watches. It says
// which tool is asked about and why, in the words of the rules, never the
// arguments or the result: those are read over the operator socket.
type Notice struct {
	Event     EventKind     `json:"event"`
	ID        string        `json:"id"`
	Type      Type          `json:"type"`
	SessionID string        `json:"session_id"`
	Tool      string        `json:"tool_name"`
	Why       []tool.Reason `json:"why"`
	CreatedAt time.Time     `json:"created_at"`
	ExpiresAt time.Time     `json:"expires_at"`
}

// Send sends a [Notice] once, as JSON; again says that another try may help.
type Send func(ctx context.Context, notice []byte) (again bool, err error)

// Notify sends a notice for every question, those that wait already included,
// until ctx ends or the queue closes. Questions go one after the other; one that
// is answered before its turn is left out. failed is told of what could not be
// sent.
func (q *Queue) Notify(ctx context.Context, send Send, failed func(id string, cause error)) error {
	notice := func(i Item, sent map[string]bool) {
		if sent[i.ID] {
			return
		}
		sent[i.ID] = true
		if err := q.notice(ctx, send, i); err != nil {
			failed(i.ID, err)
		}
	}
	sent := map[string]bool{}
	for ctx.Err() == nil && !q.isClosed() {
		events := q.Subscribe(ctx) // before the list, so that nothing falls between
		page, err := q.List(ctx, Filter{})
		if err != nil {
			return err
		}
		still := map[string]bool{}
		for item, err := range page.Rows(ctx) {
			if err != nil {
				return err
			}
			still[item.ID] = sent[item.ID]
			notice(item, still)
		}
		sent = still
		for e := range events { // ends when ctx does, or when this fell behind
			switch e.Kind {
			case EventAsked:
				notice(e.Item, sent)
			case EventDecided:
				delete(sent, e.Item.ID)
			}
		}
	}
	return nil
}

func (q *Queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed != ""
}

func (q *Queue) isWaiting(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[id] != nil
}

// notice sends one notice, with retries while the question waits.
func (q *Queue) notice(ctx context.Context, send Send, i Item) error {
	body, err := json.Marshal(Notice{
		Event: EventAsked, ID: i.ID, Type: i.Type, SessionID: i.SessionID, Tool: i.Tool,
		Why: i.Why, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
	})
	again := err == nil
	for try := 0; again && try < noticeTries; try++ {
		if try > 0 && !pause(ctx, time.Second<<(try-1)) || !q.isWaiting(i.ID) {
			return nil
		}
		again, err = send(ctx, body)
	}
	return err
}

// pause waits; false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
