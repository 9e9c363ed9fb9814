package pipeline

import (
	"context"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// A program that lives longer than a call, such as an MCP server, connects as its settings and the rules say, which
// know it by its name. There is no call that could wait for a person, so nobody is asked.
func TestTheConnectionsOfACompanion(t *testing.T) {
	for _, tt := range []struct {
		name, host string
		rules      func(*tool.Call, egress.Connection) tool.Decision
		want       bool
		says       string
	}{
		{"a host that is listed", "a.test", nil, true, ""},
		{"one that is denied", "b.test", nil, false, ""},
		{"one that nobody has listed", "c.test", nil, false, "nobody is asked for a program that lives longer"},
		{"a rule denies", "a.test", saying(tool.Deny, "r"), false, "m"},
		{"a rule asks", "a.test", saying(tool.Ask, "r"), false, "nobody is asked for a program that lives longer"},
	} {
		w := newWorld(tool.Spec{})
		w.settings.Network = asksFor
		knownAs := ""
		w.connect = func(c *tool.Call, conn egress.Connection) tool.Decision {
			if knownAs = c.Spec.Name; tt.rules != nil {
				return tt.rules(c, conn)
			}
			return tool.Decision{Verdict: tool.Allow}
		}
		w.people = func(context.Context, tool.Connecting) tool.Approval {
			t.Errorf("%s: a person is asked", tt.name)
			return tool.Approval{Approved: true}
		}
		p := w.pipeline()
		m := Companions{Line: func() *Pipeline { return p }}
		own := tool.Companion{Name: "mcp/git", Settings: func(s guard.Settings) guard.Settings { return s }}
		if _, _, err := m.Box(t.Context(), w.session, own); err != nil {
			t.Fatal(err)
		}
		v := w.backend.judge(t.Context(), tls(tt.host))
		if v.Allow != tt.want || !strings.Contains(v.Reason, tt.says) {
			t.Errorf("%s: got %+v", tt.name, v)
		}
		if tt.rules != nil && knownAs != "mcp/git" {
			t.Errorf("%s: the rules know it as %q", tt.name, knownAs)
		}
	}
}
