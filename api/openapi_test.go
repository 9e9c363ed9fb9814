package api

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tool"
)

func TestOpenAPIIsCurrent(t *testing.T) {
	want, err := OpenAPI()
	must(t, err)
	got, err := os.ReadFile("../docs/openapi.json")
	must(t, err)
	if string(got) != string(want)+"\n" {
		t.Error("docs/openapi.json is not what the types say; run make docs")
	}
	for _, ref := range regexp.MustCompile(`"\$ref": "#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(string(want), -1) {
		var doc struct{ Components map[string]map[string]any }
		must(t, json.Unmarshal(want, &doc))
		if doc.Components[ref[1]][ref[2]] == nil {
			t.Errorf("%s leads nowhere", ref[0])
		}
	}
}

func TestEveryRouteIsDescribed(t *testing.T) {
	routes := map[string]bool{}
	for _, rt := range (&Server{}).routes() {
		routes[rt.pattern] = true
		if specs[rt.pattern].summary == "" {
			t.Errorf("%s has no entry in specs", rt.pattern)
		}
	}
	for pattern := range specs {
		if !routes[pattern] {
			t.Errorf("specs has %s, which is no route", pattern)
		}
	}
}

// validate holds an answer against the schema of its route.
func validate(t *testing.T, pattern string, a answer) {
	t.Helper()
	s, err := specs[pattern].schema(written)
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

// Every route answers what the document says, of something that is there and of
// something that is not.
func TestAnswersAreAsTheDocumentSays(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	for _, tt := range []struct{ pattern, path, body string }{
		{"GET /healthz", "", ""},
		{"GET /status", "", ""},
		{"POST /sessions", "", `{"metadata":{"a":1}}`},
		{"GET /sessions", "", ""},
		{"GET /sessions/{id}", "", ""},
		{"PATCH /sessions/{id}", "", `{"title":"t","sandbox":{"limits":{"wallSeconds":5}}}`},
		{"GET /sessions/{id}/tools", "?format=openai", ""},
		{"GET /sessions/{id}/prompt", "", ""},
		{"PUT /sessions/{id}/tools/{name}", "/sessions/" + id + "/tools/Wait", `{"enabled":true}`},
		{"PUT /sessions/{id}/groups/{name}", "/sessions/" + id + "/groups/test", `{"enabled":true}`},
		{"POST /sessions/{id}/calls", "", `{"tool":"Echo","args":{"a":1}}`},
		{"POST /sessions/{id}/calls", "", `{"tool":"None"}`},
		{"POST /sessions/{id}/calls", "", `{"tool":"Echo","dry_run":true}`},
		{"POST /sessions/{id}/calls", "", `{"calls":[{"tool":"Echo"},{"tool":"None"}]}`},
		{"GET /calls", "", ""},
		{"GET /calls/{id}", "/calls/none", ""},
		{"POST /calls/{id}/cancel", "/calls/none/cancel", ""},
		{"POST /decide", "", `{"session_id":"` + id + `","tool":"Echo","args":{}}`},
		{"POST /check", "", `{"command":"ls | wc"}`},
		{"POST /check", "", `{"path":"/etc/passwd","op":"read"}`},
		{"PUT /sessions/{id}/vars/{name}", "/sessions/" + id + "/vars/v", `{"value":"x"}`},
		{"GET /sessions/{id}/vars/{name}", "/sessions/" + id + "/vars/v", ""},
		{"PATCH /sessions/{id}/vars/{name}", "/sessions/" + id + "/vars/v", `{"desc":"d"}`},
		{"GET /sessions/{id}/vars", "", ""},
		{"POST /sessions/{id}/vars/remove", "", `{"names":["none"]}`},
		{"DELETE /sessions/{id}/vars/{name}", "/sessions/" + id + "/vars/v", ""},
		{"GET /sessions/{id}/origins", "", ""},
		{"POST /sessions/{id}/origins/reset", "", ""},
		{"POST /records", "", `{"phase":"begin","call_id":"c","tool":"Bash"}`},
		{"GET /approvals", "", ""},
		{"GET /approvals/{id}", "/approvals/none", ""},
		{"GET /grants", "", ""},
		{"GET /policies", "", ""},
		{"POST /policies/reload", "", ""},
		{"GET /hooks", "", ""},
		{"GET /audit", "", ""},
		{"POST /reload", "", ""},
		{"DELETE /sessions/{id}", "", ""},
		{"POST /stop-all", "", ""},
	} {
		method, path, _ := strings.Cut(tt.pattern, " ")
		path = strings.ReplaceAll(path, "{id}", id)
		if tt.path != "" && tt.path[0] == '/' {
			path = tt.path
		} else {
			path += tt.path
		}
		validate(t, tt.pattern, w.do(tool.RoleOperator, method, path, tt.body))
	}
}
