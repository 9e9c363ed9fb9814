package api

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// A session gets a list of hosts from an operator, and no address, which would open nothing;
// /check judges under the settings that it is given.
func TestASessionGetsAListOfHosts(t *testing.T) {
	w := newWorld(t)
	path := "/sessions/" + w.session(tool.RoleOperator)
	a := w.do(tool.RoleOperator, "PATCH", path, `{"sandbox":{"network":{"allowedDomains":["10.0.0.1"]}}}`)
	if a.status != 400 || !strings.Contains(a.Error.Msg, `network.allowedDomains: "10.0.0.1" is an address`) {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a := w.do(tool.RoleOperator, "PATCH", path, `{"sandbox":{"network":{"allowedDomains":["a.org"]}}}`); a.status != 200 {
		t.Errorf("a list: got %d %s", a.status, a.body)
	}
	body := `{"command":"curl https://HOST/","settings":{"network":{"allowedDomains":["a.org"]}}}`
	for host, want := range map[string]string{"a.org": `"verdict":"allow"`, "evil.test": `host_denied`} {
		a := w.do(tool.RoleAgent, "POST", "/check", strings.Replace(body, "HOST", host, 1))
		if a.status != 200 || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: got %d %s, want %s", host, a.status, a.body, want)
		}
	}
}
