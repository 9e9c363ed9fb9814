package approvals

import (
	"context"
	"sync"
)

// EventKind says what happened.
type EventKind string

// The kinds.
const (
	EventAsked   EventKind = "approval_asked"
	EventJoined  EventKind = "call_waiting"     // another call waits for the same answer
	EventDecided EventKind = "approval_decided" // by a person or not: see Item.Status
	EventRevoked EventKind = "grant_revoked"
)

// Event is one change of the queue.
type Event struct {
	Kind  EventKind `json:"kind"`
	Item  Item      `json:"item,omitzero"` // of a revoked grant: its account, session and tool
	Grant string    `json:"grant,omitempty"`
	By    string    `json:"by,omitempty"` // the person, if one did it
}

// subscriberBuffer is how far a reader may fall behind.
const subscriberBuffer = 256

// feed sends events to its subscribers.
type feed struct {
	mu     sync.Mutex
	all    map[chan Event]bool // guarded by mu
	closed bool                // guarded by mu
}

// Subscribe sends every later event until ctx ends. The channel is closed early
// when the reader falls behind or the queue closes; it then lists and subscribes
// again.
func (q *Queue) Subscribe(ctx context.Context) <-chan Event {
	c := make(chan Event, subscriberBuffer)
	f := &q.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		close(c)
		return c
	}
	if f.all == nil {
		f.all = map[chan Event]bool{}
	}
	f.all[c] = true
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drop(c)
	})
	return c
}

func (f *feed) send(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.all {
		select {
		case c <- e:
		default:
			f.drop(c)
		}
	}
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.all {
		f.drop(c)
	}
}

// drop forgets one reader. The caller holds mu.
func (f *feed) drop(c chan Event) {
	if f.all[c] {
		delete(f.all, c)
		close(c)
	}
}
