// Package events tells those who listen what happens in the daemon.
//
// A [Broker] passes each [Event] on to the streams that want it. Nobody who publishes
// waits: what a slow reader cannot take is counted, and the count is sent to it.
//
//	var b events.Broker
//	routes := b.Routes() // GET /events, for package api; a route of a part uses b.Stream
//	b.Publish(events.Event{Type: events.Reload, Status: "ok"})
//
// GET /events uses [Filter], which keeps accounts apart: an agent sees the events of its account,
// an operator all of them, or those of the account that the request names; everybody sees a reload
// that took effect. The request may narrow that to types and sessions. A caller of [Broker.Stream]
// with another function decides itself what passes.
//
// Events name calls and say how they ended. They have no field for arguments, results or
// values. An event of a connection has the host, and that of a hook's notification its words (title
// and message), which may repeat what the hook read. Notifications have no account, so only
// operators who name no account get them.
//
// Nothing is stored: a listener that comes later, or again, has missed what happened before. A Broker is
// safe for concurrent use. A stream ends with its request, and nothing is to be closed.
//
// A new type belongs here, in types and in docs/http.md; a new field of Event also in package client.
// The feature publishes it.
package events

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// Type says what happened.
type Type string

// The types.
const (
	CallBegin       Type = "call_begin"   // judged, recorded, about to run
	CallWaiting     Type = "call_waiting" // for the answer of a person
	CallEnd         Type = "call_end"     // also of a call that was denied
	SessionCreated  Type = "session_created"
	SessionChanged  Type = "session_changed"
	SessionDeleted  Type = "session_deleted"
	ApprovalAsked   Type = "approval_asked"
	ApprovalDecided Type = "approval_decided"
	GrantRevoked    Type = "grant_revoked"
	JobStarted      Type = "job_started" // a call was answered and goes on
	JobEnded        Type = "job_ended"   // status is its state
	TaskCreated     Type = "task_created"
	TaskUpdated     Type = "task_updated"  // status is its status
	AgentStarted    Type = "agent_started" // session is its own
	AgentEnded      Type = "agent_ended"   // status is "success" or "error"
	CronCreated     Type = "cron_created"
	CronDeleted     Type = "cron_deleted"
	CronStarted     Type = "cron_started" // a run begins; its call follows
	CronEnded       Type = "cron_ended"   // status is that of its call, or refused
	CronMissed      Type = "cron_missed"  // runs did not happen
	Reload          Type = "reload"       // status is "ok" or "failed"
	Connection      Type = "connection"   // status is "allow" or "deny", then "ended" for all to one host and port
	Notification    Type = "notification" // of a hook, for operators; status is its level
)

// types lists what there is.
var types = []Type{
	CallBegin, CallWaiting, CallEnd, SessionCreated, SessionChanged, SessionDeleted,
	ApprovalAsked, ApprovalDecided, GrantRevoked, JobStarted, JobEnded, TaskCreated, TaskUpdated,
	AgentStarted, AgentEnded, CronCreated, CronDeleted, CronStarted, CronEnded, CronMissed,
	Reload, Notification, Connection,
}

// Event is one thing that happened. It names calls and says how they ended, and has no field for arguments, results or
// values. Of a connection it holds the host.
type Event struct {
	Type     Type      `json:"type"`
	Time     time.Time `json:"time"`
	Account  string    `json:"account,omitempty"` // without one it is for operators, except a reload that took effect
	Session  string    `json:"session_id,omitempty"`
	Call     string    `json:"call_id,omitempty"`
	Job      string    `json:"job_id,omitempty"`
	Task     string    `json:"task_id,omitempty"`
	Agent    string    `json:"agent,omitempty"` // name
	Cron     string    `json:"cron_id,omitempty"`
	Tool     string    `json:"tool,omitempty"`
	Approval string    `json:"approval_id,omitempty"`
	Grant    string    `json:"grant_id,omitempty"`
	Status   string    `json:"status,omitempty"`
	Code     string    `json:"code,omitempty"`
	Title    string    `json:"title,omitempty"`     // of a notification, in the words of the hook
	Message  string    `json:"message,omitempty"`   // likewise
	Until    time.Time `json:"expires_at,omitzero"` // of a question: it is refused then

	Connection *egress.Row `json:"connection,omitempty"` // without a reason; with numbers when it has ended
}

// buffer is how far a reader may fall behind before events are dropped.
const buffer = 256

// readerBytes is what a reader takes from the budget of its account: room for that many
// events.
const readerBytes = buffer * 256

// Broker passes events on to those who listen. Nobody who publishes ever waits:
// what a slow reader cannot take is counted, and the count is sent to it. The
// zero value is ready.
type Broker struct {
	mu      sync.Mutex
	readers map[*reader]bool // guarded by mu
}

// reader is one who listens.
type reader struct {
	keep    func(Event) bool
	events  chan Event
	dropped int // guarded by Broker.mu
}

// Publish sends an event to every reader that wants it.
func (b *Broker) Publish(ev Event) {
	ev.Time = time.Now().UTC()
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.readers {
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

func (b *Broker) subscribe(keep func(Event) bool) *reader {
	r := &reader{keep: keep, events: make(chan Event, buffer)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers == nil {
		b.readers = map[*reader]bool{}
	}
	b.readers[r] = true
	return r
}

func (b *Broker) leave(r *reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.readers, r)
}

// missed returns how many events this reader lost since it was last asked.
func (b *Broker) missed(r *reader) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := r.dropped
	r.dropped = 0
	return n
}

// Routes returns the routes of the broker.
func (b *Broker) Routes() []route.Route {
	return []route.Route{{
		Pattern: "GET /events", Role: tool.RoleAgent, Handle: b.stream,
		Spec: route.Spec{
			ID:      "streamEvents",
			Summary: "What happens, as server-sent events",
			Query:   []route.Param{{Name: "session_id", Repeats: true}, {Name: "type", Repeats: true}}, Events: Event{},
		},
	}}
}

func (b *Broker) stream(r *http.Request) (any, error) {
	keep, err := Filter(r)
	if err != nil {
		return nil, err
	}
	return b.Stream(r.Context(), keep, nil)
}

// Stream sends what stands already, if standing is not nil, then what happens that keep wants. Publish calls keep with
// a lock held: it must not wait, and not call the Broker. Stream takes room from the budget of the request of ctx;
// without room it is refused before anything is sent.
func (b *Broker) Stream(
	ctx context.Context, keep func(Event) bool, standing func(context.Context) ([]Event, error),
) (route.Stream, error) {
	if err := budget.Of(ctx).Take(readerBytes); err != nil {
		return nil, err
	}
	return func(w *route.Writer) error {
		in := b.subscribe(keep) // first, so that nothing falls between
		defer b.leave(in)
		var before []Event
		if standing != nil {
			var err error
			if before, err = standing(w.Context); err != nil {
				return err
			}
		}
		for _, ev := range before {
			if err := w.Send(string(ev.Type), ev); err != nil {
				return err
			}
		}
		return route.Copy(w, in.events, func(ev Event) error {
			if n := b.missed(in); n > 0 {
				if err := w.Send("dropped", map[string]int{"dropped": n}); err != nil {
					return err
				}
			}
			return w.Send(string(ev.Type), ev)
		})
	}, nil
}

// Filter reads which events a request wants: those of its caller, of the sessions and
// types that it names.
func Filter(r *http.Request) (func(Event) bool, error) {
	var wanted []Type
	for _, list := range r.URL.Query()["type"] {
		for name := range strings.SplitSeq(list, ",") {
			if !slices.Contains(types, Type(name)) {
				return nil, route.BadRequest(fmt.Sprintf("unknown event type %q, want one of %v", name, types))
			}
			wanted = append(wanted, Type(name))
		}
	}
	sessions := r.URL.Query()["session_id"]
	me := route.CallerOf(r)
	account := me.Account
	if me.Any {
		account = "" // of everybody
	}
	return func(ev Event) bool {
		everybodys := ev.Type == Reload && ev.Status == "ok" // other tools may be on
		return (account == "" || ev.Account == account || everybodys) &&
			(len(wanted) == 0 || slices.Contains(wanted, ev.Type)) &&
			(len(sessions) == 0 || slices.Contains(sessions, ev.Session))
	}, nil
}
