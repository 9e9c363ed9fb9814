package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestEveryRouteIsDescribed(t *testing.T) {
	ids := map[string]bool{}
	for _, rt := range New(newWorld(t).opts).routes() {
		if rt.Spec.Summary == "" || rt.Handle == nil || rt.Role == "" || rt.Spec.ID == "" {
			t.Errorf("%s lacks a summary, a handler, a role or an id", rt.Pattern)
		}
		if ids[rt.Spec.ID] {
			t.Errorf("%s: %s is there twice", rt.Pattern, rt.Spec.ID)
		}
		ids[rt.Spec.ID] = true
	}
}

// validate holds an answer against the schema of its route.
func (w *world) validate(t *testing.T, pattern string, a answer) {
	t.Helper()
	s, err := answerSchema(w.specOf(t, pattern), written)
	if a.status >= 400 {
		s, err = schemaOf(struct {
			Error tool.Error `json:"error"`
		}{}, written)
	}
	must(t, err)
	r, err := s.Resolve(nil)
	must(t, err)
	var v any
	must(t, json.Unmarshal(a.body, &v))
	if err := r.Validate(v); err != nil {
		t.Errorf("%s answered %d: %v\n%s", pattern, a.status, err, a.body)
	}
}

// PUT sets what it says, whatever holds now.
func TestAGroupAndAToolAreSet(t *testing.T) {
	w := newWorld(t)
	at := "/sessions/" + w.session(tool.RoleAgent)
	for _, what := range []string{"groups/test", "tools/Wait"} {
		kind, name, _ := strings.Cut(what, "/")
		for _, on := range []bool{false, false, true, true} {
			a := w.do(tool.RoleOperator, "PUT", at+"/"+what, fmt.Sprintf(`{"enabled":%t}`, on))
			var s map[string]json.RawMessage
			must(t, json.Unmarshal(a.Data, &s))
			if want := fmt.Sprintf(`{%q:%t}`, name, on); string(s[kind]) != want {
				t.Errorf("%s: %s, want %s (%s)", what, s[kind], want, a.body)
			}
		}
	}
}

// Every route answers with the status and in the form that the document says, for
// something that exists and for something that does not.
func TestAnswersAreAsTheDocumentSays(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	tried := map[string]bool{}
	for _, tt := range []struct {
		pattern, path, body string
		status              int
	}{
		{"GET /healthz", "", "", 200},
		{"GET /status", "", "", 200},
		{"POST /sessions", "", `{"metadata":{"a":1}}`, 201},
		{"GET /sessions", "", "", 200},
		{"GET /sessions/{id}", "", "", 200},
		{"PATCH /sessions/{id}", "", `{"title":"t","sandbox":{"limits":{"wallSeconds":5}}}`, 200},
		{"PUT /sessions/{id}/messages", "", `{"messages":[{"role":"user","content":"x","more":1}],"metadata":{"model":"m"}}`, 200},
		{"POST /sessions/{id}/messages", "", `{"messages":[]}`, 200},
		{"GET /sessions/{id}/messages", "?limit=1", "", 200},
		{"POST /sessions/{id}/fork", "", `{"new_id":"fork","up_to_message_index":1}`, 201},
		{"POST /sessions", "", `{"resume":"` + id + `"}`, 200},
		{"GET /sessions/{id}/tools", "?format=openai", "", 200},
		{"GET /sessions/{id}/prompt", "", "", 200},
		{"PUT /sessions/{id}/tools/{name}", "/sessions/" + id + "/tools/Wait", `{"enabled":true}`, 200},
		{"PUT /sessions/{id}/groups/{name}", "/sessions/" + id + "/groups/test", `{"enabled":true}`, 200},
		{"POST /sessions/{id}/calls", "", `{"tool":"Echo","args":{"a":1}}`, 200},
		{"POST /sessions/{id}/calls", "", `{"tool":"None"}`, 200},
		{"POST /sessions/{id}/calls", "", `{"tool":"Echo","dry_run":true}`, 200},
		{"POST /sessions/{id}/calls", "", `{"calls":[{"tool":"Echo"},{"tool":"None"}]}`, 200},
		{"GET /calls", "", "", 200},
		{"GET /calls/{id}", "/calls/none", "", 404},
		{"POST /calls/{id}/cancel", "/calls/none/cancel", "", 404},
		{"POST /decide", "", `{"session_id":"` + id + `","tool":"Echo","args":{}}`, 200},
		{"POST /check", "", `{"command":"ls | wc"}`, 200},
		{"POST /check", "", `{"path":"/etc/passwd","op":"read"}`, 200},
		{"PUT /sessions/{id}/vars/{name}", "/sessions/" + id + "/vars/v", `{"value":"x"}`, 201},
		{"GET /sessions/{id}/vars/{name}", "/sessions/" + id + "/vars/v", "", 200},
		{"PATCH /sessions/{id}/vars/{name}", "/sessions/" + id + "/vars/v", `{"desc":"d"}`, 200},
		{"GET /sessions/{id}/vars", "", "", 200},
		{"POST /sessions/{id}/vars/remove", "", `{"names":["none"]}`, 200},
		{"DELETE /sessions/{id}/vars/{name}", "/sessions/" + id + "/vars/v", "", 200},
		{"GET /sessions/{id}/origins", "", "", 200},
		{"POST /sessions/{id}/origins/reset", "", "", 200},
		{"POST /records", "", `{"phase":"begin","call_id":"call_ABCDEFGHIJKLMNOPQRSTUVWX27","tool":"Bash"}`, 200},
		{"GET /approvals", "", "", 200},
		{"GET /approvals/{id}", "/approvals/none", "", 404},
		{"GET /grants", "", "", 200},
		{"GET /policies", "", "", 200},
		{"POST /policies/reload", "", `{"loosen":true}`, 200},
		{"GET /policies/shadow", "", "", 200},
		{"GET /hooks", "", "", 200},
		{"POST /hooks/test", "", `{"event":"stop"}`, 200},
		{"POST /sessions/{id}/hook-events", "", `{"event":"stop"}`, 200},
		{"POST /calls/{id}/run", "/calls/none/run", "", 404},
		{"POST /calls/{id}/ended", "/calls/none/ended", `{"exit_code":0,"cpu_ms":0,"max_rss_bytes":0,"report":{}}`, 404},
		{
			"POST /calls/{id}/connect", "/calls/none/connect",
			`{"host":"a.test","port":443,"protocol":"tls","via":"transparent"}`, 404,
		},
		{"POST /approvals/{id}", "/approvals/none", `{"approved":true}`, 404},
		{"DELETE /grants/{id}", "/grants/none", "", 404},
		{"POST /policies/explain", "", `{"session_id":"` + id + `","tool":"Echo","args":{}}`, 200},
		{"GET /decisions", "", "", 200},
		{"GET /decisions/{id}", "/decisions/none", "", 404},
		{"GET /audit", "", "", 200},
		{"GET /debug/pprof", "", "", 200},
		{"GET /debug/pprof/{name}", "/debug/pprof/none", "", 404},
		{"POST /reload", "", `{"loosen":true}`, 200},
		{"DELETE /sessions/{id}", "", "", 200},
		{"POST /stop-all", "", "", 200},
	} {
		method, path, _ := strings.Cut(tt.pattern, " ")
		path = strings.ReplaceAll(path, "{id}", id)
		if tt.path != "" && tt.path[0] == '/' {
			path = tt.path
		} else {
			path += tt.path
		}
		a := w.do(tool.RoleOperator, method, path, tt.body)
		if a.status != tt.status {
			t.Errorf("%s: got %d, want %d: %s", tt.pattern, a.status, tt.status, a.body)
		}
		if a.status == http.StatusCreated && !w.specOf(t, tt.pattern).Created {
			t.Errorf("%s answers 201, which the document does not have", tt.pattern)
		}
		w.validate(t, tt.pattern, a)
		tried[tt.pattern] = true
	}
	for _, rt := range New(w.opts).routes() {
		if !tried[rt.Pattern] && rt.Spec.Events == nil {
			t.Errorf("no answer of %s was looked at", rt.Pattern)
		}
	}
}

// What the document requires the server requires, and what it does not know of a query
// the server refuses.
func TestRequestsAreAsTheDocumentSays(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	for _, rt := range New(w.opts).routes() {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		path = strings.NewReplacer("{id}", id, "{name}", "x").Replace(path)
		for _, query := range []string{"?no_such=1", "?limit=some", "?limit=1&limit=2", "?sort_by=size", "?deferred=perhaps"} {
			name := query[1:strings.IndexByte(query, '=')]
			a := w.do(tool.RoleOperator, method, path+query, "")
			if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), name) {
				t.Errorf("%s%s: got %d %s", rt.Pattern, query, a.status, a.body)
			}
		}
		if rt.Spec.In == nil {
			continue
		}
		in, err := schemaOf(rt.Spec.In, written)
		must(t, err)
		if len(in.Required) == 0 {
			continue
		}
		all := map[string]any{}
		for _, name := range in.Required {
			all[name] = nil // which is not there either
		}
		body, err := json.Marshal(all)
		must(t, err)
		for _, body := range []string{"", "{}", string(body)} {
			a := w.do(tool.RoleOperator, method, path, body)
			if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "is missing") {
				t.Errorf("%s %s: got %d %s", rt.Pattern, body, a.status, a.body)
			}
		}
	}
}

func (w *world) specOf(t *testing.T, pattern string) route.Spec {
	t.Helper()
	for _, rt := range New(w.opts).routes() {
		if rt.Pattern == pattern {
			return rt.Spec
		}
	}
	t.Fatalf("no route %s", pattern)
	return route.Spec{}
}
