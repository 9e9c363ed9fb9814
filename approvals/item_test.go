package approvals

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// TestA11_A20_AQuestionHasAllThatIsKnownOfItsCall: whoever answers sees whose rights the call has, what it would use,
// which files it gets as they are and which it does not, and the limits that hold after a yes.
func TestA11_A20_AQuestionHasAllThatIsKnownOfItsCall(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := bashCall("git push")
	c.ID = "c1"
	c.Request.RunsAs, c.Request.Home, c.Request.Outside, c.Request.Typed = "uid:8", "/home/ann", true, true
	c.Request.DryRun = true
	c.Session.Created, c.Session.Agent = made, "helper"
	c.Session.Above = []tool.Session{{ID: "s0", Agent: "first"}}
	c.Facts.Origins = tool.Origins{Session: []tool.Origin{tool.OriginTool}}
	c.Facts.Uses.Script.Opaque = []shellparse.Opaque{{Command: "eval"}}
	c.Settings.AllowedWritePaths = []string{"/out"}
	c.Settings.Network.AllowedDomains = []string{"example.com"}
	c.Settings.Network.Unlisted = "ask"
	c.Decision.Obligations = guard.Obligations{ReadOnly: true}
	c.Binding = tool.Binding{
		Files: []sandbox.Approved{{Path: "/src/run.sh", Sum: "ab"}}, Not: []string{"/src/big: it is too large"},
	}
	want := Item{
		Type: TypeExecution, Status: StatusPending, Account: "acc", SessionID: "s1", SessionMade: made,
		Agent: "helper", Parents: []tool.Ancestor{{Session: "s0", Agent: "first"}}, RunsAs: "uid:8", CallID: "c1",
		Tool: "Bash", Description: "run a command", Args: json.RawMessage(`{"command":"git push"}`),
		Why:      []tool.Reason{{Rule: "mode:default", Message: "this mode asks"}},
		Remember: []string{RememberOnce},
		Facts: Facts{
			Class: tool.ClassExec, Mode: "default", Dir: "/src", Home: "/home/ann", Profile: "developer",
			Commands: c.Facts.Uses.Script.Commands, Opaque: []shellparse.Opaque{{Command: "eval"}},
			Reads: []string{"/src/a"}, Writes: []string{"$X (unknown)"}, Hosts: []string{"example.com"},
			Origins:  tool.Origins{Session: []tool.Origin{tool.OriginTool}},
			Bound:    []sandbox.Approved{{Path: "/src/run.sh", Sum: "ab"}},
			NotBound: []string{"/src/big: it is too large"}, Elsewhere: true, Outside: true, Typed: true,
			WritePaths: []string{"/out"}, Domains: []string{"example.com"}, Unlisted: "ask",
			Obligations: guard.Obligations{ReadOnly: true},
		},
	}
	if got := ItemOf(c); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// TestWhatIsToldOfAQuestionNamesIt: who follows the events sees whose question it is and until when it waits.
func TestWhatIsToldOfAQuestionNamesIt(t *testing.T) {
	until := time.Now().Add(time.Minute)
	got := AskedEvent(events.ApprovalAsked, Item{
		ID: "apr_1", Status: StatusPending, Account: "acc", SessionID: "s1", CallID: "c1", Tool: "Bash",
		ExpiresAt: until,
	})
	if time.Since(got.Time) > time.Hour {
		t.Errorf("its time is %v", got.Time)
	}
	want := events.Event{
		Type: events.ApprovalAsked, Time: got.Time, Account: "acc", Session: "s1", Call: "c1", Tool: "Bash",
		Approval: "apr_1", Status: "pending", Until: until,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestNoRouteOfQuestionsIsForAgents: an agent that could answer would approve its own calls.
func TestNoRouteOfQuestionsIsForAgents(t *testing.T) {
	routes := openQueue(t, Options{}).Part(part.Host{}).Routes
	if len(routes) == 0 {
		t.Error("there are no routes")
	}
	for _, rt := range routes {
		if rt.Role != tool.RoleOperator {
			t.Errorf("%s is for %q", rt.Pattern, rt.Role)
		}
	}
}
