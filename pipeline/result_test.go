package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// What went wrong is a status, a code with the stage it has or came from, and a text for the model with what to do.
func TestWhatAFailureBecomes(t *testing.T) {
	said := &tool.Error{Code: "c", Msg: "m", Hint: "h"}
	no := func(status tool.Status) error { return rejection{status, tool.Approval{Reason: "why"}} }
	for _, tt := range []struct {
		name, stage string
		err         error
		status      tool.Status
		code, at    string
		text        string
	}{
		{"with a hint", "judge", said, tool.StatusError, "c", "judge", "m\nHint: h"},
		{"of a stage", "run", &tool.Error{Code: "c", Msg: "m", Stage: "judge"}, tool.StatusError, "c", "judge", "m"},
		{"of a tool", "run", errors.New("boom"), tool.StatusError, "run_failed", "run", "Error executing tool T: boom"},
		{"of another stage", "begin", errors.New("boom"), tool.StatusError, "begin_failed", "begin", "boom"},
		{"no tool", "find", &tool.Error{Code: "tool_not_found", Msg: "m"}, tool.StatusNotFound, "tool_not_found", "find", "m"},
		{"not given", "find", &tool.Error{Code: "tool_disabled", Msg: "m"}, tool.StatusNotFound, "tool_disabled", "find", "m"},
		{
			"refused", "judge", no(tool.StatusExecutionRejected), tool.StatusExecutionRejected,
			"execution_rejected", "approve",
			"Execution not approved: why",
		},
		{
			"withheld", "release", no(tool.StatusResultRejected), tool.StatusResultRejected,
			"result_rejected", "approve",
			"Result not approved for LLM: why",
		},
		{
			"taken back", "settle", no(tool.StatusExecutionRejected), tool.StatusExecutionRejected,
			"execution_rejected", "settle",
			"Changes not approved: why",
		},
	} {
		c := &tool.Call{}
		c.Spec.Name = "T"
		c.Result.Data, c.Result.VarResult, c.Result.FormattedText = "secret", "v", "secret"
		fail(c, tt.stage, tt.err)
		r := c.Result
		if r.Status != tt.status || r.Error.Code != tt.code || r.Error.Stage != tt.at || r.FinalText != tt.text {
			t.Errorf("%s: %s, %s at %s, %q", tt.name, r.Status, r.Error.Code, r.Error.Stage, r.FinalText)
		}
		if r.Data != nil || r.VarResult != "" || r.FormattedText != "" {
			t.Errorf("%s: a result is left: %+v", tt.name, r)
		}
	}
	if said.Stage != "" {
		t.Error("the error of another call is changed")
	}
}

// Each result has lists where there is nothing in them, and says how many changes there are beyond those that it names.
func TestWhatEachResultHas(t *testing.T) {
	c := &tool.Call{}
	c.Report.Profile = "strict"
	c.Decision = tool.Decision{Verdict: tool.Ask, Reasons: []tool.Reason{{Rule: "r"}}}
	c.Changes.List, c.Changes.Total = []tool.Change{{Path: "/a"}}, 3
	finish(c)
	r := c.Result
	if r.Sandbox == nil || r.Sandbox.Denials == nil || r.Sandbox.Missing == nil {
		t.Errorf("the sandbox says %+v", r.Sandbox)
	}
	if r.Status != tool.StatusSuccess || r.FinalText != "judged, not run: ask" ||
		r.Decision == nil || r.ChangesTotal != 3 {
		t.Errorf("got %s %q, %+v, %d changes", r.Status, r.FinalText, r.Decision, r.ChangesTotal)
	}
	c = &tool.Call{}
	c.Changes.List, c.Changes.Total = []tool.Change{{Path: "/a"}}, 1
	finish(c)
	if r := c.Result; r.ChangesTotal != 0 || r.Decision != nil || r.Sandbox != nil || r.Network != nil {
		t.Errorf("got %+v", r)
	}
}

// Why a connection is refused says what to do about it: where nothing can be done, that.
func TestWhatIsSaidOfAConnection(t *testing.T) {
	conn := egress.Connection{Host: "a.test", Port: 443}
	for _, tt := range []struct {
		rule    string
		verdict guard.Verdict
		says    string
	}{
		{"", guard.Allow, "is allowed by the settings"},
		{"network.allowedDomains", guard.Ask, "which network.allowedDomains does not list"},
		{"network.deniedDomains[0]", guard.Deny, "is in the denied domains"},
		{"network.allowedDomains", guard.Deny, "is not in the allowed domains"},
	} {
		if got := said(conn, tt.rule, tt.verdict); !strings.Contains(got, tt.says) || !strings.Contains(got, "a.test") {
			t.Errorf("%s: %q, want %q", tt.rule, got, tt.says)
		}
	}
	if got := deniedHint("network.deniedDomains[0]"); !strings.Contains(got, "do without it") {
		t.Errorf("got %q", got)
	}
	if got := deniedHint("network.allowedDomains"); got != listHint {
		t.Errorf("got %q", got)
	}
}

// What a hook after calls, or a person, may keep from the model is withheld until then, also from those who read along.
func TestWhatMayBeWithheld(t *testing.T) {
	for _, tt := range []struct {
		results tool.ResultPolicy
		posts   bool
		want    bool
	}{
		{"", false, false},
		{tool.ResultNever, false, false},
		{tool.ResultOnError, false, true},
		{tool.ResultAlways, false, true},
		{"", true, true},
		{tool.ResultNever, true, true},
	} {
		w := newWorld(tool.Spec{})
		w.posts = tt.posts
		c := &tool.Call{}
		c.Spec.Results = tt.results
		if got := w.pipeline().mayWithhold(c); got != tt.want {
			t.Errorf("results %q, hooks %v: got %v, want %v", tt.results, tt.posts, got, tt.want)
		}
	}
}
