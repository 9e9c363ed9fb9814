package policy

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/tool"
)

// opine asks a policy about the built-in tools by name.
func opine(t *testing.T, p PermissionPolicy, name string) *Opinion {
	t.Helper()
	o, err := p.Evaluate(context.Background(), name, json.RawMessage(`{}`), Context{Spec: specs[name]})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestListPolicies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy PermissionPolicy
		tool   string
		want   *Opinion
	}{
		{"P-13 listed", ToolNameAllowlistPolicy{[]string{"Read"}}, "Read", Allow()},
		{"P-13 not listed", ToolNameAllowlistPolicy{[]string{"Read"}}, "Bash", Deny(`Tool "Bash" not in allowlist`)},
		{"P-13 an empty list denies all", ToolNameAllowlistPolicy{}, "Read", Deny(`Tool "Read" not in allowlist`)},
		{"P-14 listed", ToolNameDenylistPolicy{[]string{"Bash"}}, "Bash", Deny(`Tool "Bash" is denied`)},
		{"P-14 not listed", ToolNameDenylistPolicy{[]string{"Bash"}}, "Read", Allow()},
		{"P-15 read-only", ReadOnlyPolicy{}, "Read", Allow()},
		{"P-15 writes", ReadOnlyPolicy{}, "Write", Deny(`Tool "Write" denied: read-only policy active`)},
		{"P-23 MCP tools are never read-only", ReadOnlyPolicy{}, "mcp__x__read", Deny(`Tool "mcp__x__read" denied: read-only policy active`)},
		{"P-16 an empty composite allows", CompositePolicy{}, "Bash", Allow()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(opine(t, tt.policy, tt.tool), tt.want); diff != "" {
				t.Errorf("opinion (-got +want):\n%s", diff)
			}
		})
	}
}

// scripted is a policy with a fixed opinion that counts how often it is asked.
type scripted struct {
	opinion *Opinion
	err     error
	seen    []string
}

func (s *scripted) Evaluate(_ context.Context, _ string, input json.RawMessage, _ Context) (*Opinion, error) {
	s.seen = append(s.seen, string(input))
	return s.opinion, s.err
}

func TestP16_CompositeStopsAtTheFirstDeny(t *testing.T) {
	last := &scripted{}
	c := CompositePolicy{[]PermissionPolicy{&scripted{}, ToolNameDenylistPolicy{[]string{"Bash"}}, ReadOnlyPolicy{}, last}}
	if o := opine(t, c, "Bash"); o.Reason != `Tool "Bash" is denied` || len(last.seen) != 0 {
		t.Errorf("Bash: %+v after %d later questions, want the deny-list's denial and none", o, len(last.seen))
	}
	if o := opine(t, c, "Write"); o.Effect != EffectDeny {
		t.Errorf("Write: %+v, want a deny by the read-only policy", o)
	}
	if o := opine(t, c, "Read"); o.Effect != EffectAllow || len(last.seen) != 1 {
		t.Errorf("Read: %+v, want an allow after every policy was asked", o)
	}
}

func TestP17_CompositeKeepsChangedInput(t *testing.T) {
	last := &scripted{}
	c := CompositePolicy{[]PermissionPolicy{&scripted{opinion: AllowWithInput(json.RawMessage(`{"a":1}`))}, last}}
	o := opine(t, c, "Write")
	if string(o.Input) != `{"a":1}` || len(last.seen) != 1 || last.seen[0] != `{"a":1}` {
		t.Errorf("input %s, later policy saw %q; want the changed input in both", o.Input, last.seen)
	}
}

func TestP12_CompositeFailsWithItsPolicies(t *testing.T) {
	c := CompositePolicy{[]PermissionPolicy{&scripted{err: errors.New("boom")}}}
	if _, err := c.Evaluate(context.Background(), "Read", nil, Context{}); err == nil {
		t.Error("a failing policy was skipped")
	}
}

func TestCX72_ListPolicyAllowsAreAdvisory(t *testing.T) {
	list := []ListPolicy{{Kind: "denylist", Tools: []string{"Bash"}}}
	for _, tt := range []struct {
		verdict, tool string
		want          tool.Verdict
	}{
		{"", "Edit", tool.Ask}, // the mode stays in force
		{VerdictAdvisory, "Edit", tool.Ask},
		{VerdictFinal, "Edit", tool.Allow},
		{"", "Bash", tool.Deny},
		{VerdictFinal, "Bash", tool.Deny},
	} {
		e := newEngine(t, Options{Policies: list, Verdict: tt.verdict})
		if got := decide(t, e, newCall(t, ModePlan, tt.tool, map[string]any{})); got.Verdict != tt.want {
			t.Errorf("policyVerdict %q, %s in mode plan: %s, want %s", tt.verdict, tt.tool, got.Verdict, tt.want)
		}
	}
}

func TestP08_TheCallbackDecidesBeforeTheMode(t *testing.T) {
	for _, tt := range []struct {
		name    string
		opinion *Opinion
		err     error
		mode    string
		want    tool.Verdict
		by      tool.By
	}{
		{"P-08 allow runs unasked", Allow(), nil, ModeDefault, tool.Allow, tool.ByRule},
		{"P-08 no opinion leaves it to the mode", nil, nil, ModeDefault, tool.Ask, tool.ByMode},
		{"P-09 deny", Deny("no"), nil, ModeBypassPermissions, tool.Deny, tool.ByRule},
		{"P-09 ask", AskPerson("sure?"), nil, ModeAuto, tool.Ask, tool.ByRule},
		{"an opinion without an effect denies", &Opinion{}, nil, ModeBypassPermissions, tool.Deny, tool.ByRule},
		{"a failure denies", Allow(), errors.New("boom"), ModeBypassPermissions, tool.Deny, tool.ByCore},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Options{CanUseTool: Callback(&scripted{opinion: tt.opinion, err: tt.err})})
			d := decide(t, e, newCall(t, tt.mode, "Todo", map[string]any{}))
			if d.Verdict != tt.want || d.By != tt.by {
				t.Errorf("got %s by %s, want %s by %s", d.Verdict, d.By, tt.want, tt.by)
			}
		})
	}
}

func TestP11_ADenialHasAText(t *testing.T) {
	e := newEngine(t, Options{CanUseTool: Callback(&scripted{opinion: Deny("")})})
	d := decide(t, e, newCall(t, ModeAuto, "Todo", map[string]any{}))
	if got, want := d.Reasons[0].Message, `Permission denied for tool "Todo"`; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestP10_ChangedInputIsARewriteOfTheCall(t *testing.T) {
	in := json.RawMessage(`{"file_path":"/src/safe"}`)
	e := newEngine(t, Options{CanUseTool: Callback(&scripted{opinion: AllowWithInput(in)})})
	d := decide(t, e, fileCall(t, ModeDefault, "Write", "/src/x"))
	if d.Verdict != tool.Allow || string(d.Args) != string(in) {
		t.Errorf("decision %s with args %s, want an allow with %s", d.Verdict, d.Args, in)
	}
	again := decide(t, e, fileCall(t, ModeDefault, "Write", "/src/safe"))
	if again.Verdict != tool.Allow || again.Args != nil {
		t.Errorf("judged again: %s with args %s, want an allow and no further rewrite", again.Verdict, again.Args)
	}
}

func TestP19_P20_CallbackAndModeTakeTurns(t *testing.T) {
	e := newEngine(t, Options{})
	verdict := func(mode string) tool.Verdict {
		return decide(t, e, newCall(t, mode, "Todo", map[string]any{})).Verdict
	}
	cb := &scripted{opinion: Allow()}
	e.SetCanUseTool("s1", Callback(cb))
	if verdict(ModeDefault) != tool.Allow {
		t.Error("the callback must have priority over the mode")
	}
	e.SetCanUseTool("s1", nil)
	if verdict(ModeDefault) != tool.Ask {
		t.Error("without a callback the mode must decide")
	}
	e.SetCanUseTool("s1", Callback(cb))
	e.SetCanUseTool("other", Callback(&scripted{opinion: Deny("")}))
	e.ModeChanged("s1")
	if verdict(ModeDefault) != tool.Ask || len(cb.seen) != 1 {
		t.Errorf("after the mode was set the callback was asked %d times, want 1", len(cb.seen))
	}
}

func TestP18_APolicyIsACallback(t *testing.T) {
	e := newEngine(t, Options{CanUseTool: Callback(ReadOnlyPolicy{})})
	if d := decide(t, e, fileCall(t, ModeDefault, "Read", "/src/a")); d.Verdict != tool.Allow {
		t.Errorf("Read: %+v, want an allow", d)
	}
	if d := decide(t, e, fileCall(t, ModeBypassPermissions, "Write", "/src/a")); d.Verdict != tool.Deny {
		t.Errorf("Write: %+v, want a deny", d)
	}
}
