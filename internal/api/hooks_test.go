package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// hear registers a function for an event that writes down what it was told.
func (w *world) hear(heard *[]string, event hooks.Event, out *hooks.Output) {
	w.t.Helper()
	must(w.t, w.opts.Hooks.Register(event,
		hooks.Definition{Handler: func(_ context.Context, in hooks.Input) (*hooks.Output, error) {
			*heard = append(*heard, string(in.Event)+" "+in.SessionID)
			return out, nil
		}}))
}

// The order of a session's life: its start before the first call, the stop that
// only the client sees, its end.
func TestH03_LifeOfASession(t *testing.T) {
	w := newWorld(t)
	var heard []string
	w.hear(&heard, hooks.SessionStart, &hooks.Output{AdditionalContext: "mind the gap"})
	w.hear(&heard, hooks.Stop, nil)
	w.hear(&heard, hooks.SessionEnd, nil)
	var s session
	must(t, json.Unmarshal(w.want(201, "POST", "/sessions", `{"reuse":true}`).Data, &s))
	if !slices.Equal(s.SystemMessages, []string{"mind the gap"}) {
		t.Errorf("messages %q", s.SystemMessages)
	}
	w.want(200, "POST", "/sessions", `{"reuse":true}`) // the same: nothing starts
	if a := w.do(tool.RoleAgent, "POST", "/sessions/"+s.ID+"/hook-events",
		`{"event":"Stop","input":{}}`); a.status != http.StatusOK {
		t.Fatalf("got %+v", a)
	}
	w.do(tool.RoleAgent, "DELETE", "/sessions/"+s.ID, "")
	if want := []string{"sessionStart " + s.ID, "stop " + s.ID, "sessionEnd " + s.ID}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

func TestH04_EventsOfClients(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	var heard []string
	w.hear(&heard, hooks.UserPromptSubmit, &hooks.Output{Block: true, Reason: "not that", SystemMessage: "be kind"})
	for _, tt := range []struct{ name, path, body, want string }{
		{
			"the merged answer", id, `{"event":"UserPromptSubmit","input":{"prompt":"hi","sessionId":"another"}}`,
			`"block":true,"ask":false,"reason":"not that","system_messages":["be kind"]`,
		},
		{
			"no hooks", id, `{"event":"preCompact","input":{}}`,
			`"block":false,"ask":false,"system_messages":[],"outputs":[]`,
		},
		{"an unknown event", id, `{"event":"stopp","input":{}}`, "stopp"},
		{"what the daemon sees", id, `{"event":"PermissionDenied","input":{}}`, "fired by the daemon"},
		{"an unknown field", id, `{"event":"stop","input":{"promt":"x"}}`, "validation_error"},
		{"an unknown session", "none", `{"event":"stop","input":{}}`, "session_not_found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := w.do(tool.RoleAgent, "POST", "/sessions/"+tt.path+"/hook-events", tt.body)
			if got := string(a.body); !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if want := []string{"userPromptSubmit " + id}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want) // and not "another"
	}
}

// Every event is either fired by the daemon or taken from clients.
func TestH04_EveryEventHasASource(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	for _, e := range hooks.Events {
		a := w.do(tool.RoleAgent, "POST", "/sessions/"+id+"/hook-events", `{"event":"`+string(e)+`","input":{}}`)
		if taken := a.status == http.StatusOK; taken == (e.Seen() && !e.Reportable()) {
			t.Errorf("%s: taken from a client %v, seen by the daemon %v", e, taken, e.Seen())
		}
	}
}

// TestH31_HooksAreTheOperators: agents neither list, try nor register hooks. No
// route registers any; what reads like one is refused.
func TestH31_HooksAreTheOperators(t *testing.T) {
	w := newWorld(t)
	w.session(tool.RoleAgent)
	ran := 0
	must(t, w.opts.Hooks.Register(hooks.Stop,
		hooks.Definition{Handler: func(context.Context, hooks.Input) (*hooks.Output, error) {
			ran++
			return &hooks.Output{Block: true, Reason: "so"}, nil
		}}))
	for _, tt := range []struct {
		name         string
		role         tool.Role
		method, path string
		body         string
		status       int
		want         string
	}{
		{"an agent lists", tool.RoleAgent, "GET", "/hooks", "", http.StatusForbidden, "operator_only"},
		{"an agent tries", tool.RoleAgent, "POST", "/hooks/test", `{"event":"stop"}`, http.StatusForbidden, "operator_only"},
		{
			"an agent registers", tool.RoleAgent, "POST", "/hooks", `{"stop":[{"command":"true"}]}`,
			http.StatusMethodNotAllowed, "method_not_allowed",
		},
		{"an operator lists", tool.RoleOperator, "GET", "/hooks", "", http.StatusOK, `"event":"stop"`},
		{
			"an operator tries", tool.RoleOperator, "POST", "/hooks/test", `{"event":"Stop"}`, http.StatusOK,
			`"block":true,"ask":false,"reason":"so"`,
		},
		{"an operator errs", tool.RoleOperator, "POST", "/hooks/test", `{"event":"stopp"}`, http.StatusBadRequest, "stopp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := w.do(tt.role, tt.method, tt.path, tt.body)
			text := string(a.Data) + a.Error.Code + " " + a.Error.Msg
			if a.status != tt.status || !strings.Contains(text, tt.want) {
				t.Errorf("got %d %s, want %d %s", a.status, text, tt.status, tt.want)
			}
		})
	}
	if ran != 1 {
		t.Errorf("the hook ran %d times", ran)
	}
}
