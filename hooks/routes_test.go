package hooks

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// oneSession is the session s of account a.
type oneSession struct{ part.Sessions }

func (oneSession) Session(_ context.Context, account, id string) (tool.Session, error) {
	if account != "a" || id != "s" {
		return tool.Session{}, &tool.Error{Code: "session_not_found", Msg: id}
	}
	return tool.Session{ID: id, Account: account, Dir: "/src", Mode: tool.ModeAuto}, nil
}

func TestTheRoutesOfHooks(t *testing.T) {
	var heard []Input
	hear := func(_ context.Context, in Input) (*Output, error) {
		heard = append(heard, in)
		return &Output{Message: "heard", Decision: "block", Reason: "not yet"}, nil
	}
	r, err := New(Options{Hooks: map[string][]Definition{
		string(Stop): {{Handler: hear}}, string(SessionEnd): {{Handler: hear}}, string(PostToolUse): {{Handler: hear}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Part(part.Host{Sessions: oneSession{}, Log: slog.New(slog.DiscardHandler)})
	for _, tt := range []struct{ line, body, want string }{
		{"GET /hooks", "", `"event":"stop"`},
		{"POST /sessions/s/hook-events", `{"event": "Stop"}`, `"block":true`},
		{"POST /sessions/s/hook-events", `{"event": "postToolUse", "input": {"toolName": "Bash"}}`, `"outputs":[`},
		{"POST /sessions/s/hook-events", `{"event": "sessionEnd"}`, `"outputs":[`},
		{"POST /sessions/s/hook-events", `{"event": "sessionStart"}`, "is fired by the daemon"},
		{"POST /sessions/s/hook-events", `{"event": "never"}`, "validation_error: "},
		{"POST /sessions/s/hook-events", `{"events": "stop"}`, "validation_error: "},
		{"POST /sessions/other/hook-events", `{"event": "stop"}`, "session_not_found: other"},
		{"POST /hooks/test", `{"event": "stop"}`, `"outcome":{"block":true`},
		{"POST /hooks/test", `{"event": "never"}`, "validation_error: "},
	} {
		if got := routetest.Call(t, p.Routes, tool.RoleOperator, tt.line, tt.body); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.line, tt.body, got, tt.want)
		}
	}
	if len(heard) != 4 || heard[2].Event != SessionEnd || !heard[2].Reported || heard[0].SessionID != "s" || heard[0].Cwd != "/src" || heard[0].Reported || !heard[1].Reported {
		t.Errorf("the hooks heard %+v", heard)
	}
	if err := p.Forget(t.Context(), tool.Session{ID: "s", Dir: "/src"}); err != nil || len(heard) != 5 || heard[4].Reported {
		t.Errorf("at the end of the session: %v, %+v", err, heard)
	}
}
