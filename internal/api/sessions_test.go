package api

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestAnAgentLoosensNothingOfItsSession: the mode, the profile and the sandbox of
// its session are the operator's.
func TestAnAgentLoosensNothingOfItsSession(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	for _, body := range []string{
		`{"mode":"bypassPermissions"}`, `{"mode":"plan"}`, `{"profile":"light"}`,
		`{"sandbox":{"allowedWritePaths":["/"]}}`, `{"sandbox":{}}`, `{"title":"t","sandbox":{"defaults":"none"}}`,
	} {
		a := w.do(tool.RoleAgent, "PATCH", "/sessions/"+id, body)
		if a.status != http.StatusForbidden || a.Error.Code != "operator_only" {
			t.Errorf("%s: got %d %s", body, a.status, a.Error.Code)
		}
	}
	var s session
	must(t, json.Unmarshal(w.do(tool.RoleAgent, "GET", "/sessions/"+id, "").Data, &s))
	if s.Mode != "auto" || s.Profile != "strict" || s.Sandbox != nil || s.Title != "" {
		t.Errorf("the session is %+v", s)
	}
	if a := w.do(tool.RoleAgent, "PATCH", "/sessions/"+id, `{"title":"mine"}`); a.status != http.StatusOK {
		t.Errorf("a title: got %d %+v", a.status, a.Error)
	}
}

// TestTheSandboxOfASessionIsChecked: as the one of the configuration is, and what
// is the daemon's stays denied.
func TestTheSandboxOfASessionIsChecked(t *testing.T) {
	private := t.TempDir()
	w := newWorld(t, func(o *Options) { o.Private = []string{private} })
	id := w.session(tool.RoleOperator)
	for _, tt := range []struct{ name, body, says string }{
		{"a relative path", `{"sandbox":{"allowedReadPaths":["src"]}}`, `"src" is relative`},
		{"a command with a space", `{"sandbox":{"deniedCommands":["rm -rf"]}}`, "not the name of a program"},
		{"a limit below zero", `{"sandbox":{"limits":{"processes":-1}}}`, "is negative"},
		{"an unknown key", `{"sandbox":{"deniedPath":[]}}`, "unknown key"},
		{"a profile that is none", `{"profile":"none"}`, "unknown profile"},
		{"no profile", `{"profile":""}`, "unknown profile"},
		{"a mode that is none", `{"mode":"none"}`, "unknown mode"},
		{"no mode", `{"mode":""}`, "unknown mode"},
	} {
		a := w.do(tool.RoleOperator, "PATCH", "/sessions/"+id, tt.body)
		if a.status != http.StatusBadRequest || !strings.Contains(a.Error.Msg, tt.says) {
			t.Errorf("%s: got %d %q, want %q", tt.name, a.status, a.Error.Msg, tt.says)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink("/usr/share", link))
	a := w.do(tool.RoleOperator, "PATCH", "/sessions/"+id, `{"sandbox":{"defaults":"none","deniedPaths":["`+link+`"]}}`)
	var s session
	must(t, json.Unmarshal(a.Data, &s))
	if got := s.Sandbox.DeniedPaths; len(got) != 2 || got[0] != "/usr/share" || got[1] != private {
		t.Errorf("denied are %q, want what the link leads to and what is the daemon's", got)
	}
}

// TestADeletedSessionAsksNobody: the questions of a session end with it.
func TestADeletedSessionAsksNobody(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	c := tool.NewCall(tool.Request{Account: tool.DefaultAccount, Session: id, Tool: "Echo"})
	c.Session, c.Digest, c.In.Args = tool.Session{ID: id, Account: tool.DefaultAccount}, "d", json.RawMessage("{}")
	c.Decision = tool.Decision{Verdict: tool.Ask, By: tool.ByMode}
	asked := w.queue.Subscribe(t.Context())
	answered := make(chan tool.Approval, 1)
	go func() {
		answer, err := w.queue.Execution(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		answered <- answer
	}()
	<-asked
	if a := w.do(tool.RoleAgent, "DELETE", "/sessions/"+id, ""); a.status != http.StatusOK {
		t.Fatalf("got %d %+v", a.status, a.Error)
	}
	if n := w.queue.Pending(); n != 0 {
		t.Fatalf("%d questions wait on", n)
	}
	if answer := <-answered; answer.Approved || answer.Code != approvals.CodeCancelled {
		t.Errorf("got %+v", answer)
	}
}

// TestDecideKeepsToTheWorkspace: another program's call is judged for the directory
// that it says, and only for one that it could have.
func TestDecideKeepsToTheWorkspace(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	theirs := w.session(tool.RoleOperator, "X-Account-Id", "ann")
	root, err := w.opts.Workspaces.Default()
	must(t, err)
	must(t, os.Symlink("/etc", filepath.Join(root, "out")))
	must(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	for _, tt := range []struct {
		name, session, dir string
		status             int
		code               string
	}{
		{"the workspace", id, root, 200, ""},
		{"outside", id, "/etc", 403, "cwd_outside_workspace"},
		{"by dots", id, root + "/..", 403, "cwd_outside_workspace"},
		{"by a link", id, root + "/out", 403, "cwd_outside_workspace"},
		{"a file", id, root + "/file", 400, "validation_error"},
		{"nothing", id, root + "/none", 400, "validation_error"},
		{"relative", id, "sub", 400, "validation_error"},
		{"the session of another account", theirs, root, 404, "session_not_found"},
		{"no session", "", root, 400, "validation_error"},
	} {
		body := `{"session_id":"` + tt.session + `","tool":"Echo","args":{},"cwd":"` + tt.dir + `"}`
		a := w.do(tool.RoleAgent, "POST", "/decide", body)
		if a.status != tt.status || a.Error.Code != tt.code {
			t.Errorf("%s: got %d %s, want %d %s", tt.name, a.status, a.Error.Code, tt.status, tt.code)
		}
	}
}

// TestDecideTakesTheHomeOfTheClient: ~ of a call that a client runs itself leads to the HOME of the client. What it
// runs in the sandbox has the home of the session.
func TestDecideTakesTheHomeOfTheClient(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	for _, tt := range []struct {
		name, more string
		status     int
	}{
		{"its own", `,"home":"` + HomeOf(os.Getuid()) + `"`, 200},
		{"another", `,"home":"/elsewhere"`, 200},
		{"relative", `,"home":"elsewhere"`, 400},
		{"longer than a path", `,"home":"/` + strings.Repeat("x", 4096) + `"`, 400},
		{"its own, in the sandbox", `,"hold":true,"home":"` + HomeOf(os.Getuid()) + `"`, 200},
		{"another, in the sandbox", `,"hold":true,"home":"/elsewhere"`, 400},
	} {
		a := w.do(tool.RoleAgent, "POST", "/decide", `{"session_id":"`+id+`","tool":"Echo","args":{}`+tt.more+`}`)
		if a.status != tt.status {
			t.Errorf("%s: got %d %+v, want %d", tt.name, a.status, a.Error, tt.status)
		}
	}
}

// TestWhoReportsIsNotTheirsToSay: a line of a command that ran elsewhere names its
// reporter as the kernel does, and the words of the client as the client's.
func TestWhoReportsIsNotTheirsToSay(t *testing.T) {
	w := newWorld(t)
	report := func(phase, key string) answer {
		return w.do(tool.RoleAgent, "POST", "/records", `{"phase":"`+phase+
			`","call_id":"call_ABCDEFGHIJKLMNOPQRSTUVWX27","tool":"Bash","detail":{"`+key+`":"uid:4711"}}`)
	}
	if a := report("begin", "reported_by"); a.status != http.StatusBadRequest {
		t.Errorf("who reports, by the report: got %d", a.status)
	}
	if a := report("begin", "verdict"); a.status != http.StatusOK {
		t.Fatalf("got %d %+v", a.status, a.Error)
	}
	var lines []struct {
		Event   string            `json:"event"`
		Account string            `json:"account"`
		Detail  map[string]string `json:"detail"`
	}
	must(t, json.Unmarshal(w.do(tool.RoleOperator, "GET", "/audit?limit=1", "").Data, &lines))
	if len(lines) != 1 || lines[0].Event != "exec_begin" || lines[0].Account != tool.DefaultAccount {
		t.Fatalf("got %+v", lines)
	}
	d := lines[0].Detail
	if d["reported_by"] == "uid:4711" || !strings.HasPrefix(d["reported_by"], "uid:") ||
		d["said_verdict"] != "uid:4711" {
		t.Errorf("got %v", d)
	}
	if a := report("approved", "verdict"); a.status != http.StatusBadRequest {
		t.Errorf("a phase that is none: got %d", a.status)
	}
}
