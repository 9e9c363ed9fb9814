package agents

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// above is the session that starts agents.
type above struct{ part.Sessions }

func (above) Session(_ context.Context, account, id string) (tool.Session, error) {
	if id != "up" {
		return tool.Session{}, &tool.Error{Code: "session_not_found", Msg: "no session"}
	}
	return tool.Session{ID: id, Account: account, Mode: tool.ModePlan, Dir: "/"}, nil
}

// What an agent cannot be is refused before its session is made, and nothing is made then.
func TestAnAgentThatCannotBeIsRefused(t *testing.T) {
	for _, tt := range []struct{ args, code, says string }{
		{`{"prompt":" ","description":"d"}`, "invalid_arguments", "must say something"},
		{`{"prompt":"p","description":""}`, "invalid_arguments", "must say something"},
		{`{"prompt":1}`, "invalid_arguments", "cannot be read"},
		{`{"prompt":"p","description":"d","subagent_type":"none"}`, "invalid_arguments", `no type of agents "none"`},
		{`{"prompt":"p","description":"d","mode":"wild"}`, "invalid_arguments", `unknown mode "wild"`},
		{`{"prompt":"p","description":"d","mode":"auto"}`, "mode_not_allowed", "looser than plan"},
		{`{"prompt":"p","description":"d","isolation":"vm"}`, "invalid_arguments", `unknown isolation "vm"`},
		{`{"prompt":"p","description":"d","name":""}`, "invalid_arguments", "name is empty"},
		{`{"prompt":"p","description":"d","resume":"none"}`, "agent_not_found", "no agent"},
		{`{"prompt":"p","description":"d","resume":"up"}`, "agent_not_found", "no agent"}, // it is no agent of itself
	} {
		made := 0
		makes := func(context.Context, tool.Session) (tool.Session, error) {
			made++
			return tool.Session{}, errors.New("made")
		}
		f := newFeature(part.Host{Sessions: above{}, NewSession: makes})
		c := defaults()
		c.Spawner.Command = []string{"/opt/agent"}
		f.config.Store(c)
		in := tool.In{Account: "a", Session: "up", Args: json.RawMessage(tt.args), By: &tool.Identity{}}
		_, err := agent{f}.Run(t.Context(), in, nil)
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != tt.code || !strings.Contains(e.Msg, tt.says) || made != 0 {
			t.Errorf("%s: got %v with %d sessions, want %s %q", tt.args, err, made, tt.code, tt.says)
		}
	}
}

// Without a program that runs agents, or a process whose rights they would have, there are none.
func TestWhoRunsAgents(t *testing.T) {
	f := newFeature(part.Host{})
	c := defaults()
	f.config.Store(c)
	in := tool.In{Args: json.RawMessage(`{"prompt":"p","description":"d"}`)}
	for _, want := range []string{"spawner_unavailable", "invalid_arguments"} {
		_, err := agent{f}.Run(t.Context(), in, nil)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != want {
			t.Errorf("got %v, want %s", err, want)
		}
		c.Spawner.Command = []string{"/opt/agent"}
	}
}

// An agent works at one thing at a time, and whoever deletes its session waits for its end.
func TestAnAgentWorksAtOneThing(t *testing.T) {
	f := newFeature(part.Host{})
	ctx, cancel := context.WithCancelCause(t.Context())
	leave, err := f.enter("s", cancel)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.enter("s", cancel); err == nil || !strings.Contains(err.Error(), "works already") {
		t.Errorf("a second one: %v", err)
	}
	over := false
	go func() {
		<-ctx.Done()
		over = true
		leave()
	}()
	if err := f.forget(t.Context(), tool.Session{ID: "s"}); err != nil || !over {
		t.Errorf("the session is forgotten before its agent has ended: %v", err)
	}
	if context.Cause(ctx) != tool.ErrAtOnce {
		t.Errorf("it was ended by %v", context.Cause(ctx))
	}
	if _, err := f.enter("s", cancel); err != nil {
		t.Errorf("after the end: %v", err)
	}
}
