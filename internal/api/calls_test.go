package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

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
