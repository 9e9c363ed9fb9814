package callback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	var ask CanUseTool = ReadOnlyPolicy{}.Evaluate
	opinion, err := ask(context.Background(), "Write", json.RawMessage(`{}`), Context{})
	fmt.Println(opinion.Verdict, opinion.Reason, err)
	// Output: deny Tool "Write" denied: read-only policy active <nil>
}

// opine asks a policy about the built-in tools by name.
func opine(t *testing.T, p PermissionPolicy, name string) *Opinion {
	t.Helper()
	spec := tool.Spec{Name: name, ReadOnly: name == "Read"}
	o, err := p.Evaluate(context.Background(), name, json.RawMessage(`{}`), Context{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestP13_P14_P15_P23_ListPolicies(t *testing.T) {
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
		{
			"P-23 MCP tools are never read-only",
			ReadOnlyPolicy{},
			"mcp__x__read",
			Deny(`Tool "mcp__x__read" denied: read-only policy active`),
		},
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
	c := CompositePolicy{
		[]PermissionPolicy{&scripted{}, ToolNameDenylistPolicy{[]string{"Bash"}}, ReadOnlyPolicy{}, last},
	}
	if o := opine(t, c, "Bash"); o.Reason != `Tool "Bash" is denied` || len(last.seen) != 0 {
		t.Errorf("Bash: %+v after %d later questions, want the deny-list's denial and none", o, len(last.seen))
	}
	if o := opine(t, c, "Write"); o.Verdict != tool.Deny {
		t.Errorf("Write: %+v, want a deny by the read-only policy", o)
	}
	if o := opine(t, c, "Read"); o.Verdict != tool.Allow || len(last.seen) != 1 {
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

func TestOnlyKnownListPoliciesAreTaken(t *testing.T) {
	for _, tt := range []struct {
		policy ListPolicy
		want   string
	}{
		{ListPolicy{Kind: "allowlist", Tools: []string{"Read"}}, ""},
		{ListPolicy{Kind: "denylist"}, ""},
		{ListPolicy{Kind: "readOnly"}, ""},
		{ListPolicy{Kind: "readOnly", Tools: []string{"Read"}}, "takes no tools"},
		{ListPolicy{Kind: "maybe"}, "unknown policy kind"},
	} {
		_, err := tt.policy.Policy()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want one about %q", tt.policy, err, tt.want)
		}
	}
	// What was not checked denies.
	if o := opine(t, NewComposite([]ListPolicy{{Kind: "maybe"}}), "Read"); o.Verdict != tool.Deny {
		t.Errorf("a policy of an unknown kind: %+v, want a deny", o)
	}
}
