package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

func tls(host string) egress.Connection {
	return egress.Connection{Host: host, Port: 443, Protocol: egress.ProtocolTLS, Via: egress.ViaTransparent}
}

// asksFor is a network of which a.test is listed, b.test denied, and others are asked about.
var asksFor = guard.Network{
	AllowedDomains: []string{"a.test"}, DeniedDomains: []string{"b.test"}, Unlisted: guard.UnlistedAsk,
}

// connecting runs one call of the world that connects, to the end: a panic would end the call alone.
func (w *world) connecting(t *testing.T, dials func(context.Context, egress.Judge)) tool.Result {
	t.Helper()
	if dials == nil {
		return w.do(t, `{"text":"hi"}`)
	}
	whole := false
	w.echo.dials = func(ctx context.Context, judge egress.Judge) {
		dials(ctx, judge)
		whole = true
	}
	r := w.do(t, `{"text":"hi"}`)
	if !whole {
		t.Errorf("the connections were not judged to the end: %+v", r.Error)
	}
	return r
}

func saying(v tool.Verdict, rule string) func(*tool.Call, egress.Connection) tool.Decision {
	return func(*tool.Call, egress.Connection) tool.Decision {
		return tool.Decision{Verdict: v, By: tool.ByRule, Reasons: []tool.Reason{{Rule: rule, Message: "m", Hint: "h"}}}
	}
}

func answering(approved bool) func(context.Context, tool.Connecting) tool.Approval {
	return func(context.Context, tool.Connecting) tool.Approval {
		return tool.Approval{ID: "apr", Approved: approved, By: "ann"}
	}
}

// TestX09_X12_WhoDecidesAConnection: the settings, the rules, a person, in this order.
func TestX09_X12_WhoDecidesAConnection(t *testing.T) {
	deny := asksFor
	deny.Unlisted = guard.UnlistedDeny
	for _, tt := range []struct {
		name, host string
		network    guard.Network
		rules      func(*tool.Call, egress.Connection) tool.Decision
		people     func(context.Context, tool.Connecting) tool.Approval
		mode       tool.Mode
		want       bool
		rule       string
		asked      int
	}{
		{name: "listed", host: "a.test", want: true, rule: "network.allowedDomains: a.test"},
		{name: "denied", host: "b.test", people: answering(true), rule: "network.deniedDomains: b.test"},
		{name: "denied whatever rules say", host: "b.test", rules: saying(tool.Allow, "r"), rule: "network.deniedDomains: b.test"},
		{name: "nobody is there", host: "c.test", rule: "network.unlisted: ask", asked: 1},
		{name: "a person says yes", host: "c.test", people: answering(true), want: true, rule: "person", asked: 1},
		{name: "a person says no", host: "c.test", people: answering(false), rule: "person", asked: 1},
		{name: "others are denied", host: "c.test", network: deny, people: answering(true), rule: "network.allowedDomains"},
		{
			name: "no rule opens what the settings deny", host: "c.test", network: deny, rules: saying(tool.Allow, "r"),
			rule: "network.allowedDomains",
		},
		{name: "no person opens an address", host: "10.0.0.1", people: answering(true), rule: "network.allowedDomains"},
		{name: "a rule denies", host: "a.test", rules: saying(tool.Deny, "r"), people: answering(true), rule: "r"},
		{name: "a rule asks", host: "a.test", rules: saying(tool.Ask, "r"), people: answering(true), want: true, rule: "person", asked: 1},
		{name: "a rule asks, and nobody is there", host: "a.test", rules: saying(tool.Ask, "r"), rule: "r", asked: 1},
		{name: "a rule answers the settings", host: "c.test", rules: saying(tool.Allow, "r"), want: true, rule: "r"},
		{name: "a mode that asksFor nobody", host: "c.test", mode: tool.ModeDontAsk, people: answering(true), rule: "mode:dontAsk"},
		{name: "the settings ask in every mode", host: "c.test", mode: tool.ModeBypassPermissions, rule: "network.unlisted: ask", asked: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			w.settings.Network = asksFor
			if tt.network.Unlisted != "" {
				w.settings.Network = tt.network
			}
			if tt.mode != "" {
				w.session.Mode = tt.mode
			}
			var asked []tool.Connecting
			w.connect = tt.rules
			w.people = func(ctx context.Context, to tool.Connecting) tool.Approval {
				asked = append(asked, to)
				if tt.people == nil {
					return tool.Approval{Code: "no_approver", Reason: "nobody is there"}
				}
				return tt.people(ctx, to)
			}
			var v egress.Verdict
			r := w.connecting(t, func(ctx context.Context, judge egress.Judge) { v = judge(ctx, tls(tt.host)) })
			if r.Status != tool.StatusSuccess || v.Allow != tt.want || v.Rule != tt.rule || len(asked) != tt.asked {
				t.Fatalf("got %+v after %d questions, want %v by %q after %d", v, len(asked), tt.want, tt.rule, tt.asked)
			}
			if v.Allow != (v.Pace != nil && v.Pace == w.line.Paces.Of("a")) {
				t.Errorf("it has not the pace of its account: %+v", v)
			}
			if v.Allow != (v.Ended != nil) || !v.Allow && v.Reason == "" {
				t.Errorf("got %+v", v)
			}
			if !v.Allow && strings.HasPrefix(v.Rule, "network.") && v.Hint == "" {
				t.Errorf("a refusal without a hint: %+v", v)
			}
			for _, a := range asked {
				if a.Endpoint != tt.host || a.Port != 443 || a.Workspace != "/w" || a.ByRule != (tt.rules != nil) || len(a.Why) == 0 {
					t.Errorf("asked about %+v", a)
				}
			}
			if len(w.told) != 1 || w.told[0].Allow != tt.want {
				t.Errorf("told %+v", w.told)
			}
		})
	}
}

// TestAHostIsAskedAboutOnceInACall: the answer serves all connections to it, 80 and 443 are one
// host, and another call is asked about anew.
func TestAHostIsAskedAboutOnceInACall(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = asksFor
	var questions, judged atomic.Int32
	w.people = func(context.Context, tool.Connecting) tool.Approval {
		questions.Add(1)
		return tool.Approval{Approved: true}
	}
	w.connect = func(*tool.Call, egress.Connection) tool.Decision {
		judged.Add(1)
		return tool.Decision{Verdict: tool.Allow}
	}
	dials := func(ctx context.Context, judge egress.Judge) {
		var all sync.WaitGroup
		for i := range 30 {
			c := tls("c.test")
			if i%2 == 0 {
				c.Port, c.Protocol, c.Method, c.Path = 80, egress.ProtocolHTTP, "GET", fmt.Sprintf("/%d", i)
			}
			all.Go(func() {
				if v := judge(ctx, c); !v.Allow {
					t.Errorf("got %+v", v)
				}
			})
		}
		all.Wait()
	}
	w.connecting(t, dials)
	if q, n := questions.Load(), judged.Load(); q != 1 || n != 4 { // before and after the answer, for each port
		t.Errorf("%d questions and %d judgements", q, n)
	}
	w.connecting(t, dials)
	if q := questions.Load(); q != 2 {
		t.Errorf("%d questions after another call", q)
	}
	w.requests = true
	judged.Store(0)
	w.connecting(t, dials)
	if q, n := questions.Load(), judged.Load(); q != 3 || n != 32 {
		t.Errorf("each request is judged: %d questions and %d judgements", q, n)
	}
}

// TestAConnectionOfRequestsIsLeftToRulesThatSeeThem: before the first request a rule on methods cannot say
// what it would; nobody is asked, and nothing is opened. All other connections are judged as they are.
func TestAConnectionOfRequestsIsLeftToRulesThatSeeThem(t *testing.T) {
	web := egress.Connection{Host: "a.test", Port: 80, Protocol: egress.ProtocolHTTP, Via: egress.ViaTransparent}
	read := tls("a.test")
	read.Port = 8443 // is intercepted
	for _, tt := range []struct {
		sees bool
		conn egress.Connection
		want bool
	}{
		{false, web, false},
		{true, web, true},
		{true, read, true},
		{true, tls("a.test"), false},
	} {
		w := newWorld(tool.Spec{})
		w.settings.Network = asksFor
		w.settings.Network.AllowedDomains = []string{"a.test", "a.test:8443"}
		w.settings.Network.Intercept = []string{"a.test:8443"}
		w.requests = tt.sees
		w.connect = func(_ *tool.Call, c egress.Connection) tool.Decision {
			if c.Method == "GET" {
				return tool.Decision{Verdict: tool.Allow}
			}
			return saying(tool.Deny, "only GET")(nil, c)
		}
		w.connecting(t, func(ctx context.Context, judge egress.Judge) {
			if v := judge(ctx, tt.conn); v.Allow != tt.want || v.Ended != nil {
				t.Errorf("%+v, rules see requests %v: %+v", tt.conn, tt.sees, v)
			}
			get := tt.conn
			get.Method = "GET"
			if v := judge(ctx, get); v.Allow != tt.sees {
				t.Errorf("%+v, rules see requests %v: %+v", get, tt.sees, v)
			}
		})
	}
}

// TestWhatTheSettingsDenyIsNotOpened: where rules see requests, a connection that none of them could be
// made on is refused when it is made, and told.
func TestWhatTheSettingsDenyIsNotOpened(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = asksFor
	w.requests = true
	w.connect = saying(tool.Allow, "r")
	w.connecting(t, func(ctx context.Context, judge egress.Judge) {
		denied := egress.Connection{Host: "b.test", Port: 80, Protocol: egress.ProtocolHTTP}
		if v := judge(ctx, denied); v.Allow || v.Rule != "network.deniedDomains: b.test" || v.Reason == "" {
			t.Errorf("got %+v", v)
		}
		asked := egress.Connection{Host: "c.test", Port: 80, Protocol: egress.ProtocolHTTP}
		if v := judge(ctx, asked); !v.Allow {
			t.Errorf("what a rule may allow: %+v", v)
		}
	})
	if len(w.told) != 1 || w.told[0].Allow {
		t.Errorf("told %+v", w.told)
	}
}

// TestAnotherPortIsAnotherQuestion: a yes for the web opens no other port.
func TestAnotherPortIsAnotherQuestion(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = asksFor
	var endpoints []string
	w.people = func(_ context.Context, to tool.Connecting) tool.Approval {
		endpoints = append(endpoints, to.Endpoint)
		return tool.Approval{Approved: to.Port != 22}
	}
	w.connecting(t, func(ctx context.Context, judge egress.Judge) {
		for port, want := range map[int]bool{443: true, 22: false} {
			c := tls("c.test")
			c.Port = port
			if v := judge(ctx, c); v.Allow != want {
				t.Errorf("port %d: %+v", port, v)
			}
		}
	})
	if len(endpoints) != 2 {
		t.Errorf("asked about %q", endpoints)
	}
}

func ended(v egress.Verdict) bool {
	select {
	case <-v.Ended:
		return true
	default:
		return false
	}
}

// TestAReloadEndsWhatItForbids: open connections too, and no others.
func TestAReloadEndsWhatItForbids(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = guard.Network{AllowedDomains: []string{"a.test", "d.test", "e.test"}, Unlisted: guard.UnlistedAsk}
	w.people = answering(true)
	w.connecting(t, func(ctx context.Context, judge egress.Judge) {
		a, c, d, e := judge(ctx, tls("a.test")), judge(ctx, tls("c.test")), judge(ctx, tls("d.test")), judge(ctx, tls("e.test"))
		w.line.Reconsider(ctx)
		if ended(a) || ended(c) || ended(d) || ended(e) {
			t.Fatal("a reload that changes nothing ends a connection")
		}
		w.settings.Network = asksFor // without d and e, which would be asked about now
		w.connect = func(_ *tool.Call, conn egress.Connection) tool.Decision {
			if conn.Host == "e.test" {
				return saying(tool.Allow, "r")(nil, conn)
			}
			return tool.Decision{Verdict: tool.Allow}
		}
		w.line.Reconsider(ctx)
		if ended(a) || ended(c) || !ended(d) || ended(e) {
			t.Errorf("after d left the list: a %v, c %v, d %v, e %v ended", ended(a), ended(c), ended(d), ended(e))
		}
		w.connect = saying(tool.Deny, "r")
		w.line.Reconsider(ctx)
		if !ended(a) || !ended(c) || !ended(e) {
			t.Error("a rule that denies ends nothing")
		}
		if v := judge(ctx, tls("a.test")); v.Allow {
			t.Errorf("a new connection: %+v", v)
		}
		w.connect, w.settings.Network = nil, asksFor
		w.line.Reconsider(ctx)
		if v := judge(ctx, tls("a.test")); !v.Allow || ended(v) {
			t.Errorf("after it is allowed again: %+v", v)
		}
	})
	if all := w.line.running.connecting(); len(all) != 0 {
		t.Errorf("%d calls that ended are judged again", len(all))
	}
}

// TestAReloadWhileAConnectionIsJudged: what was decided before it does not open anything after it.
func TestAReloadWhileAConnectionIsJudged(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = asksFor
	w.connecting(t, func(ctx context.Context, judge egress.Judge) {
		judged := 0
		w.connect = func(*tool.Call, egress.Connection) tool.Decision {
			if judged++; judged == 1 {
				w.connect = saying(tool.Deny, "new")
				w.line.Reconsider(ctx)
			}
			return tool.Decision{Verdict: tool.Allow}
		}
		if v := judge(ctx, tls("a.test")); v.Allow || v.Rule != "new" {
			t.Errorf("got %+v", v)
		}
	})
}

// TestASessionThatChangesJudgesItsConnections: its own settings, its mode, and its end.
func TestASessionThatChangesJudgesItsConnections(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*world)
		want   string // part of the reason
	}{
		"settings of its own": {func(w *world) { w.session.Sandbox = &guard.Settings{} }, "not in the allowed domains"},
		"deleted":             {func(w *world) { w.session.ID = "other" }, "no session"},
		"made again":          {func(w *world) { w.session.Created = time.Now() }, "another one"},
		"nobody lets agents work there any more": {
			func(w *world) { w.closed = errors.New("closed workspace") }, "closed workspace",
		},
	} {
		w := newWorld(tool.Spec{})
		w.settings.Network = asksFor
		w.connecting(t, func(ctx context.Context, judge egress.Judge) {
			before := judge(ctx, tls("a.test"))
			tt.change(w)
			w.line.Reconsider(ctx)
			after := judge(ctx, tls("a.test"))
			if !before.Allow || !ended(before) || after.Allow || !strings.Contains(after.Reason, tt.want) {
				t.Errorf("%s: before %+v, after %+v", name, before, after)
			}
		})
	}
}

// TestAnAnswerDoesNotOutliveItsQuestion: what was forbidden while the person thought stays
// forbidden.
func TestAnAnswerDoesNotOutliveItsQuestion(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = asksFor
	w.people = func(ctx context.Context, _ tool.Connecting) tool.Approval {
		w.settings.Network = guard.Network{DeniedDomains: []string{"c.test"}, Unlisted: guard.UnlistedAsk}
		w.line.Reconsider(ctx)
		return tool.Approval{Approved: true}
	}
	w.connecting(t, func(ctx context.Context, judge egress.Judge) {
		if v := judge(ctx, tls("c.test")); v.Allow || v.Rule != "network.deniedDomains: c.test" {
			t.Errorf("got %+v", v)
		}
	})
}

// TestTheClockStandsStillWhileAPersonIsAsked, of the call and of its programs.
func TestTheClockStandsStillWhileAPersonIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tool.Spec{})
		w.settings.Network = asksFor
		w.people = func(context.Context, tool.Connecting) tool.Approval {
			time.Sleep(5 * time.Minute)
			return tool.Approval{Approved: true}
		}
		var programs tool.Clock
		w.connecting(t, func(ctx context.Context, judge egress.Judge) {
			ctx, cancel := tool.Timeout(ctx, time.Minute)
			defer cancel()
			wall, cancel := tool.Timeout(tool.WithClock(ctx, &programs), time.Minute)
			defer cancel()
			if v := judge(egress.WithClock(ctx, &programs), tls("c.test")); !v.Allow || ctx.Err() != nil || wall.Err() != nil {
				t.Errorf("got %+v; the call: %v, its program: %v", v, ctx.Err(), wall.Err())
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if ctx.Err() == nil || wall.Err() == nil {
				t.Error("the clock does not go on")
			}
		})
	})
}

// TestFaultsOfTheJudgeRefuse: a panic, an end of the call, too many hosts.
func TestFaultsOfTheJudgeRefuse(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = guard.Network{AllowedDomains: []string{"*.test"}}
	w.connecting(t, func(ctx context.Context, judge egress.Judge) {
		w.connect = func(*tool.Call, egress.Connection) tool.Decision { panic("oh") }
		if v := judge(ctx, tls("a.test")); v.Allow || !strings.Contains(v.Reason, "panic") {
			t.Errorf("a panic: %+v", v)
		}
		w.connect = nil
		if v := judge(ctx, tls("a.test")); !v.Allow {
			t.Errorf("after the fault: %+v", v)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if v := judge(gone, tls("b.test")); v.Allow || v.Rule != "core.cancelled" {
			t.Errorf("a call that is over: %+v", v)
		}
		for i := range maxKept - 2 {
			if v := judge(ctx, tls(fmt.Sprintf("%d.test", i))); !v.Allow {
				t.Fatalf("host %d: %+v", i, v)
			}
		}
		if v := judge(ctx, tls("more.test")); v.Allow {
			t.Error("there is no end of hosts")
		}
		if v := judge(ctx, tls("a.test")); !v.Allow {
			t.Errorf("a host that is open: %+v", v)
		}
	})
}

// TestObligationsCloseTheNetwork: no_network of a policy holds for connections of the call.
func TestObligationsCloseTheNetwork(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = asksFor
	w.decide = func(*tool.Call) tool.Decision {
		return tool.Decision{Verdict: tool.Allow, Obligations: guard.Obligations{NoNetwork: true}}
	}
	w.people = answering(true)
	w.connecting(t, func(ctx context.Context, judge egress.Judge) {
		for _, host := range []string{"a.test", "c.test"} {
			if v := judge(ctx, tls(host)); v.Allow {
				t.Errorf("%s: %+v", host, v)
			}
		}
	})
}

// TestTheLedgerIsInTheAnswer, also of a call that fails.
func TestTheLedgerIsInTheAnswer(t *testing.T) {
	w := newWorld(tool.Spec{})
	if r := w.connecting(t, nil); r.Network != nil {
		t.Errorf("a call without connections: %+v", r.Network)
	}
	w.backend.ledger.Add(egress.Row{Host: "a.test", Port: 443, Verdict: egress.Allowed, Count: 2, BytesIn: 7})
	if r := w.connecting(t, nil); r.Network == nil || r.Network.Connections[0].BytesIn != 7 {
		t.Errorf("got %+v", r.Network)
	}
	w.failAt = "remember"
	if r := w.connecting(t, nil); r.Status != tool.StatusError || r.Network == nil {
		t.Errorf("got %+v", r)
	}
}

// left is data of a program that ended.
type left int

func (l left) Ended() (int, string) { return int(l), "exited" }

// TestTheModelReadsWhatWasRefused: which host, and what would allow it; nothing where the
// program did without.
func TestTheModelReadsWhatWasRefused(t *testing.T) {
	row := func(host, rule, reason string) egress.Row {
		return egress.Row{Host: host, Port: 443, Protocol: "tls", Verdict: egress.Denied, Rule: rule, Reason: reason, Count: 1}
	}
	look := row("d.test", "network.allowedDomains", "")
	look.Protocol, look.Port = egress.ProtocolDNS, 0
	rows := []egress.Row{
		{Host: "ok.test", Port: 443, Verdict: egress.Allowed, Count: 1},
		row("a.test", "network.allowedDomains", "a.test:443 is not in the allowed domains"),
		row("b.test", "network.unlisted: ask", "nobody is there"), row("c.test", "person", "not\x1b now"), look,
		row("e.test", "network.deniedDomains: *.test", "r"), row("f.test", "limits.networkBytes", "r"),
	}
	for rule, want := range map[string]string{
		"limits.connections": "allowed by limits.connections", "core.connection": "refused by core.connection",
	} {
		if got := whyRefused(row("g.test", rule, "")); got != want {
			t.Errorf("%s: got %q, want %q", rule, got, want)
		}
	}
	want := `[sandbox: stopped connect a.test:443; allowed by network.allowedDomains]
[sandbox: stopped connect b.test:443; nobody is there; allowed by network.allowedDomains]
[sandbox: stopped connect c.test:443; not  now]
[sandbox: stopped look-up of d.test; allowed by network.allowedDomains]
[sandbox: stopped connect e.test:443; refused by network.deniedDomains]
[sandbox: stopped 1 more hosts]`
	for code, want := range map[left]string{0: "0", 6: "6\n" + want} {
		w := newWorld(tool.Spec{})
		for _, r := range rows {
			w.backend.ledger.Add(r)
		}
		w.echo.data = code
		if r := w.connecting(t, nil); r.FormattedText != want {
			t.Errorf("exit status %d: got\n%s\nwant\n%s", code, r.FormattedText, want)
		}
	}
	w := newWorld(tool.Spec{})
	w.backend.ledger.Add(rows[1])
	w.echo.panics = true
	if r := w.connecting(t, nil); !strings.HasSuffix(r.FinalText, "connect a.test:443; allowed by network.allowedDomains]") {
		t.Errorf("a call that fails: %s", r.FinalText)
	}
}

// TestARequestIsAskedAbout by its method and path if a rule asks and rules read them: the answer
// is for no other request.
func TestARequestIsAskedAbout(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = asksFor
	w.requests = true
	var asked []string
	w.people = func(_ context.Context, to tool.Connecting) tool.Approval {
		asked = append(asked, to.Method+" "+to.Path)
		return tool.Approval{Approved: to.Path == "/a"}
	}
	w.connect = func(_ *tool.Call, c egress.Connection) tool.Decision {
		if c.Method == "DELETE" {
			return saying(tool.Ask, "r")(nil, c)
		}
		return tool.Decision{Verdict: tool.Allow}
	}
	w.connecting(t, func(ctx context.Context, judge egress.Judge) {
		for _, tt := range []struct {
			method, path string
			want         bool
		}{
			{"GET", "/a", true},
			{"DELETE", "/a", true},
			{"DELETE", "/a", true},
			{"DELETE", "/b", false},
			{"GET", "/b", true},
			{"DELETE", "/b", false},
		} {
			c := tls("a.test")
			c.Method, c.Path = tt.method, tt.path
			if v := judge(ctx, c); v.Allow != tt.want {
				t.Errorf("%s %s: %+v", tt.method, tt.path, v)
			}
		}
	})
	if got := strings.Join(asked, ", "); got != "DELETE /a, DELETE /b" {
		t.Errorf("asked about %s", got)
	}
}

// TestNoNameLeadsToTheDaemon: not even one that the settings list, with or without a port.
func TestNoNameLeadsToTheDaemon(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = guard.Network{
		AllowedDomains: []string{"a.test", "a.test:9090", "b.test"},
		Hosts:          map[string]string{"a.test": "127.0.0.1", "b.test:443": "127.0.0.1:9090"},
	}
	door := netip.MustParseAddrPort("127.0.0.1:9090")
	w.connecting(t, func(ctx context.Context, judge egress.Judge) {
		before := judge(ctx, tls("b.test"))
		w.line.Own = func(to netip.AddrPort) bool { return to == door }
		w.line.Reconsider(ctx)
		if after := judge(ctx, tls("b.test")); !before.Allow || !ended(before) || after.Allow || after.Rule != "network.hosts" {
			t.Errorf("a name with a port: before %+v, after %+v", before, after)
		}
		conn := tls("a.test")
		if v := judge(ctx, conn); !v.Allow {
			t.Errorf("another port: %+v", v)
		}
		conn.Port = 9090
		if v := judge(ctx, conn); v.Allow || v.Rule != "network.hosts" {
			t.Errorf("a name without a port: %+v", v)
		}
	})
}
