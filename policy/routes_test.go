package policy

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestDecisionsAreFoundByWhatWasAskedFor(t *testing.T) {
	e := newEngine(t, Options{})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour})
	for id, command := range map[string]string{
		"call_a": `echo "Say <b>" | sort`, "call_b": "ls verdict", "call_c": "ls 100%",
	} {
		c := bash(t, tool.ModeAuto, command)
		c.Session.Account = "a"
		keep(t, d, e, c, id)
	}
	routes := e.Part(part.Host{}, d, nil).Routes
	for search, want := range map[string]string{
		`"say <B>"`: "call_a", "VERDICT": "call_b", "%": "call_c", "bash": "call_a call_b call_c", "allow": "", "'": "",
	} {
		got := routetest.Call(t, routes, tool.RoleOperator, "GET /decisions?search="+url.QueryEscape(search), "")
		for _, id := range []string{"call_a", "call_b", "call_c"} {
			if strings.Contains(got, `"`+id+`"`) != strings.Contains(want, id) {
				t.Errorf("search %s: %s, want %q", search, got, want)
			}
		}
	}
}

// An operator who acts for one account lists what was judged for that one alone.
func TestTheDecisionsOfOtherAccountsAreNotListed(t *testing.T) {
	e := newEngine(t, Options{})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour})
	for id, account := range map[string]string{"call_own": "a", "call_other": "b"} {
		c := bash(t, tool.ModeAuto, "ls")
		c.Session.Account = account
		keep(t, d, e, c, id)
	}
	routes := e.Part(part.Host{}, d, nil).Routes
	for _, query := range []string{"", "?session_id=s1", "?search=ls", "?verdict=ask"} {
		got := routetest.Call(t, routes, tool.RoleOperator, "GET /decisions"+query, "")
		if !strings.HasPrefix(got, "1 ") || !strings.Contains(got, `"call_own"`) || strings.Contains(got, "call_other") {
			t.Errorf("GET /decisions%s: %s, want call_own alone", query, got)
		}
	}
}

func TestTheRoutesOfPolicies(t *testing.T) {
	dir := policyDir(t, acme(rule+` if input.tool.name == "Todo"`))
	var reloads []error
	e := newEngine(t, Options{Dirs: []string{dir}, Reloaded: func(err error) { reloads = append(reloads, err) }})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour})
	c := bash(t, tool.ModeAuto, "ls")
	c.Session.Account = "a"
	keep(t, d, e, c, "call_1")
	var said []string
	p := e.Part(part.Host{Record: func(_ context.Context, n tool.Note) error {
		if n.Name != "reload" {
			t.Errorf("recorded %+v, want a note of a reload", n)
		}
		said = append(said, n.Message)
		return nil
	}}, d, nil)
	do := func(line, want string) {
		t.Helper()
		if got := routetest.Call(t, p.Routes, tool.RoleOperator, line, ""); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	do("GET /policies", e.Status().Revision)
	do("GET /decisions/call_1", `"call_id":"call_1"`)
	do("GET /decisions/call_2", "not_found: ")
	do("POST /policies/reload", e.Status().Revision)
	files, err := filepath.Glob(dir + "/*.rego")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}
	do("POST /policies/reload", "policy_load_failed: ")
	if len(said) != 2 || said[0] != "policies reloaded by uid:7" || !strings.HasPrefix(said[1], "policies kept") {
		t.Errorf("recorded %q", said)
	}
	if len(reloads) != 2 || reloads[0] != nil || reloads[1] == nil {
		t.Errorf("told of %v", reloads)
	}
}

// TestALineOfTheListOfDecisions has what a person looks for, and who answered.
func TestALineOfTheListOfDecisions(t *testing.T) {
	e := newEngine(t, Options{})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour})
	c := bash(t, tool.ModeDefault, "ls verdict")
	c.Session.Account = "a"
	keep(t, d, e, c, "call_1")
	found, err := d.List(t.Context(), Wanted{Page: route.Page{Limit: 10}})
	if err != nil || found.Total != 1 {
		t.Fatal(found.Total, err)
	}
	for j, err := range found.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if j.CallID != "call_1" || j.Account != "a" || j.Session != "s1" || j.Tool != "Bash" || j.What != "ls verdict" ||
			j.Verdict != "ask" || len(j.Rules) == 0 || j.At.IsZero() || j.By != "" || j.Said != "" {
			t.Errorf("got %+v", j)
		}
	}
	routes := e.Part(part.Host{}, d, nil).Routes
	for query, n := range map[string]string{
		"?session_id=s1": "1 ", "?session_id=s2": "0 ", "?verdict=ask": "1 ", "?verdict=deny": "0 ", "?limit=x": "validation_error: ",
	} {
		if got := routetest.Call(t, routes, tool.RoleOperator, "GET /decisions"+query, ""); !strings.HasPrefix(got, n) {
			t.Errorf("GET /decisions%s: %.200s, want %s", query, got, n)
		}
	}
}
