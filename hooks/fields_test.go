package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestTheListHasEachSettingOfAHook: an operator reads there what holds, not what the file says.
func TestTheListHasEachSettingOfAHook(t *testing.T) {
	r, err := New(Options{Hooks: map[string][]Definition{
		"stop": {{URL: "https://audit.example/hook", Name: "audit"}},
		"preToolUse": {
			says(Output{}),
			{Command: "/bin/true", Matcher: "^Bash$", Sandbox: true, TimeoutMS: 5000, OnError: FailAsk},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Info{
		{Event: PreToolUse, Name: "preToolUse#1", Kind: "function", TimeoutMS: 30000, OnError: FailBlock},
		{
			Event: PreToolUse, Name: "preToolUse#2", Kind: "command", Matcher: "^Bash$", Command: "/bin/true",
			Sandbox: true, TimeoutMS: 5000, OnError: FailAsk,
		},
		{
			Event: Stop, Name: "audit", Kind: "http", URL: "https://audit.example/hook", TimeoutMS: 30000,
			OnError: FailContinue,
		},
	}
	if got := r.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// TestTheRecordHearsOfEachRun: what ran, for which session, how long, and what came of its failure; nothing of a hook
// whose matcher does not match.
func TestTheRecordHearsOfEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []Run
		r, err := New(Options{
			Observe: func(run Run) { heard = append(heard, run) },
			Hooks: map[string][]Definition{"preToolUse": {
				{Name: "slow", Handler: func(context.Context, Input) (*Output, error) {
					time.Sleep(time.Second)
					return &Output{Message: "done"}, nil
				}},
				{Name: "other", Matcher: "^Read$", Handler: says(Output{}).Handler},
				{Name: "broken", OnError: FailAsk, Handler: func(context.Context, Input) (*Output, error) {
					return nil, errors.New("no answer")
				}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		a, err := r.Fire(t.Context(), PreToolUse, Input{ToolName: "Bash", SessionID: "s1"})
		if err != nil {
			t.Fatal(err)
		}
		want := []Run{
			{Event: PreToolUse, Session: "s1", Name: "slow", Output: &Output{Message: "done"}, Duration: time.Second},
			{Event: PreToolUse, Session: "s1", Name: "broken", Err: "no answer", OnError: FailAsk},
		}
		if !reflect.DeepEqual(heard, want) {
			t.Errorf("heard\n%+v, want\n%+v", heard, want)
		}
		skipped := Run{Event: PreToolUse, Session: "s1", Name: "other", Skipped: true}
		if len(a.Runs) != 3 || !reflect.DeepEqual(a.Runs[1], skipped) {
			t.Errorf("the answer has the runs %+v", a.Runs)
		}
	})
}

// TestAHookSeesTheWholeCall: a hook decides by the tool, its arguments, the session, the directory and the mode.
func TestAHookSeesTheWholeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []Input
		hear := []Definition{{Handler: func(_ context.Context, in Input) (*Output, error) {
			heard = append(heard, in)
			return nil, nil
		}}}
		r, err := New(Options{Hooks: map[string][]Definition{"preToolUse": hear, "postToolUse": hear}})
		if err != nil {
			t.Fatal(err)
		}
		c := bash("ls")
		c.In.Args, c.In.Dir, c.Session.Dir = c.Request.Args, "/src/sub", "/src"
		before(t, r, c)
		c.In.Dir = "" // of a call that was refused before it had one
		before(t, r, c)
		time.Sleep(3 * time.Second)
		c.Result.Status, c.Result.FinalText = tool.StatusSuccess, "a file"
		if _, err := r.After(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		of := func(e Event, cwd string) Input {
			return Input{
				Event: e, ToolName: "Bash", ToolInput: json.RawMessage(`{"command":"ls"}`), ToolUseID: "toolu_1",
				SessionID: "s1", Cwd: cwd, PermissionMode: "auto",
			}
		}
		want := []Input{of(PreToolUse, "/src/sub"), of(PreToolUse, "/src"), of(PostToolUse, "/src")}
		want[2].ToolOutput, want[2].DurationMS = "a file", 3000
		if !reflect.DeepEqual(heard, want) {
			t.Errorf("heard\n%+v, want\n%+v", heard, want)
		}
	})
}

// TestTheSessionOfAnEventIsThatOfItsPath: a client cannot speak for another session, directory or mode, and the hooks
// of the end of a session have them too.
func TestTheSessionOfAnEventIsThatOfItsPath(t *testing.T) {
	var heard []Input
	hear := []Definition{{Handler: func(_ context.Context, in Input) (*Output, error) {
		heard = append(heard, in)
		return nil, nil
	}}}
	r, err := New(Options{Hooks: map[string][]Definition{"stop": hear, "sessionEnd": hear}})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Part(part.Host{Sessions: oneSession{}, Log: slog.New(slog.DiscardHandler)})
	routetest.Call(t, p.Routes, tool.RoleAgent, "POST /sessions/s/hook-events", `{"event": "stop", "input": {
		"sessionId": "other", "cwd": "/etc", "permissionMode": "bypassPermissions", "reported": true, "prompt": "go"}}`)
	if err := p.Forget(t.Context(), tool.Session{ID: "s", Dir: "/src", Mode: tool.ModeAuto}); err != nil {
		t.Fatal(err)
	}
	want := []Input{
		{Event: Stop, SessionID: "s", Cwd: "/src", PermissionMode: "auto", Prompt: "go"},
		{Event: SessionEnd, SessionID: "s", Cwd: "/src", PermissionMode: "auto"},
	}
	if !reflect.DeepEqual(heard, want) {
		t.Errorf("heard\n%+v, want\n%+v", heard, want)
	}
}

// TestTheAnswerToAnEventHasAllThatItsHooksSaid, in the fields of docs/hooks.md.
func TestTheAnswerToAnEventHasAllThatItsHooksSaid(t *testing.T) {
	for _, tt := range []struct {
		out  Output
		want string
	}{
		{
			Output{Permission: "ask", Reason: "hm", UpdatedInput: json.RawMessage(`{"a":1}`), SystemMessage: "see"},
			`{"block":false,"ask":true,"reason":"hm","updated_input":{"a":1},"system_messages":["see"],"outputs":[{`,
		},
		{Output{Decision: "approve"}, `{"block":false,"ask":false,"allow":true,"system_messages":[],"outputs":[{`},
		{
			Output{Block: true, Reason: "no"},
			`{"block":true,"ask":false,"reason":"no","system_messages":[],"outputs":[{`,
		},
		{Output{}, `{"block":false,"ask":false,"system_messages":[],"outputs":[]}`},
	} {
		r := newRegistry(t, PreToolUse, Definition{Name: "h", Handler: says(tt.out).Handler})
		p := r.Part(part.Host{Sessions: oneSession{}})
		got := routetest.Call(t, p.Routes, tool.RoleOperator, "POST /hooks/test", `{"event": "preToolUse"}`)
		if !strings.Contains(got, `"outcome":`+tt.want) ||
			!strings.Contains(got, `"runs":[{"event":"preToolUse","name":"h"`) {
			t.Errorf("%+v: got %s, want %s", tt.out, got, tt.want)
		}
	}
}

// TestEachThingThatAHookSaysIsAnOutput (H-18): also one that says a single thing.
func TestEachThingThatAHookSaysIsAnOutput(t *testing.T) {
	for _, o := range []Output{
		{Message: "x"},
		{Block: true},
		{Decision: "approve"},
		{Permission: "ask"},
		{Reason: "x"},
		{UpdatedInput: json.RawMessage(`{}`)},
		{PermissionUpdate: &PermissionUpdate{Tool: "Bash", Behavior: "ask"}},
		{SystemMessage: "x"},
		{AdditionalContext: "x"},
		{Notification: &Notification{Title: "x", Level: "info"}},
	} {
		a, err := newRegistry(t, Stop, says(o)).Fire(t.Context(), Stop, Input{})
		if err != nil || !reflect.DeepEqual(a.Outputs(), []Output{o}) {
			t.Errorf("got %+v, %v, want %+v", a.Outputs(), err, o)
		}
	}
}

// TestWhoMayCallTheRoutesOfHooks: hooks are operator configuration, and may hold secrets; agents tell of events alone.
func TestWhoMayCallTheRoutesOfHooks(t *testing.T) {
	agents := 0
	for _, rt := range newRegistry(t, Stop).Part(part.Host{}).Routes {
		want := tool.RoleOperator
		if rt.Pattern == "POST /sessions/{id}/hook-events" {
			want = tool.RoleAgent
			agents++
		}
		if rt.Role != want {
			t.Errorf("%s is for %q, want %q", rt.Pattern, rt.Role, want)
		}
	}
	if agents != 1 {
		t.Error("the route of events is not there")
	}
}

// TestARegisteredHookIsCheckedAsAConfiguredOne: its program may not lie where agents write either.
func TestARegisteredHookIsCheckedAsAConfiguredOne(t *testing.T) {
	r, err := New(Options{Writable: []string{"/ws"}})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Register(PreToolUse, Definition{Command: "/ws/check"})
	if err == nil || !strings.Contains(err.Error(), "agents can write") || r.Has(PreToolUse) {
		t.Errorf("got %v, want a refusal", err)
	}
}

// TestWithoutHooksACancelledCallKeepsItsResult: nobody is asked, so nobody's silence withholds it.
func TestWithoutHooksACancelledCallKeepsItsResult(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRegistry(t, Stop, says(Output{}))
	if a, err := r.Before(gone, bash("ls")); err != nil || a.Block {
		t.Errorf("before: %+v, %v", a, err)
	}
	if a, err := r.After(gone, bash("ls")); err != nil || a.Block {
		t.Errorf("after: %+v, %v", a, err)
	}
}
