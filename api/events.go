package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/tool"
)

// EventType says what happened.
type EventType string

// The types.
const (
	EventCallBegin       EventType = "call_begin" // judged, recorded, about to run
	EventCallEnd         EventType = "call_end"   // also of a call that was denied
	EventSessionCreated  EventType = "session_created"
	EventSessionChanged  EventType = "session_changed"
	EventSessionDeleted  EventType = "session_deleted"
	EventApprovalAsked   EventType = "approval_asked"
	EventApprovalDecided EventType = "approval_decided"
	EventGrantRevoked    EventType = "grant_revoked"
	EventReload          EventType = "reload"       // status is "ok" or "failed"
	EventNotification    EventType = "notification" // of a hook, for operators; status is its level
)

// EventTypes lists what there is.
var EventTypes = []EventType{
	EventCallBegin, EventCallEnd, EventSessionCreated, EventSessionChanged, EventSessionDeleted,
	EventApprovalAsked, EventApprovalDecided, EventGrantRevoked, EventReload,
	EventNotification,
}

// Event is one thing that happened. It names calls and says how they ended; it
// never holds arguments, results or values, so that no secret can travel in it.
type Event struct {
	Type     EventType `json:"type"`
	Time     time.Time `json:"time"`
	Account  string    `json:"account,omitempty"` // without one it is for operators
	Session  string    `json:"session_id,omitempty"`
	Call     string    `json:"call_id,omitempty"`
	Tool     string    `json:"tool,omitempty"`
	Approval string    `json:"approval_id,omitempty"`
	Status   string    `json:"status,omitempty"`
	Code     string    `json:"code,omitempty"`
	Title    string    `json:"title,omitempty"`   // of a notification, in the words of the hook
	Message  string    `json:"message,omitempty"` // likewise
}

// eventBuffer is how far a reader may fall behind before events are dropped.
const eventBuffer = 256

// Events passes events on to those who listen. Nobody who publishes ever waits:
// what a slow reader cannot take is counted, and the count is sent to it. The
// zero value is ready.
type Events struct {
	mu      sync.Mutex
	readers map[*reader]bool // guarded by mu
}

// reader is one who listens.
type reader struct {
	keep    func(Event) bool
	events  chan Event
	dropped int // guarded by Events.mu
}

// Publish sends an event to every reader that wants it.
func (e *Events) Publish(ev Event) {
	ev.Time = time.Now().UTC()
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range e.readers {
		if !r.keep(ev) {
			continue
		}
		select {
		case r.events <- ev:
		default:
			r.dropped++
		}
	}
}

func (e *Events) subscribe(keep func(Event) bool) *reader {
	r := &reader{keep: keep, events: make(chan Event, eventBuffer)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.readers == nil {
		e.readers = map[*reader]bool{}
	}
	e.readers[r] = true
	return r
}

func (e *Events) leave(r *reader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.readers, r)
}

// missed is how many events this reader lost since it was last asked.
func (e *Events) missed(r *reader) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := r.dropped
	r.dropped = 0
	return n
}

// events streams what happens: to an agent what concerns its account, to an
// operator everything, or what X-Account-Id names.
func (s *Server) events(r *http.Request) (any, error) {
	keep, err := eventFilter(r)
	if err != nil {
		return nil, err
	}
	return s.Events.stream(keep, func(context.Context) ([]Event, error) { return nil, nil }), nil
}

// stream sends what stands already, then what happens that keep wants.
func (e *Events) stream(keep func(Event) bool, standing func(context.Context) ([]Event, error)) stream {
	return func(w *sse) error {
		in := e.subscribe(keep) // first, so that nothing falls between
		defer e.leave(in)
		before, err := standing(w.ctx)
		if err != nil {
			return err
		}
		for _, ev := range before {
			if err := w.send(string(ev.Type), ev); err != nil {
				return err
			}
		}
		return copySSE(w, in.events, func(ev Event) error {
			if n := e.missed(in); n > 0 {
				if err := w.send("dropped", map[string]int{"dropped": n}); err != nil {
					return err
				}
			}
			return w.send(string(ev.Type), ev)
		})
	}
}

// approvalStream streams questions and answers to a person: those that wait, then
// all that come.
func (s *Server) approvalStream(r *http.Request) (any, error) {
	all, err := eventFilter(r)
	if err != nil {
		return nil, err
	}
	keep := func(ev Event) bool {
		return all(ev) && (ev.Type == EventApprovalAsked || ev.Type == EventApprovalDecided || ev.Type == EventGrantRevoked)
	}
	return s.Events.stream(keep, func(ctx context.Context) ([]Event, error) {
		waiting, err := s.Approvals.List(ctx, approvals.Filter{Status: string(approvals.StatusPending)})
		if err != nil {
			return nil, err
		}
		var asked []Event
		for _, q := range waiting.Items {
			if ev := AskedEvent(EventApprovalAsked, q); keep(ev) {
				asked = append(asked, ev)
			}
		}
		return asked, nil
	}), nil
}

// AskedEvent is what is told of a question.
func AskedEvent(what EventType, q approvals.Item) Event {
	return Event{
		Type: what, Time: time.Now().UTC(), Account: q.Account, Session: q.SessionID, Call: q.CallID,
		Tool: q.Tool, Approval: q.ID, Status: string(q.Status),
	}
}

func eventFilter(r *http.Request) (func(Event) bool, error) {
	var types []EventType
	for _, list := range r.URL.Query()["type"] {
		for name := range strings.SplitSeq(list, ",") {
			if !slices.Contains(EventTypes, EventType(name)) {
				return nil, badRequest(fmt.Sprintf("unknown event type %q, want one of %v", name, EventTypes))
			}
			types = append(types, EventType(name))
		}
	}
	sessions := r.URL.Query()["session_id"]
	me := caller(r)
	account := me.account
	if me.role == tool.RoleOperator && r.Header.Get("X-Account-Id") == "" {
		account = "" // of everybody
	}
	return func(ev Event) bool {
		return (account == "" || ev.Account == account) &&
			(len(types) == 0 || slices.Contains(types, ev.Type)) &&
			(len(sessions) == 0 || slices.Contains(sessions, ev.Session))
	}, nil
}
