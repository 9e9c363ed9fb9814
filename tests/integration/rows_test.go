package integration

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// question is one that waits for a person.
type question struct {
	ID    string          `json:"id"`
	Args  json.RawMessage `json:"args"`
	Facts struct {
		Bound []struct {
			Path string `json:"path"`
			Sum  string `json:"sha256"`
		} `json:"bound"`
		NotBound []string `json:"not_bound"`
		Writes   []string `json:"writes"`
	} `json:"facts"`
}

// waiting returns the questions once there are n.
func (d *running) waiting(n int) []question {
	d.t.Helper()
	var list []question
	ok := waitFor(func() bool {
		list = nil
		return d.operator.Do(d.t.Context(), "GET", "/approvals", nil, &list) == nil && len(list) == n
	})
	if !ok {
		d.t.Fatalf("never %d questions: %+v\n%s", n, list, d.log)
	}
	return list
}

func (d *running) answer(id string, approved bool) {
	d.t.Helper()
	in := map[string]any{"approved": approved, "remember": "session"}
	if err := d.operator.Do(d.t.Context(), "POST", "/approvals/"+id, in, nil); err != nil {
		d.t.Fatal(err)
	}
}

// The person sees what a reference stands for, and the remembered answer is for
// that: with another value the same words ask again.
func TestA08_ReferencesAreResolvedBeforeThePersonIsAsked(t *testing.T) {
	d := newDaemon(t, "tools:\n  permissions:\n    Glob: {execution: ask-once}\n")
	s := d.session()
	set := func(value string) {
		t.Helper()
		if _, err := d.agent.PutVar(t.Context(), s, "where", client.VarChange{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan client.Result)
	call := func() {
		go func() {
			r, err := d.agent.Call(t.Context(), s, "Glob", json.RawMessage(`{"pattern":"$VAR_REF{{where}}"}`))
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
	}
	for _, value := range []string{"*.first", "*.second"} {
		set(value)
		call()
		q := d.waiting(1)[0]
		if !strings.Contains(string(q.Args), `"`+value+`"`) || strings.Contains(string(q.Args), "VAR_REF") {
			t.Errorf("the person was shown %s, want the value %s", q.Args, value)
		}
		d.answer(q.ID, true)
		if r := <-done; r.Status != client.StatusSuccess {
			t.Errorf("with %s: %+v", value, r)
		}
		call() // the same again: answered
		if r := <-done; r.Status != client.StatusSuccess {
			t.Errorf("with %s again: %+v", value, r)
		}
	}
}

func TestA22_P28_AnAgentCannotLoosenWhatJudgesIt(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	agent := unixClient(filepath.Join(d.work, "run/a.sock"))
	session := "/sessions/" + s
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		code                     string
	}{
		{"skip the question", "POST", session + "/calls", `{"tool":"Bash","skipExecutionApproval":true}`, 400, "validation_error"},
		{"skip it in other words", "POST", session + "/calls", `{"tool":"Bash","skip_execution_approval":true}`, 400, "validation_error"},
		{
			"skip the question about the result", "POST", session + "/calls", `{"tool":"Bash","skipResultApproval":true}`,
			400, "validation_error",
		},
		{
			"in one call of several", "POST", session + "/calls", `{"calls":[{"tool":"Bash","skipResultApproval":true}]}`,
			400, "validation_error",
		},
		{
			"in what somebody else runs", "POST", "/decide",
			`{"session_id":"` + s + `","tool":"Bash","skipExecutionApproval":true}`, 400, "validation_error",
		},
		{"another mode", "PATCH", session, `{"mode":"bypassPermissions"}`, 403, "operator_only"},
		{"a stricter mode, which is the operator's too", "PATCH", session, `{"mode":"default"}`, 403, "operator_only"},
		{"another profile", "PATCH", session, `{"profile":"light"}`, 403, "operator_only"},
		{"another sandbox", "PATCH", session, `{"sandbox":{"deniedPaths":[]}}`, 403, "operator_only"},
		{"a looser mode from the start", "POST", "/sessions", `{"mode":"bypassPermissions"}`, 403, "mode_not_allowed"},
		{"other policies", "POST", "/policies/reload", ``, 403, "operator_only"},
		{"another configuration", "POST", "/reload", ``, 403, "operator_only"},
		{"an answer to its own question", "POST", "/approvals/x", `{"approved":true}`, 403, "operator_only"},
		{"a tool that is off", "PUT", session + "/tools/Bash", `{"enabled":true}`, 403, "operator_only"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://x"+tt.path,
				strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := agent.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var said struct{ Error client.Error }
			if err := json.NewDecoder(res.Body).Decode(&said); err != nil || res.StatusCode != tt.status ||
				said.Error.Code != tt.code {
				t.Errorf("got %d %+v, %v, want %d %s", res.StatusCode, said.Error, err, tt.status, tt.code)
			}
		})
	}
	var now struct{ Mode, Profile string }
	if err := d.agent.Do(t.Context(), http.MethodGet, "/sessions/"+s, nil, &now); err != nil || now.Mode != "auto" ||
		now.Profile != "strict" {
		t.Errorf("the session is %+v, %v", now, err)
	}
}

func TestT26_T27_T30_ResultsAndArgumentsAreVariables(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	if _, err := d.agent.PutVar(t.Context(), s, "n", client.VarChange{Value: "3"}); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		t.Helper()
		all, err := d.agent.Vars(t.Context(), s, client.VarFilter{})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	r := d.call(s, "Bash", `{"command":"seq $VAR_REF{{n}}"}`)
	if r.Status != client.StatusSuccess {
		t.Fatalf("got %+v", r)
	}
	if want := "Bash_" + r.NodeID; r.VarResult != want+"_result" || r.VarArgs != want+"_args" {
		t.Errorf("T-30: the result names %q and %q, want %s_result and _args", r.VarResult, r.VarArgs, want)
	}
	before := count()
	for name, want := range map[string]struct{ value, kind string }{
		r.VarResult: {"1\n2\n3", "ToolCallResult"},
		r.VarArgs:   {`{"command":"seq 3"}`, "ToolCallArgs"},
	} {
		v, err := d.agent.Var(t.Context(), s, name)
		if err != nil || strings.TrimSpace(*v.Value) != want.value || v.Type != want.kind {
			t.Errorf("T-27: %s is %+v, %v, want %+v", name, v, err, want)
		}
		got := d.call(s, "ReadVar", `{"name":"`+name+`"}`)
		if text, ok := got.Data.(string); !ok || strings.TrimSpace(text) != want.value || got.VarResult != "" || got.VarArgs != "" {
			t.Errorf("T-30: ReadVar of %s gave %+v", name, got)
		}
	}
	for tool, args := range map[string]string{"ListVars": `{}`, "WriteVar": `{"name":"n","value":"4"}`} {
		if got := d.call(s, tool, args); got.Status != "SUCCESS" || got.VarResult != "" {
			t.Errorf("%s: %+v", tool, got)
		}
	}
	if got := count(); got != before {
		t.Errorf("T-26: tools of variables made %d variables", got-before)
	}
}

func TestX35_ADenialIsAnErrorAndOnTheRecord(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	for _, tt := range []struct{ tool, args, code string }{
		{"Bash", `{"command":"cat ~/.ssh/id_rsa"}`, "path_denied"},
		{"Write", `{"file_path":"/etc/passwd","content":"x"}`, "path_outside_write_scope"},
	} {
		r := d.call(s, tt.tool, tt.args)
		if r.Status != client.StatusError || r.Error == nil || r.Error.Code != tt.code {
			t.Errorf("%s %s: got %+v, want an error %s", tt.tool, tt.args, r, tt.code)
			continue
		}
		var lines []map[string]any
		if err := d.operator.Do(t.Context(), "GET", "/audit?limit=10", nil, &lines); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, l := range lines {
			if l["call"] == r.CallID && l["event"] == "end" {
				found = true
				if l["verdict"] != "deny" || l["error_code"] != tt.code || l["status"] != "ERROR" ||
					l["tool"] != tt.tool || l["args_sha256"] == nil {
					t.Errorf("the record has %v", l)
				}
			}
		}
		if !found {
			t.Errorf("no line of the record ends the call %s", r.CallID)
		}
	}
}
