package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/policy/recent"
)

// quota lets two pushes of an account run in an hour; it is the example of docs/policies.md
// with another number.
const quota = `# METADATA
# title: Push
# custom:
#   match:
#     - git push
#   not_match:
#     - git pull
findings contains {"id": "acme.push", "effect": "count", "message": "a push"} if "git push" in input.starts

# METADATA
# title: Pushes of an hour
# custom:
#   match:
#     - {command: git push, recent: {account: {hour: {rules: {acme.push: 2}}}}}
#   not_match:
#     - git push
#     - {command: git push, recent: {account: {hour: {rules: {acme.push: 1}}}}}
#     - {command: git push, recent: {session: {hour: {rules: {acme.push: 9}}}}}
findings contains {"id": "acme.quota", "effect": "deny", "message": sprintf("%d pushes in an hour", [n])} if {
	"git push" in input.starts
	n := input.recent.account.hour.rules["acme.push"]
	n >= 2
}`

func TestARuleMayCount(t *testing.T) {
	counter := recent.New(time.Now)
	e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(quota))}, Recent: counter})
	push := func(id string, question bool) tool.Decision {
		c := bash(t, tool.ModeBypassPermissions, "git push")
		c.ID, c.Request.Hypothetical = id, question
		c.Decision = decide(t, e, c)
		c.Result.Status = tool.StatusSuccess
		counter.End(c)
		return c.Decision
	}
	for _, tt := range []struct {
		id       string
		question bool
		want     tool.Verdict
	}{
		{"1", false, tool.Allow},
		{"q", true, tool.Allow},
		{"q", true, tool.Allow},
		{"2", false, tool.Allow},
		{"3", false, tool.Deny},
		{"4", false, tool.Deny},
		{"q", true, tool.Deny},
	} {
		if d := push(tt.id, tt.question); d.Verdict != tt.want || tt.want == tool.Deny && d.Reasons[0].Rule != "acme.quota" {
			t.Errorf("call %s: %s %+v, want %s", tt.id, d.Verdict, d.Reasons, tt.want)
		}
	}
	if d := decide(t, e, bash(t, tool.ModeBypassPermissions, "ls")); d.Verdict != tool.Allow {
		t.Errorf("another command: %+v", d)
	}
	// Nobody counts: then nothing was counted.
	e = newEngine(t, Options{Dirs: []string{policyDir(t, acme(quota))}})
	if d := decide(t, e, bash(t, tool.ModeBypassPermissions, "git push")); d.Verdict != tool.Allow {
		t.Errorf("without a counter: %+v", d)
	}
}

// Input.recent is there where a rule reads it, with the decision that is kept.
func TestCountsAreMadeWhereARuleReadsThem(t *testing.T) {
	for dir, want := range map[string]bool{policyDir(t, acme(quota)): true, policyDir(t, acme(rule)): false} {
		_, x := explain(t, newEngine(t, Options{Dirs: []string{dir}}), bash(t, tool.ModeAuto, "ls"))
		if got := strings.Contains(string(x.Input), `"recent":{"account":{"day":{"calls":0`); got != want {
			t.Errorf("the input has counts: %v, want %v: %s", got, want, x.Input)
		}
	}
}

// counted remembers the rules of each call.
type counted [][]string

func (k *counted) Judge(_ *tool.Call, judge func(func() *input.Recent) []string) {
	*k = append(*k, judge(func() *input.Recent { return new(input.Recent) }))
}

// An id that is computed could be any number of names.
func TestIDsThatAreComputedAreCountedTogether(t *testing.T) {
	var k counted
	text := `findings contains {"id": concat(".", ["acme", c.name]), "effect": "count", "message": "m"} if some c in input.commands`
	e := newEngine(t, Options{
		Dirs: []string{policyDir(t, acme(text+"\n\n"+rule))}, Rules: permission.Rules{Deny: []string{"Bash(a *)"}}, Recent: &k,
	})
	decide(t, e, bash(t, tool.ModeAuto, "a x; b x; c x"))
	if len(k) != 1 || strings.Join(slices.Sorted(slices.Values(k[0])), ", ") != "acme.x, deny Bash(a *), other" {
		t.Errorf("counted as %q", k)
	}
}
