package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/mcp/upstream"
	"github.com/sandboxd/sandboxd/internal/mcp/vet"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// What calls of the session may not do, a server may not either; what they may reach, it may not for that.
func TestTheCageOfAServerHasTheListsOfTheSessionBesideItsOwn(t *testing.T) {
	session := guard.Settings{
		AllowedReadPaths: []string{"/work"}, DeniedPaths: []string{"/work/key"}, Env: map[string]string{"A": "b"},
		Network: guard.Network{AllowedDomains: []string{"a.test"}, DeniedDomains: []string{"evil.test"}},
	}
	v := &server{conf: servers.Server{Sandbox: servers.Sandbox{
		AllowedReadPaths: []string{"/data"}, DeniedPaths: []string{"/data/key"},
	}}}
	far := servers.Server{Type: servers.TypeHTTP, URL: "http://a.test"}
	got := v.programSettings(session)
	if !slices.Equal(got.AllowedReadPaths, []string{"/work", "/data"}) ||
		!slices.Equal(got.DeniedPaths, []string{"/work/key", "/data/key"}) || len(got.Env) > 0 {
		t.Errorf("got %+v", got)
	}
	for of, want := range map[*server]string{{name: "git"}: "mcp/git", {name: "far", conf: far}: "mcp/far"} {
		if got := of.companion().Name; got != want {
			t.Errorf("rules know it as %q, want %q", got, want)
		}
	}
	if got.Network.Reaches() || got.Network.Unlisted != guard.UnlistedDeny {
		t.Errorf("without a list of its own it has the network %+v", got.Network)
	}
	if l := got.Limits; l.MemoryBytes != 512<<20 || l.Processes != 64 {
		t.Errorf("got the limits %+v", l)
	}
	v.conf.Sandbox.Network.AllowedDomains = []string{"b.test"}
	if n := v.programSettings(session).Network; !slices.Equal(n.AllowedDomains, []string{"b.test"}) ||
		!slices.Equal(n.DeniedDomains, []string{"evil.test"}) || n.Unlisted != guard.UnlistedDeny {
		t.Errorf("with a list of its own it has the network %+v", n)
	}
}

// What a server claims of a tool is told to the rules, and changes nothing else: each tool may destroy, and its results
// are of MCP.
func TestM27_AClaimLoosensNothing(t *testing.T) {
	text := `{"name":"peek","description":"Looks.","annotations":{"readOnlyHint":true,"destructiveHint":false}}`
	for _, kind := range []string{servers.TypeStdio, servers.TypeHTTP} {
		v := &server{name: "x", conf: servers.Server{Type: kind}}
		s := v.upstreamTool(kept.Tool{Name: "peek", Text: []byte(text)}, vet.Found{Schema: []byte(`{}`)}).Spec()
		if s.ReadOnly || !s.Destructive() || s.Origin != tool.OriginMCP || s.Name != "mcp__x__peek" {
			t.Errorf("%s: it says %+v", kind, s)
		}
		if c := s.MCP.Claimed; c.ReadOnly == nil || !*c.ReadOnly || c.Destructive == nil || *c.Destructive {
			t.Errorf("%s: rules see the claims %+v", kind, c)
		}
	}
}

// A pin is of an account and of what is started or asked. What bounds a server does not make it another one, or each
// change of a limit would be a first sight.
func TestWhatAPinBelongsTo(t *testing.T) {
	of := func(account, name string, conf servers.Server) kept.Server {
		v := &server{x: &session{owner: account}, name: name, conf: conf}
		return v.pinned()
	}
	base := servers.Server{Command: "x", Args: []string{"a"}}
	own := of("ann", "git", base)
	for what, other := range map[string]kept.Server{
		"account": of("bob", "git", base), "name": of("ann", "got", base),
		"command":   of("ann", "git", servers.Server{Command: "y", Args: base.Args}),
		"arguments": of("ann", "git", servers.Server{Command: "x", Args: []string{"b"}}),
	} {
		if other.Account == own.Account && other.Config == own.Config {
			t.Errorf("with another %s it is the same server", what)
		}
	}
	at := func(url string) servers.Server { return servers.Server{Type: servers.TypeHTTP, URL: url} }
	if of("ann", "git", at("http://a.test")) == of("ann", "git", at("http://b.test")) {
		t.Error("with another URL it is the same server")
	}
	bounded := base
	bounded.Env, bounded.Limits.Processes = map[string]string{"A": "b"}, 7
	if got := of("ann", "git", bounded); got != own {
		t.Errorf("with other limits and variables it is another server: %+v, %+v", got, own)
	}
}

// oneSession is there, and nothing else is.
type oneSession struct{ part.Sessions }

func (oneSession) Session(_ context.Context, account, id string) (tool.Session, error) {
	return tool.Session{ID: id, Account: account}, nil
}

// Calls above the limit are refused until the minute is over.
func TestAServerGetsSoManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{}
		g.host.Sessions = oneSession{}
		conf := servers.Server{Type: servers.TypeHTTP, URL: "http://a.test"}
		v := newServer(&session{g: g, id: "s", owner: "a"}, "x", conf)
		v.conn, v.state = new(upstream.Conn), Connected
		if n := cap(v.slots); n != 8 {
			t.Errorf("%d calls run at once", n)
		}
		for range 2 {
			for range 120 {
				if _, err := v.ready(t.Context(), tool.In{}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := v.ready(t.Context(), tool.In{})
			if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "rate_limited" {
				t.Errorf("the call after 120 in a minute: %v", err)
			}
			time.Sleep(time.Minute)
		}
	})
}

// nowhere is a box that connects to nothing, and notes when that was tried.
type nowhere struct {
	sandbox.Box
	tried *[]time.Time
}

type allNowhere struct {
	part.Companions
	nowhere
}

func (n allNowhere) Box(context.Context, tool.Session, tool.Companion) (sandbox.Box, guard.Settings, error) {
	return n.nowhere, guard.Settings{}, nil
}

func (n nowhere) Dial(context.Context, egress.Connection) (net.Conn, error) {
	*n.tried = append(*n.tried, time.Now())
	return nil, errors.New("nobody answers")
}

func (nowhere) Close() error { return nil }

func TestM04_AServerThatFailsIsTriedAgainAfterOneAndTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried []time.Time
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		g := &gateway{log: slog.New(slog.DiscardHandler), ctx: ctx, sessions: map[string]*session{}}
		g.host = part.Host{
			Sessions: oneSession{}, Companions: allNowhere{nowhere: nowhere{tried: &tried}}, Events: &events.Broker{},
			Redact: func(s string) string { return s },
		}
		x := newSession(g, tool.Session{ID: "s", Account: "a"})
		v := newServer(x, "far", servers.Server{Type: servers.TypeHTTP, URL: "http://127.0.0.1:1"})
		began := time.Now()
		v.enable()
		time.Sleep(time.Hour)
		var after []time.Duration
		for _, at := range tried {
			after = append(after, at.Sub(began))
		}
		if want := []time.Duration{0, time.Second, 3 * time.Second}; !slices.Equal(after, want) {
			t.Errorf("it was tried after %v, want %v", after, want)
		}
		if got := v.status(); got.Status != Failed {
			t.Errorf("then it is %+v", got)
		}
		v.close()
	})
}

// The cage of a server elsewhere reaches the host of its address and no other, and no file.
func TestTheCageOfAServerElsewhereReachesItsHostAlone(t *testing.T) {
	session := guard.Settings{
		AllowedReadPaths: []string{"/work"}, AllowedWritePaths: []string{"/work"}, Require: []string{"seccomp"},
		Network: guard.Network{
			AllowedDomains: []string{"other.test"}, DeniedDomains: []string{"evil.test"}, Unlisted: guard.UnlistedAsk,
			Hosts: map[string]string{"a.test": "10.0.0.1"}, CAFile: "/session.pem", UpstreamProxy: "http://session:1",
			AllowLocalBinding: true,
		},
	}
	for _, tt := range []struct {
		url, at string
		own     guard.Network
		want    guard.Network
	}{
		{"https://a.test/mcp", "", guard.Network{}, guard.Network{
			AllowedDomains: []string{"a.test:443"}, DeniedDomains: []string{"evil.test"}, Unlisted: guard.UnlistedDeny,
			Hosts: map[string]string{"a.test": "10.0.0.1"}, CAFile: "/session.pem", UpstreamProxy: "http://session:1",
		}},
		{
			"http://localhost:99/", "127.0.0.1", guard.Network{
				AllowedDomains: []string{"b.test"}, DeniedDomains: []string{"c.test"}, CAFile: "/own.pem",
				UpstreamProxy: "http://own:1",
			}, guard.Network{
				AllowedDomains: []string{"localhost.mcp.internal:99"}, DeniedDomains: []string{"c.test", "evil.test"},
				Unlisted: guard.UnlistedDeny, CAFile: "/own.pem", UpstreamProxy: "http://own:1",
				Hosts: map[string]string{"a.test": "10.0.0.1", "localhost.mcp.internal:99": "127.0.0.1"},
			},
		},
	} {
		v := &server{conf: servers.Server{Type: servers.TypeHTTP, URL: tt.url}}
		v.conf.Sandbox.Network = tt.own
		got := v.remoteSettings(session, tt.at)
		want := guard.Settings{
			AllowedReadPaths: []string{guard.NoPath}, AllowedWritePaths: []string{guard.NoPath}, Network: tt.want,
			Limits: guard.Limits{NetworkBytes: lastingBytes}, Require: []string{"seccomp"},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", tt.url, got, want)
		}
		if tt.at == "" && !reflect.DeepEqual(v.companion().Settings(session), want) {
			t.Errorf("%s: its companion has %+v", tt.url, v.companion().Settings(session))
		}
	}
	if len(session.Network.Hosts) != 1 {
		t.Errorf("the session got the hosts %v", session.Network.Hosts)
	}
	for host, want := range map[string]string{
		"a.test": "a.test", "localhost": "localhost.mcp.internal", "x.localhost": "x-localhost.mcp.internal",
		"127.0.0.1": "127-0-0-1.mcp.internal", "::1": "--1.mcp.internal", "notlocalhost": "notlocalhost",
	} {
		if got := alias(host); got != want {
			t.Errorf("the network knows %s as %s, want %s", host, got, want)
		}
	}
}
