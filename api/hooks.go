package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/tool"
)

// hookEvent is something that happened where only a client sees it, or that an
// operator makes up to try the hooks.
type hookEvent struct {
	Event string      `json:"event"` // "stop", or "Stop" as other agents say
	Input hooks.Input `json:"input"`
}

// hookAnswer is what the hooks of an event came to, the strictest of them.
type hookAnswer struct {
	Block          bool            `json:"block"`
	Ask            bool            `json:"ask"`
	Allow          bool            `json:"allow,omitempty"` // answers the question of a permission mode
	Reason         string          `json:"reason,omitempty"`
	UpdatedInput   json.RawMessage `json:"updated_input,omitempty"`
	SystemMessages []string        `json:"system_messages"`
	Outputs        []hooks.Output  `json:"outputs"` // of each hook that said something, in order
}

// hookEvent runs the hooks of an event for a client. What the daemon sees itself
// is refused, but for the ends of calls that the client made without it: those are
// marked, for an agent could tell of calls that never were.
func (s *Server) hookEvent(r *http.Request) (any, error) {
	event, in, err := readEvent(r)
	if err != nil {
		return nil, err
	}
	if event.Seen() && !event.Reportable() {
		return nil, badRequest(string(event) + " is fired by the daemon, where it happens")
	}
	x, err := s.session(r)
	if err != nil {
		return nil, err
	}
	in.SessionID, in.Cwd, in.PermissionMode = x.ID, x.Dir, x.Mode
	in.Reported = event.Reportable()
	answer, err := s.Hooks.Fire(r.Context(), event, in)
	if err != nil {
		return nil, err
	}
	return outcomeOf(answer), nil
}

func readEvent(r *http.Request) (hooks.Event, hooks.Input, error) {
	var in hookEvent
	if err := read(r, &in); err != nil {
		return "", in.Input, err
	}
	event, err := hooks.ParseEvent(in.Event)
	if err != nil {
		return "", in.Input, badRequest(err.Error())
	}
	return event, in.Input, nil
}

func outcomeOf(answer hooks.Answer) hookAnswer {
	a := answer.Advice
	return hookAnswer{
		Block: a.Block, Ask: a.Ask, Allow: a.Allow, Reason: a.Reason, UpdatedInput: a.Args,
		SystemMessages: append([]string{}, a.Messages...), Outputs: append([]hooks.Output{}, answer.Outputs()...),
	}
}

// begun tells that a session is there, and answers it with what hooks say to it.
func (s *Server) begun(r *http.Request, x tool.Session) created {
	s.changed(EventSessionCreated, x.Account, x.ID)
	out := wireSession(x)
	out.SystemMessages = s.tellHooks(r, hooks.SessionStart, x)
	return created{out}
}

// tellHooks fires an event that has happened, also when the client has left.
func (s *Server) tellHooks(r *http.Request, event hooks.Event, x tool.Session) []string {
	answer, err := s.Hooks.Fire(context.WithoutCancel(r.Context()), event, hooks.Input{SessionID: x.ID, Cwd: x.Dir, PermissionMode: x.Mode})
	if err != nil {
		s.Log.Warn("hooks were not told", "event", event, "session", x.ID, "error", err)
	}
	return answer.Advice.Messages
}

// trialAnswer is what every hook of the event said, and what it comes to.
type trialAnswer struct {
	Runs    []hooks.Run `json:"runs"`
	Outcome hookAnswer  `json:"outcome"`
}

// testHooks runs the hooks of an event for an operator who tries them; nothing
// comes of it.
func (s *Server) testHooks(r *http.Request) (any, error) {
	event, in, err := readEvent(r)
	if err != nil {
		return nil, err
	}
	answer, err := s.Hooks.Try(r.Context(), event, in)
	if err != nil {
		return nil, err
	}
	return trialAnswer{append([]hooks.Run{}, answer.Runs...), outcomeOf(answer)}, nil
}
