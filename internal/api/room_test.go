package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestWhatIsKeptIsAdmitted with the size of its body, before anything of it is kept; what keeps
// nothing and what makes room is not asked about.
func TestWhatIsKeptIsAdmitted(t *testing.T) {
	var asked []int64
	code := ""
	w := newWorld(t, func(o *Options) {
		o.Admit = func(by route.Caller, n int64) error {
			if asked = append(asked, n); code == "" || by.Role == tool.RoleOperator {
				return nil
			}
			return &tool.Error{Code: code, Msg: "no room", Hint: "make some"}
		}
	})
	w.do(tool.RoleAgent, "POST", "/sessions", `{"id":"s1"}`)
	if len(asked) != 1 || asked[0] != int64(len(`{"id":"s1"}`)) {
		t.Errorf("asked %v", asked)
	}
	for _, tt := range []struct {
		code   string
		status int
	}{{"account_disk", http.StatusInsufficientStorage}, {"disk_reserve", http.StatusServiceUnavailable}} {
		code = tt.code
		for path, body := range map[string]string{
			"PUT /sessions/s1/vars/x":   `{"value":"y"}`,
			"POST /sessions":            `{"id":"s2"}`,
			"POST /sessions/s1/calls":   `{"tool":"Echo","args":{"text":"x"}}`,
			"POST /decide":              `{"session_id":"s1","tool":"Echo","args":{"text":"x"}}`,
			"PATCH /sessions/s1":        `{"title":"x"}`,
			"POST /records":             `{}`,
			"POST /calls/call_1/run":    `{}`,
			"PATCH /sessions/s1/vars/x": `{"value":"y"}`,
		} {
			method, path, _ := strings.Cut(path, " ")
			if a := w.do(tool.RoleAgent, method, path, body); a.status != tt.status || !strings.Contains(string(a.body), "make some") {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
		}
		asked = nil
		for _, path := range []string{"GET /sessions/s1", "GET /sessions/s1/vars", "GET /status", "DELETE /sessions/s1/vars/x"} {
			method, path, _ := strings.Cut(path, " ")
			if a := w.do(tool.RoleAgent, method, path, ""); a.status == tt.status {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
		}
		if len(asked) != 0 {
			t.Errorf("%v were asked about", asked)
		}
		if a := w.do(tool.RoleOperator, "PUT", "/sessions/s1/vars/x", `{"value":"y"}`); a.status >= 300 {
			t.Errorf("an operator: %d %s", a.status, a.body)
		}
	}
}

// TestABodyOfUnknownSizeCountsAsTheLargest that may come.
func TestABodyOfUnknownSizeCountsAsTheLargest(t *testing.T) {
	for given, want := range map[int64]int64{0: 0, 5: 5, -1: route.MaxBody, 1 << 40: route.MaxBody} {
		if got := bodyBytes(&http.Request{ContentLength: given}); got != want {
			t.Errorf("%d: got %d, want %d", given, got, want)
		}
	}
}
