package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestW05_OperatorsSeeResultsMasked: an agent reads its own words whole, an operator reads them without secrets of
// forms that are known.
func TestW05_OperatorsSeeResultsMasked(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	token := "ghp_" + strings.Repeat("a1B2", 9)
	agent := func(method, path, body string) answer {
		t.Helper()
		a := w.do(tool.RoleAgent, method, path, body)
		if a.status/100 != 2 {
			t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
		}
		return a
	}
	agent("PUT", "/sessions/"+id+"/vars/note", `{"value":"it is `+token+`"}`)
	agent("POST", "/sessions/"+id+"/messages", `{"messages":[{"role":"user","content":"it is `+token+`"}]}`)
	var failed tool.Result // whose message repeats an argument
	call := agent("POST", "/sessions/"+id+"/calls", `{"tool":"Echo","args":{"`+token+`":"x"}}`)
	if err := json.Unmarshal(call.Data, &failed); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a variable": "/sessions/" + id + "/vars/note",
		"messages":   "/sessions/" + id + "/messages",
		"a call":     "/calls/" + failed.CallID,
	} {
		a := w.do(tool.RoleAgent, "GET", path, "")
		if a.status != http.StatusOK || !strings.Contains(string(a.body), token) {
			t.Errorf("%s: the agent reads %d %s", name, a.status, a.body)
		}
		a = w.do(tool.RoleOperator, "GET", path, "")
		if a.status != http.StatusOK || strings.Contains(string(a.body), token) ||
			!strings.Contains(string(a.body), "[redacted:github-token]") {
			t.Errorf("%s: the operator reads %d %s", name, a.status, a.body)
		}
	}
}
