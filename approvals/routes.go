package approvals

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Part returns the queue as a part of the daemon.
func (q *Queue) Part(h part.Host) part.Part {
	return part.Part{
		Groups: []catalog.Group{{Name: "people", Tools: Tools(q)}},
		Routes: handlers{q, h}.routes(), Shared: map[string]any{"Question": Item{}},
		Deleted: forgetSession,
		Forget: func(ctx context.Context, s tool.Session) error {
			return q.CancelSession(ctx, s.ID, "the session was deleted")
		},
	}
}

// handlers are the routes of questions and grants.
type handlers struct {
	queue *Queue
	host  part.Host
}

func (h handlers) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /approvals", Role: tool.RoleOperator, Handle: h.listApprovals,
			Spec: route.Spec{
				ID:      "listApprovals",
				Summary: "List questions",
				Query:   append([]route.Param{{Name: "status"}, {Name: "session_id"}}, route.PageQuery...),
				Out:     []Item{}, Paged: true,
			},
		},
		{
			Pattern: "GET /approvals/{id}", Role: tool.RoleOperator, Handle: h.getApproval,
			Spec: route.Spec{ID: "getApproval", Summary: "One question", Out: Item{}},
		},
		{
			Pattern: "POST /approvals/{id}", Role: tool.RoleOperator, Handle: h.answerApproval,
			Spec: route.Spec{
				ID: "answerApproval", Summary: "Answer a question",
				In: answerRequest{}, Out: Item{}, Errors: []int{409},
			},
		},
		{
			Pattern: "GET /grants", Role: tool.RoleOperator, Handle: h.listGrants,
			Spec: route.Spec{ID: "listGrants", Summary: "What people allowed for longer", Out: []Grant{}},
		},
		{
			Pattern: "DELETE /grants/{id}", Role: tool.RoleOperator, Handle: h.revokeGrant,
			Spec: route.Spec{ID: "revokeGrant", Summary: "Revoke a grant", Out: route.Deleted{}},
		},
		{
			Pattern: "GET /approvals/stream", Role: tool.RoleOperator, Handle: h.approvalStream,
			Spec: route.Spec{
				ID:      "streamApprovals",
				Summary: "Questions and answers as they come, those that wait first",
				Query:   []route.Param{{Name: "session_id"}}, Events: events.Event{},
			},
		},
	}
}

func (h handlers) listApprovals(r *http.Request) (any, error) {
	p, err := route.Paging(r)
	if err != nil {
		return nil, err
	}
	h.queue.watchers.look()
	f := Filter{Status: r.FormValue("status"), Session: r.FormValue("session_id"), Limit: p.Limit, Offset: p.Offset}
	found, err := h.queue.List(r.Context(), f)
	if err != nil {
		return nil, err
	}
	return route.Rows(r, p, h.queue.Items(r.Context(), found), len(found.Keys), found.Total, found.Bytes())
}

func (h handlers) getApproval(r *http.Request) (any, error) {
	return h.queue.Get(r.Context(), r.PathValue("id"))
}

// answerRequest is a person's answer.
type answerRequest struct {
	Approved bool            `json:"approved"`
	Reason   string          `json:"reason,omitempty"`
	Remember string          `json:"remember,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
}

func (h handlers) answerApproval(r *http.Request) (any, error) {
	var in answerRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	return h.queue.Decide(r.Context(), r.PathValue("id"), Decision{
		Approved: in.Approved, Reason: in.Reason, Remember: in.Remember, Args: in.Args,
		By: route.CallerOf(r).Operator(),
	})
}

func (h handlers) listGrants(r *http.Request) (any, error) {
	grants, err := h.queue.Grants(r.Context())
	if grants == nil {
		grants = []Grant{}
	}
	return grants, err
}

func (h handlers) revokeGrant(r *http.Request) (any, error) {
	id := r.PathValue("id")
	return route.Deleted{ID: id, Deleted: true}, h.queue.Revoke(r.Context(), id, route.CallerOf(r).Operator())
}

// approvalStream streams questions and answers to a person: those that wait, then
// all that come.
func (h handlers) approvalStream(r *http.Request) (any, error) {
	all, err := events.Filter(r)
	if err != nil {
		return nil, err
	}
	keep := func(ev events.Event) bool {
		return all(ev) &&
			(ev.Type == events.ApprovalAsked || ev.Type == events.ApprovalDecided || ev.Type == events.GrantRevoked)
	}
	stream, err := h.host.Events.Stream(r.Context(), keep, func(ctx context.Context) ([]events.Event, error) {
		waiting, err := h.queue.List(ctx, Filter{Status: string(StatusPending)})
		if err != nil {
			return nil, err
		}
		var asked []events.Event
		for q, err := range waiting.Rows(ctx) {
			if err != nil {
				return nil, err
			}
			if ev := AskedEvent(events.ApprovalAsked, q); keep(ev) {
				asked = append(asked, ev)
			}
		}
		return asked, nil
	})
	if err != nil {
		return nil, err
	}
	return route.Stream(func(w *route.Writer) error {
		defer h.queue.Watch()()
		return stream(w)
	}), nil
}

// AskedEvent returns what is told of a question.
func AskedEvent(what events.Type, q Item) events.Event {
	return events.Event{
		Type: what, Time: time.Now().UTC(), Account: q.Account, Session: q.SessionID, Call: q.CallID,
		Tool: q.Tool, Approval: q.ID, Status: string(q.Status), Until: q.ExpiresAt,
	}
}
