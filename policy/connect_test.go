package policy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/policy/recent"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

func connection(host string, port int) egress.Connection {
	return egress.Connection{Host: host, Port: port, Protocol: egress.ProtocolTLS, Via: egress.ViaTransparent}
}

func connect(t testing.TB, e *Engine, c *tool.Call, conn egress.Connection) tool.Decision {
	t.Helper()
	d, err := e.Connect(context.Background(), c, conn)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// about is a rule about connections to x.test.
func about(effect, rest string) string {
	return `findings contains {"id": "acme.` + effect + `", "effect": "` + effect + `", "message": "m", ` + rest + `} if ` +
		`input.connection.host == "x.test"`
}

// TestRulesJudgeConnections: deny, then ask, then allow, and only what a rule did not say of
// the call.
func TestRulesJudgeConnections(t *testing.T) {
	const subject = `"subject": "connection"`
	deny, ask, allow := about("deny", subject), about("ask", subject), about("allow", subject)
	for _, tt := range []struct {
		name, line string
		rules      permission.Rules
		rego       []string
		mode       tool.Mode
		want       tool.Verdict
		rule       string // "": nobody has an opinion
	}{
		{"nobody says anything", "make", permission.Rules{}, nil, tool.ModeDefault, tool.Allow, ""},
		{"an allow", "make", permission.Rules{}, []string{allow}, tool.ModeDefault, tool.Allow, "acme.allow"},
		{"an ask beats an allow", "make", permission.Rules{}, []string{allow, ask}, tool.ModeDefault, tool.Ask, "acme.ask"},
		{"a deny beats an ask", "make", permission.Rules{}, []string{ask, deny, allow}, tool.ModeDefault, tool.Deny, "acme.deny"},
		{"nobody is asked", "make", permission.Rules{}, []string{ask}, tool.ModeDontAsk, tool.Deny, "mode:dontAsk"},
		{"what rules ask passes", "make", permission.Rules{}, []string{ask}, tool.ModeBypassPermissions, tool.Allow, ""},
		{"a deny does not pass", "make", permission.Rules{}, []string{deny}, tool.ModeBypassPermissions, tool.Deny, "acme.deny"},
		{
			"an allow of the call says nothing of where it connects", "make",
			permission.Rules{Allow: []string{"Bash(make)"}},
			[]string{about("allow", `"subject": "command:0"`)},
			tool.ModeDefault, tool.Allow, "",
		},
		{
			"a rule about hosts", "make",
			permission.Rules{Deny: []string{"WebFetch(domain:x.test)"}},
			nil, tool.ModeDefault,
			tool.Deny, "deny WebFetch(domain:x.test)",
		},
		{
			"a rule about hosts that spoke before", "curl https://x.test/",
			permission.Rules{Ask: []string{"WebFetch(domain:x.test)"}},
			nil, tool.ModeDefault, tool.Allow, "",
		},
		{"a rule about the tool", "make", permission.Rules{Ask: []string{"Bash"}}, nil, tool.ModeDefault, tool.Allow, ""},
		{
			"a rewrite comes too late", "make",
			permission.Rules{},
			[]string{about("rewrite", `"patch": {"a": 1}`)},
			tool.ModeDefault,
			tool.Deny, "core.rewrite",
		},
		{
			"obligations come too late", "make",
			permission.Rules{},
			[]string{about("ask", `"obligations": {"read_only": true}`)},
			tool.ModeDefault, tool.Deny, "core.rewrite",
		},
		{
			"a rule that fails", "make",
			permission.Rules{},
			[]string{`findings contains {"id": "acme.x", "effect": "allow", "message": to_number_of(input.connection.host)}` +
				"\n\nto_number_of(x) := sprintf(\"%d\", [to_number(x)])"},
			tool.ModeDefault, tool.Deny, "core.evaluation",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Rules: tt.rules}
			if tt.rego != nil {
				o.Dirs = []string{policyDir(t, acme(strings.Join(tt.rego, "\n\n")))}
			}
			e := newEngine(t, o)
			d := connect(t, e, bash(t, tt.mode, tt.line), connection("x.test", 443))
			rule := ""
			if len(d.Reasons) > 0 {
				rule = d.Reasons[0].Rule
			}
			if d.Verdict != tt.want || rule != tt.rule || d.Revision != e.Revision() {
				t.Errorf("got %s by %q of %q, want %s by %q", d.Verdict, rule, d.Revision, tt.want, tt.rule)
			}
		})
	}
}

// The library's rules about hosts hold for a host that no word of the command names.
func TestTheLibraryJudgesConnections(t *testing.T) {
	for profile, want := range map[Profile]tool.Verdict{ProfileDeveloper: tool.Ask, ProfileObserve: tool.Allow, ProfileStrict: tool.Ask} {
		e := newEngine(t, Options{Profile: profile, Rules: permission.Rules{Allow: []string{"Bash(make)"}}})
		c := bash(t, tool.ModeDefault, "make")
		d := connect(t, e, c, connection("x.webhook.site", 443))
		if d.Verdict != want || want == tool.Ask && d.Reasons[0].Rule != "developer.domains.drop_box" {
			t.Errorf("%s: %s %+v, want %s", profile, d.Verdict, d.Reasons, want)
		}
		if d := connect(t, e, c, connection("ok.test", 443)); d.Verdict != tool.Allow || len(d.Reasons) > 0 {
			t.Errorf("%s: another host: %s %+v", profile, d.Verdict, d.Reasons)
		}
		if profile == ProfileObserve && len(d.Reasons) > 0 {
			t.Errorf("observe answers the question of the settings: %+v", d.Reasons)
		}
	}
}

// A connection is no call: rules that count count none.
func TestConnectionsAreNotCounted(t *testing.T) {
	counter := recent.New(time.Now)
	e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(quota))}, Recent: counter})
	c := bash(t, tool.ModeBypassPermissions, "git push")
	for range 3 {
		connect(t, e, c, connection("x.test", 443))
	}
	if d := decide(t, e, c); d.Verdict != tool.Allow {
		t.Errorf("connections counted as calls: %+v", d.Reasons)
	}
}

func TestWhichRulesSeeRequests(t *testing.T) {
	for body, want := range map[string]bool{
		`input.connection.host == "x.test"`:                 false,
		`input.connection.path == "/x"`:                     true,
		`input.connection.method != "GET"`:                  true,
		`some k, _ in input.connection; k == "port"`:        true,
		`c := input.connection; c.port == 22`:               false,
		`c := input.connection; c.path == "/x"`:             true,
		`sprintf("%v", [input.connection]) == ""`:           true,
		`count(input.hosts) > 0`:                            false,
		`startswith(object.get(input, "mode", ""), "plan")`: true, // all of it
	} {
		text := `findings contains {"id": "acme.x", "effect": "deny", "message": "m"} if {` + "\n" + body + "\n}"
		e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(text))}})
		if got := e.SeesRequests(); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
	if newEngine(t, Options{}).SeesRequests() {
		t.Error("the library sees requests")
	}
}
