package hooks

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Part returns the hooks as a part of the daemon.
func (r *Registry) Part(h part.Host) part.Part {
	return part.Part{
		Routes: handlers{r, h}.routes(),
		Forget: func(ctx context.Context, s tool.Session) error {
			err := r.Forget(ctx, s.ID)
			// Last, so that a hook finds nothing of the session.
			if _, failed := r.Fire(ctx, SessionEnd,
				Input{SessionID: s.ID, Cwd: s.Dir, PermissionMode: string(s.Mode)}); failed != nil {
				h.Log.Warn("hooks were not told", "event", SessionEnd, "session", s.ID, "error", failed)
			}
			return err
		},
	}
}

// handlers are the routes of hooks.
type handlers struct {
	hooks *Registry
	host  part.Host
}

func (h handlers) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /hooks", Role: tool.RoleOperator, Handle: h.listHooks,
			Spec: route.Spec{ID: "listHooks", Summary: "The configured hooks", Out: []Info{}},
		},
		{
			Pattern: "POST /sessions/{id}/hook-events", Role: tool.RoleAgent, Keeps: true, Handle: h.hookEvent,
			Spec: route.Spec{
				ID:      "tellHookEvent",
				Summary: "Run the hooks of an event that only a client sees", In: hookEvent{},
				Out: hookAnswer{},
			},
		},
		{
			Pattern: "POST /hooks/test", Role: tool.RoleOperator, Handle: h.testHooks,
			Spec: route.Spec{
				ID:      "testHooks",
				Summary: "Run the hooks of an event that did not happen; nothing comes of it", In: hookEvent{},
				Out: trialAnswer{},
			},
		},
	}
}

func (h handlers) listHooks(*http.Request) (any, error) {
	return append([]Info{}, h.hooks.List()...), nil // none is a list too
}

// hookEvent is something that happened where only a client sees it, or that an
// operator makes up to try the hooks.
type hookEvent struct {
	Event string `json:"event"` // "stop", or "Stop" as other agents say
	Input Input  `json:"input,omitempty"`
}

// hookAnswer is the merged answer of the hooks of an event: the strictest one.
type hookAnswer struct {
	Block          bool            `json:"block"`
	Ask            bool            `json:"ask"`
	Allow          bool            `json:"allow,omitempty"` // answers the question of a permission mode
	Reason         string          `json:"reason,omitempty"`
	UpdatedInput   json.RawMessage `json:"updated_input,omitempty"`
	SystemMessages []string        `json:"system_messages"`
	Outputs        []Output        `json:"outputs"` // of each hook that said something, in order
}

// hookEvent runs the hooks of an event for a client. What the daemon sees itself
// is refused, except the ends of calls that the client made without it, and of its own
// work: those are marked, for an agent could tell of what never was.
func (h handlers) hookEvent(r *http.Request) (any, error) {
	event, in, err := readEvent(r)
	if err != nil {
		return nil, err
	}
	if event.Seen() && !event.Reportable() {
		return nil, route.BadRequest(string(event) + " is fired by the daemon, where it happens")
	}
	x, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	in.SessionID, in.Cwd, in.PermissionMode = x.ID, x.Dir, string(x.Mode)
	in.Reported = event.Reportable()
	answer, err := h.hooks.Fire(r.Context(), event, in)
	if err != nil {
		return nil, err
	}
	return outcomeOf(answer), nil
}

func readEvent(r *http.Request) (Event, Input, error) {
	var in hookEvent
	if err := route.Read(r, &in); err != nil {
		return "", in.Input, err
	}
	event, err := ParseEvent(in.Event)
	if err != nil {
		return "", in.Input, route.BadRequest(err.Error())
	}
	return event, in.Input, nil
}

func outcomeOf(answer Answer) hookAnswer {
	a := answer.Advice
	return hookAnswer{
		Block: a.Block, Ask: a.Ask, Allow: a.Allow, Reason: a.Reason, UpdatedInput: a.Args,
		SystemMessages: append([]string{}, a.Messages...), Outputs: append([]Output{}, answer.Outputs()...),
	}
}

// trialAnswer holds the answer of every hook of the event, and the merged one.
type trialAnswer struct {
	Runs    []Run      `json:"runs"`
	Outcome hookAnswer `json:"outcome"`
}

// testHooks runs the hooks of an event for an operator who tries them. The daemon does nothing with their answers.
func (h handlers) testHooks(r *http.Request) (any, error) {
	event, in, err := readEvent(r)
	if err != nil {
		return nil, err
	}
	answer, err := h.hooks.Try(r.Context(), event, in)
	if err != nil {
		return nil, err
	}
	return trialAnswer{append([]Run{}, answer.Runs...), outcomeOf(answer)}, nil
}
