package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestACallIsItsAccountsAlone: for every other account a call does not exist, and
// nothing that is asked of it has an effect.
func TestACallIsItsAccountsAlone(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleOperator, "X-Account-Id", "ann")
	ended := make(chan answer)
	go func() {
		ended <- w.do(tool.RoleOperator, "POST", "/sessions/"+id+"/calls", `{"tool":"Wait"}`, "X-Account-Id", "ann")
	}()
	w.runningOf("ann", 1)
	call := w.opts.Pipeline.Calls("ann")[0].CallID
	for _, other := range []struct {
		name   string
		role   tool.Role
		header []string
	}{
		{"an agent", tool.RoleAgent, nil},
		{"an agent that names the account", tool.RoleAgent, []string{"X-Account-Id", "ann"}},
		{"an operator for bob", tool.RoleOperator, []string{"X-Account-Id", "bob"}},
	} {
		for _, ask := range []struct{ method, path, body string }{
			{"GET", "", ""},
			{"POST", "/cancel", ""},
			{"POST", "/run", ""},
			{"POST", "/ended", `{"exit_code":0,"cpu_ms":0,"max_rss_bytes":0,"report":{}}`},
		} {
			a := w.do(other.role, ask.method, "/calls/"+call+ask.path, ask.body, other.header...)
			if a.status != http.StatusNotFound {
				t.Errorf("%s, %s %s: got %d", other.name, ask.method, ask.path, a.status)
			}
		}
		if a := w.do(other.role, "GET", "/calls", "", other.header...); string(a.Data) != "[]" {
			t.Errorf("%s sees the calls %s", other.name, a.Data)
		}
	}
	if n := len(w.opts.Pipeline.Calls("ann")); n != 1 {
		t.Fatalf("%d calls of ann are left", n)
	}
	a := w.do(tool.RoleOperator, "POST", "/calls/"+call+"/cancel", "", "X-Account-Id", "ann")
	if a.status != http.StatusOK {
		t.Errorf("ann: got %d", a.status)
		close(w.hold) // it must end in some way
	}
	var r tool.Result
	must(t, json.Unmarshal((<-ended).Data, &r))
	if r.Error == nil || r.Error.Code != "cancelled" {
		t.Errorf("the call of ann ended with %+v", r)
	}
}

// An operator who names no account finds sessions and calls of every account by their
// id; lists, and what the operator makes, are of default-admin.
func TestAnOperatorFindsByID(t *testing.T) {
	w := newWorld(t)
	close(w.hold)
	id := w.session(tool.RoleOperator, "X-Account-Id", "ann")
	var r tool.Result
	a := w.do(tool.RoleOperator, "POST", "/sessions/"+id+"/calls", `{"tool":"Echo","args":{"text":"hi"}}`,
		"X-Account-Id", "ann")
	must(t, json.Unmarshal(a.Data, &r))
	for _, ask := range []struct{ method, path, body string }{
		{"GET", "/sessions/" + id, ""},
		{"PATCH", "/sessions/" + id, `{"title":"seen"}`},
		{"GET", "/sessions/" + id + "/tools", ""},
		{"GET", "/sessions/" + id + "/messages", ""},
		{"POST", "/sessions/" + id + "/calls", `{"tool":"Echo","args":{"text":"hi"}}`},
		{"GET", "/sessions/" + id + "/vars", ""},
		{"POST", "/sessions/" + id + "/origins/reset", "{}"},
		{"POST", "/decide", `{"session_id":"` + id + `","tool":"Echo","args":{"text":"hi"}}`},
		{"POST", "/policies/explain", `{"session_id":"` + id + `","tool":"Echo","args":{"text":"hi"}}`},
		{"GET", "/calls/" + r.CallID, ""},
	} {
		if a := w.do(tool.RoleOperator, ask.method, ask.path, ask.body); a.status != http.StatusOK {
			t.Errorf("%s %s: got %d %+v", ask.method, ask.path, a.status, a.Error)
		}
		if a := w.do(tool.RoleOperator, ask.method, ask.path, ask.body, "X-Account-Id", "bob"); a.status != http.StatusNotFound {
			t.Errorf("for bob, %s %s: got %d", ask.method, ask.path, a.status)
		}
	}
	own := w.session(tool.RoleOperator)
	for account, want := range map[string]string{"ann": id, tool.DefaultAccount: own} {
		var listed []session
		must(t, json.Unmarshal(w.do(tool.RoleOperator, "GET", "/sessions", "", "X-Account-Id", account).Data, &listed))
		if len(listed) != 1 || listed[0].ID != want {
			t.Errorf("%s has the sessions %+v, want %s alone", account, listed, want)
		}
	}
	if a := w.do(tool.RoleOperator, "DELETE", "/sessions/"+id, ""); a.status != http.StatusOK {
		t.Errorf("delete: got %d %+v", a.status, a.Error)
	}
	if a := w.do(tool.RoleOperator, "GET", "/sessions/"+id, ""); a.status != http.StatusNotFound {
		t.Errorf("a deleted session: got %d", a.status)
	}
}

func TestABatchIsBounded(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	batch := func(n int) answer {
		calls := strings.Repeat(`{"tool":"Nope"},`, n-1) + `{"tool":"Nope"}`
		return w.do(tool.RoleAgent, "POST", "/sessions/"+id+"/calls", `{"calls":[`+calls+`]}`)
	}
	a := batch(1001)
	if a.status != http.StatusBadRequest || !strings.Contains(a.Error.Msg, "1000 at most") {
		t.Errorf("1001 calls: got %d %+v", a.status, a.Error)
	}
	a = batch(1000)
	var all []tool.Result
	must(t, json.Unmarshal(a.Data, &all))
	if a.status != http.StatusOK || len(all) != 1000 {
		t.Errorf("1000 calls: got %d and %d results", a.status, len(all))
	}
}

// What a request of calls cannot be is refused before anything runs, with what is wrong.
func TestRequestsOfCallsAreBounded(t *testing.T) {
	w := newWorld(t)
	calls := "/sessions/" + w.session(tool.RoleAgent) + "/calls"
	word := strings.Repeat("x", maxWord+1)
	many := strings.TrimSuffix(strings.Repeat(`{"tool":"Echo"},`, maxBatch+1), ",")
	events := []string{"Accept", "text/event-stream"}
	for _, tt := range []struct {
		name, path, body, says string
		header                 []string
	}{
		{"one call and several", calls, `{"tool":"Echo","calls":[{"tool":"Echo"}]}`, "either one call or calls", nil},
		{"arguments beside several", calls, `{"args":{},"calls":[{"tool":"Echo"}]}`, "either one call or calls", nil},
		{"a dry run of several", calls, `{"dry_run":true,"calls":[{"tool":"Echo"}]}`, "either one call or calls", nil},
		{"an id for several", calls, `{"tool_use_id":"u","calls":[{"tool":"Echo"}]}`, "either one call or calls", nil},
		{"a branch for several", calls, `{"context":{"branch_id":"b"},"calls":[{"tool":"Echo"}]}`, "either one call or calls", nil},
		{"too many", calls, `{"calls":[` + many + `]}`, "1001 calls in one request, 1000 at most", nil},
		{"a long name", calls, `{"tool":"` + word + `"}`, "tool has 257 bytes", nil},
		{"a long id", calls, `{"tool":"Echo","tool_use_id":"` + word + `"}`, "tool_use_id has 257 bytes", nil},
		{
			"a long floor", calls, `{"tool":"Echo","context":{"floor_id":"` + word + `"}}`,
			"context.floor_id has 257 bytes", nil,
		},
		{"a long name of several", calls, `{"calls":[{"tool":"Echo"},{"tool":"` + word + `"}]}`, "tool has 257", nil},
		{"events of several", calls, `{"calls":[{"tool":"Echo"}]}`, "events are sent of one call", events},
		{"no word for output", calls + "?output=some", `{"tool":"Echo"}`, `want true or false`, events},
		{"reuse and an id", "/sessions", `{"reuse":true,"id":"mine"}`, "reuse and id exclude each other", nil},
		{"a relative directory", "/sessions", `{"cwd":"work"}`, "is not absolute", nil},
	} {
		a := w.do(tool.RoleAgent, "POST", tt.path, tt.body, tt.header...)
		if a.status != 400 || a.Error.Code != "validation_error" || !strings.Contains(string(a.body), tt.says) {
			t.Errorf("%s: got %d %.200s, want 400 with %q", tt.name, a.status, a.body, tt.says)
		}
	}
	a := w.do(tool.RoleAgent, "GET", "/sessions?accounts=all", "")
	if a.status != 403 || a.Error.Code != "operator_only" {
		t.Errorf("sessions of all accounts, for an agent: %d %s", a.status, a.Error.Code)
	}
	a = w.do(tool.RoleOperator, "GET", "/sessions?accounts=all", "", "X-Account-Id", "ann")
	if a.status != 403 || a.Error.Code != "operator_only" {
		t.Errorf("sessions of all accounts, for an operator who named one: %d %s", a.status, a.Error.Code)
	}
}

// A sub-agent that the daemon runs reaches what is of its session, and what says how the daemon is.
func TestASubAgentStaysInItsSession(t *testing.T) {
	w := newWorld(t)
	ann := []string{"X-Account-Id", "ann"}
	mine, other := w.session(tool.RoleOperator, ann...), w.session(tool.RoleOperator, ann...)
	call := func(session string) string {
		var r tool.Result
		a := w.do(tool.RoleOperator, "POST", "/sessions/"+session+"/calls", `{"tool":"Echo"}`, ann...)
		must(t, json.Unmarshal(a.Data, &r))
		return r.CallID
	}
	ours, theirs := call(mine), call(other)
	s := &Server{Options: w.opts}
	for _, tt := range []struct {
		path, id string
		ok       bool
	}{
		{"/status", "", true},
		{"/v1/healthz", "", true},
		{"/v1/sessions/" + mine + "/calls", mine, true},
		{"/sessions/" + mine + "/fork", mine, false},
		{"/sessions/" + other + "/calls", other, false},
		{"/sessions", "", false},
		{"/calls/" + ours, ours, true},
		{"/calls/" + theirs, theirs, false},
		{"/calls/call_none", "call_none", false},
	} {
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.SetPathValue("id", tt.id)
		if err := s.stays(r, route.Caller{Account: "ann", Only: mine}); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want that it is allowed: %v", tt.path, err, tt.ok)
		}
	}
}

// TestRightsThatNobodyHasAreNotTaken: a call, and a check, of a caller whose rights no process of the daemon can have is
// refused with what to do. Other rights would be more than it has.
func TestRightsThatNobodyHasAreNotTaken(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleOperator, "X-Account-Id", "ann")
	s := w.front.now.Load()
	for name, tt := range map[string]struct {
		handle func(*http.Request) (any, error)
		body   string
	}{
		"call":  {s.call, `{"tool":"Echo","args":{"text":"x"}}`},
		"check": {s.check, `{"command":"cat x"}`},
	} {
		me := route.Caller{Account: "ann", Role: tool.RoleAgent, UID: -1, GID: -1, Home: "/"}
		r := httptest.NewRequest("POST", "/", strings.NewReader(tt.body))
		r.SetPathValue("id", id)
		r = r.WithContext(route.WithCaller(r.Context(), me))
		_, err := tt.handle(r)
		var refused route.Error
		if !errors.As(err, &refused) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if e := refused.Said; refused.Status != http.StatusForbidden || e.Code != "rights_not_taken" ||
			!strings.Contains(e.Msg, "uid -1") || !strings.Contains(e.Hint, "name the uid in accounts") {
			t.Errorf("%s: got %d %+v", name, refused.Status, e)
		}
	}
}
