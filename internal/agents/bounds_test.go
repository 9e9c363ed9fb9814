package agents

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// above is the session that starts agents.
type above struct{ part.Sessions }

func (above) Session(_ context.Context, account, id string) (tool.Session, error) {
	if id != "up" {
		return tool.Session{}, &tool.Error{Code: "session_not_found", Msg: "no session"}
	}
	return tool.Session{ID: id, Account: account, Mode: tool.ModePlan, Dir: "/"}, nil
}

// box counts the programs that would run in it.
type box struct {
	sandbox.Box
	ran int
}

func (b *box) Start(context.Context, sandbox.Spec) (sandbox.Proc, error) {
	b.ran++
	return nil, errors.New("nothing runs here")
}

func (*box) Open(context.Context, guard.PathUse, int) (*os.File, error) {
	return nil, errors.New("nothing is read here")
}

// What an agent cannot be is refused before its session is made, and nothing is made then.
func TestAnAgentThatCannotBeIsRefused(t *testing.T) {
	for _, tt := range []struct{ args, code, says string }{
		{`{"prompt":" ","description":"d"}`, "invalid_arguments", "must say something"},
		{`{"prompt":"p","description":""}`, "invalid_arguments", "must say something"},
		{`{"prompt":1}`, "invalid_arguments", "args.prompt of type string (see the schema of the tool"},
		{`{"prompt":"p","description":"d","subagent_type":"none"}`, "invalid_arguments", `agents "none" (types are: E`},
		{`{"prompt":"p","description":"d","mode":"wild"}`, "invalid_arguments", `"wild" (modes are: [`},
		{`{"prompt":"p","description":"d","mode":"auto"}`, "mode_not_allowed", "this session (leave mode out"},
		{`{"prompt":"p","description":"d","isolation":"vm"}`, "invalid_arguments", `"vm" (isolation is worktree`},
		{`{"prompt":"p","description":"d","name":""}`, "invalid_arguments", "name is empty"},
		{`{"prompt":"p","description":"d","name":"","isolation":"worktree"}`, "invalid_arguments", "name is empty"},
		{`{"prompt":"p","description":"d","name":"try/sub","isolation":"worktree"}`, "validation_error", `"try/sub" is not a`},
		{`{"prompt":"p","description":"d","name":"../x","isolation":"worktree"}`, "validation_error", `"../x" is not a name`},
		{`{"prompt":"p","description":"d","name":"self","isolation":"worktree"}`, "validation_error", "top of its tree"},
		{`{"prompt":"p","description":"d","resume":"none"}`, "agent_not_found", "(resume is the session_id"},
		{`{"prompt":"p","description":"d","resume":"up"}`, "agent_not_found", "(resume is the session_id"}, // it is no agent of itself
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
		b := &box{}
		_, err := agentTool{f}.Run(t.Context(), in, b)
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != tt.code || !strings.Contains(e.Msg+" ("+e.Hint, tt.says) || made != 0 || b.ran != 0 {
			t.Errorf("%s: got %v with %d sessions and %d programs, want %s %q", tt.args, err, made, b.ran, tt.code, tt.says)
		}
	}
}

// What a model is told of agents names each type, with what it is for.
func TestTheTypesOfAgentsAreListed(t *testing.T) {
	f := newFeature(part.Host{})
	c := defaults()
	f.config.Store(c)
	if got := f.group().Lists(tool.Session{}); got != "" {
		t.Errorf("without a program that runs them: %q", got)
	}
	c.Spawner.Command = []string{"/opt/agent"}
	got := f.group().Lists(tool.Session{})
	for _, name := range c.names() {
		if _, described, _ := c.find(name); !strings.Contains(got, "\n- "+name+": "+described.Description) {
			t.Errorf("%q does not name %s", got, name)
		}
	}
	if !strings.HasPrefix(got, "Types of agents that Agent starts:\n- ") {
		t.Errorf("got %q", got)
	}
}

// A text of an agent is cut between two characters.
func TestALongTextOfAnAgentIsCut(t *testing.T) {
	for text, want := range map[string]string{"abcd": "abcd", "abcde": "abcd…", "abcéf": "abc…"} {
		if got := clip(text, 4); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
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
		_, err := agentTool{f}.Run(t.Context(), in, nil)
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
	if err := f.part().Forget(t.Context(), tool.Session{ID: "s"}); err != nil || !over {
		t.Errorf("the session is forgotten before its agent has ended: %v", err)
	}
	if context.Cause(ctx) != tool.ErrAtOnce {
		t.Errorf("it was ended by %v", context.Cause(ctx))
	}
	if _, err := f.enter("s", cancel); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// What a session has used is forgotten with it, also what a call adds that ends after the session.
func TestWhatASessionHasUsedIsForgottenWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeature(part.Host{})
		named := func(id string) tool.Session { return tool.Session{ID: id, Created: time.Now()} }
		up, gone := named("up"), named("gone")
		call := func(s tool.Session) { f.ended(&tool.Call{Target: tool.Target{Session: s}}) }
		call(up)
		call(gone)
		if err := f.forget(t.Context(), gone); err != nil || len(f.used) != 1 {
			t.Errorf("%v, used is %v", err, f.used)
		}
		time.Sleep(lateCalls - time.Second)
		anew := named("gone") // an account may use an id again
		call(gone)
		call(anew)
		time.Sleep(time.Second)
		synctest.Wait()
		_, counted := f.used[whichOf(gone)]
		if counted || f.used[whichOf(up)].Calls != 1 || f.used[whichOf(anew)].Calls != 1 {
			t.Errorf("used is %v", f.used)
		}
	})
}

// What a call says comes before what its type says, and that before what the parent has; null is what nobody said.
func TestN03_WhatTheProgramIsTold(t *testing.T) {
	of := func(text string) *string { return &text }
	three, yes := 3, true
	plain := order{
		Session: "s", Socket: "/run/a.sock", Agent: "ann", AgentType: "general-purpose", Parent: "up",
		Prompt: "p", Description: "d", Model: of("of up"), MaxTurns: 10, Dir: "/w",
	}
	with := func(change func(*order)) order { o := plain; change(&o); return o }
	typed := Type{SystemPrompt: "Be strict.", Model: "of the type", MaxTurns: 7}
	for _, tt := range []struct {
		name   string
		change func(*run)
		want   order
	}{
		{"nothing more", func(*run) {}, plain},
		{"a parent without a model", func(r *run) { r.parent.ID = "other" }, with(func(o *order) {
			o.Parent, o.Model = "other", nil
		})},
		{"a type", func(r *run) { r.session.Type, r.kind = "Mine", typed }, with(func(o *order) {
			o.AgentType, o.SystemPrompt, o.Model, o.MaxTurns = "Mine", of("Be strict."), of("of the type"), 7
		})},
		{"a call that says otherwise", func(r *run) {
			r.kind, r.args.Model, r.args.MaxTurns = typed, of("of the call"), &three
		}, with(func(o *order) {
			o.SystemPrompt, o.Model, o.MaxTurns = of("Be strict."), of("of the call"), 3
		})},
		{"a tool that it has and one that it has not", func(r *run) {
			r.session.Only, r.session.Without = []string{"Read"}, []string{"Bash"}
		}, with(func(o *order) { o.AllowedTools, o.DisallowedTools = []string{"Read"}, []string{"Bash"} })},
		{"the rest of a call", func(r *run) {
			r.args.Background, r.args.Isolation, r.args.Team = &yes, of("worktree"), of("crew")
			r.args.Mode, r.args.Resume, r.session.Dir = of("plan"), of("s"), "/w/.worktrees/ann"
		}, with(func(o *order) {
			o.Background, o.Isolation, o.Team = &yes, of("worktree"), of("crew")
			o.Mode, o.Resume, o.Dir = of("plan"), of("s"), "/w/.worktrees/ann"
		})},
	} {
		f := newFeature(part.Host{Socket: "/run/a.sock", Model: func(id string) string {
			return map[string]string{"up": "of up"}[id]
		}})
		r := &run{
			f: f, args: args{Prompt: "p", Description: "d"}, parent: tool.Session{ID: "up"},
			session: tool.Session{ID: "s", Agent: "ann", Dir: "/w"},
		}
		tt.change(r)
		got, _ := json.Marshal(r.order())
		want, _ := json.Marshal(tt.want)
		if string(got) != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, want)
		}
	}
}
