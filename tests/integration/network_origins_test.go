package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX12_WhatCameInKeepsItsHost: the variable of a call names the host that sent bytes, and not one
// that sent none. So do the words that a call prints after that, the session, and what rules see.
func TestX12_WhatCameInKeepsItsHost(t *testing.T) {
	needs.Program(t, "curl")
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a page\n") }))
	t.Cleanup(upstream.Close)
	d := newPlaces(t, "")
	d.write("config.yaml", fmt.Sprintf(`
sessions: {mode: auto}
policy: {dirs: [%q]}
sandbox:
  network:
    allowedDomains: [up.test, off.test]
    unlisted: deny
    hosts: {"up.test:80": %q, "off.test:80": "127.0.0.1:1"}
`, d.work+"/policies", upstream.Listener.Addr()))
	d.env = append(d.env, "SANDBOXD_CONFIG="+d.work+"/config.yaml")
	d.write("policies/a.rego", `package sandboxd.policies.acme.heard

# METADATA
# title: Nothing starts true after it heard of a host
findings contains {"id": "acme.heard", "effect": "deny", "message": sprintf("heard of %v", [input.origins.hosts])} if {
	"true" in input.starts
	count(input.origins.hosts) > 0
}
`)
	d.start()
	d.needsWayOut()
	s := d.session()
	hosts := func(command string) string {
		t.Helper()
		r := d.call(s, "Bash", fmt.Sprintf(`{"command":%q}`, command))
		v, err := d.agent.Var(t.Context(), s, r.VarResult)
		if err != nil {
			t.Fatalf("%s: %v %+v", command, err, r.Error)
		}
		return strings.Join(v.Hosts, " ")
	}
	if got := hosts("curl -sS -m 20 http://off.test/; true; echo tried"); got != "" {
		t.Errorf("a host that sent nothing is named: %q", got)
	}
	if got := hosts("curl -sS -m 60 http://up.test/"); got != "up.test" {
		t.Errorf("what came in is of %q", got)
	}
	if got := hosts("echo words of its own"); got != "up.test" {
		t.Errorf("what is printed after that is of %q", got)
	}
	if o, err := d.agent.Origins(t.Context(), s); err != nil || fmt.Sprint(o.Hosts) != "[up.test]" {
		t.Errorf("the session has heard of %q, %v", o.Hosts, err)
	}
	if r := d.call(s, "Bash", `{"command":"true"}`); r.Error == nil || !strings.Contains(r.Error.Msg, `heard of ["up.test"]`) {
		t.Errorf("a rule does not see the host: %s %+v", r.Status, r.Error)
	}
}
