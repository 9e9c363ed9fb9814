package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/mcp/vet"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// served is a gateway over a database of its own. Nothing answers its remote servers. record gets its notes.
func served(t *testing.T, c *servers.Config, record func(tool.Note) error) *gateway {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, kept.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var tried []time.Time
	g := open(t.Context(), part.Host{
		DB: db, Local: db, Config: c, Events: &events.Broker{}, Log: slog.New(slog.DiscardHandler),
		Sessions: oneSession{}, Companions: allNowhere{nowhere: nowhere{tried: &tried}},
		Redact: func(s string) string { return s }, Known: func(string) bool { return false },
		Record: func(_ context.Context, n tool.Note) error { return record(n) },
		Do: func(context.Context, tool.Request) tool.Result {
			return tool.Result{Status: tool.StatusExecutionRejected}
		},
	})
	t.Cleanup(func() {
		g.close()
		db.Close()
	})
	return g
}

// own is a configuration with one server in this process.
func own() *servers.Config {
	c := servers.Defaults()
	in := &servers.InProcess{Name: "own", Version: "1", Tools: []tool.Tool{weather{new(json.RawMessage)}}}
	c.Servers = map[string]servers.Server{"own": {Type: servers.TypeSDK, SDK: in}}
	return c
}

// Operators see, switch and set the servers of a session, and what they do is in the record.
func TestM15_M19_TheRoutesOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recorded []tool.Note
		g := served(t, own(), func(n tool.Note) error {
			recorded = append(recorded, n)
			return nil
		})
		const far = `{"servers": {"far": {"type": "http", "url": "http://127.0.0.1:1"}, "bad": {"type": "pipe"}}}`
		const wrong = `{"servers": {"far": {"type": "pipe"}}}` // it runs on
		for _, tt := range []struct{ line, body, want string }{
			{"GET /sessions/s/mcp", "", `[{"name":"own","type":"sdk","status":"`},
			{"GET /sessions/s/mcp", "", `"status":"connected","tools":["get_weather"]}]`},
			{"POST /sessions/s/mcp/own/toggle", `{"enabled": false}`, `"status":"disabled","tools":[]}`},
			{"POST /sessions/s/mcp/own/reconnect", `{}`, `{"name":"own"`},
			{"GET /sessions/s/mcp", "", `"status":"connected"`},
			{"POST /sessions/s/mcp/own/toggle", `{}`, "validation_error: enabled is missing"},
			{"POST /sessions/s/mcp/own/toggle", `{"enabled": true}`, `{"name":"own"`},
			{"GET /sessions/s/mcp", "", `"status":"connected"`},
			{"POST /sessions/s/mcp/own/reconnect", `{"now": true}`, "validation_error: "},
			{"POST /sessions/s/mcp/none/toggle", `{"enabled": true}`, "mcp_server_not_found: "},
			{"POST /sessions/s/mcp/none/reconnect", `{}`, "mcp_server_not_found: "},
			{"PUT /sessions/s/mcp", far, `{"added":["far"],"removed":["own"],"errors":{"bad":"`},
			{"PUT /sessions/s/mcp", far, `{"added":[],"removed":[],"errors":{"bad":"`},
			{"PUT /sessions/s/mcp", wrong, `{"added":[],"removed":[],"errors":{"far":"`},
			{"GET /sessions/s/mcp", "", `[{"name":"far","type":"http","status":"`},
			{"GET /mcp/pins", "", `[]`},
		} {
			got := routetest.Call(t, g.part().Routes, tool.RoleOperator, tt.line, tt.body)
			if !strings.Contains(got, tt.want) {
				t.Errorf("%s %s: %s, want %s", tt.line, tt.body, got, tt.want)
			}
			synctest.Wait()
		}
		var said []string
		for _, n := range recorded {
			if said = append(said, n.Message); n.Name != "mcp" || n.Account != "a" || n.Session != "s" ||
				!strings.HasPrefix(fmt.Sprint(n.Detail), "map[by:uid:7") {
				t.Errorf("recorded %+v", n)
			}
		}
		if want := []string{
			"toggle: own enabled=false", "reconnect: own", "toggle: own enabled=true",
			"set: [far], refused 1", "set: [far], refused 1", "set: [], refused 1",
		}; !slices.Equal(said, want) {
			t.Errorf("recorded %q, want %q", said, want)
		}
		g.reload(own()) // what an operator set for a session stays
		got := routetest.Call(t, g.part().Routes, tool.RoleOperator, "GET /sessions/s/mcp", "")
		if !strings.HasPrefix(got, `[{"name":"far"`) {
			t.Errorf("after a reload: %s", got)
		}
		g.forget("s")
		got = routetest.Call(t, g.part().Routes, tool.RoleOperator, "GET /sessions/s/mcp", "")
		if got != "error: the session is being deleted" {
			t.Errorf("of a session that was deleted: %s", got)
		}
	})
}

// What is not in the record is not done.
func TestAServerIsNotSwitchedWithoutARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := served(t, own(), func(tool.Note) error { return errors.New("the disk is full") })
		is := func() string {
			synctest.Wait()
			return routetest.Call(t, g.part().Routes, tool.RoleOperator, "GET /sessions/s/mcp", "")
		}
		is()
		for line, body := range map[string]string{
			"POST /sessions/s/mcp/own/toggle": `{"enabled": false}`, "POST /sessions/s/mcp/own/reconnect": `{}`,
			"PUT /sessions/s/mcp": `{"servers": {}}`,
		} {
			got := routetest.Call(t, g.part().Routes, tool.RoleOperator, line, body)
			if got != "error: the disk is full" {
				t.Errorf("%s: %s", line, got)
			}
		}
		if got := is(); !strings.Contains(got, `"status":"connected"`) {
			t.Errorf("it is %s", got)
		}
	})
}

// A configuration that is read again reaches the sessions for which nobody has set servers.
func TestM18_AReloadChangesTheServersOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := served(t, own(), func(tool.Note) error { return nil })
		x := g.of(tool.Session{ID: "s", Account: "a"})
		synctest.Wait()
		before := x.server("own")
		next := own()
		next.Servers["own"] = before.conf
		next.Servers["far"] = servers.Server{Type: servers.TypeHTTP, URL: "http://127.0.0.1:1"}
		g.reload(next)
		synctest.Wait()
		if x.server("own") != before || x.server("far") == nil || before.status().Status != Connected {
			t.Errorf("it has %+v", x.list())
		}
		g.reload(&servers.Config{})
		if len(x.list()) != 0 || before.status().Status != Disabled || len(x.offered()) != 0 {
			t.Errorf("without servers it has %+v", x.list())
		}
	})
}

// Only who made a session has rights that its servers may take, never an operator: see [gateway.user].
func TestWhoMadeASessionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := served(t, servers.Defaults(), func(tool.Note) error { return nil })
		for id, role := range map[string]tool.Role{"mine": tool.RoleAgent, "theirs": tool.RoleOperator} {
			by := route.Caller{
				Account: "a", Role: role, UID: 64101, GID: 64102, Groups: []int{64103}, Name: "ann", Home: "/home/ann",
			}
			g.part().Opened(tool.Session{ID: id, Account: "a"}, by)
			o, known, err := g.kept.Owner(t.Context(), id)
			if err != nil || known != (role == tool.RoleAgent) {
				t.Errorf("%s: %+v, %v, %v", id, o, known, err)
			}
			if known && (o.UID != by.UID || o.GID != by.GID || !slices.Equal(o.Groups, by.Groups) ||
				o.Name != by.Name || o.Home != by.Home) {
				t.Errorf("%s: kept is %+v", id, o)
			}
		}
	})
}

// A model gets no tool that the lists leave out, that shares its name, or whose text hides something.
func TestWhichToolsOfAServerAreWithheld(t *testing.T) {
	c := servers.Defaults()
	c.FirstSight = servers.FirstSightPin
	g := served(t, c, func(tool.Note) error { return nil })
	x := newSession(g, tool.Session{ID: "s", Account: "a"})
	v := newServer(x, "x", servers.Server{Tools: servers.Lists{Deny: []string{"denied"}}})
	x.servers["x"] = v
	for _, d := range [][2]string{
		{"good", "Looks."}, {"denied", "Looks."}, {"twice", "Looks."}, {"twice", "Looks again."}, {"hides", "a\u202eb"},
	} {
		v.defs = append(v.defs, vet.Definition{
			Name: d[0], Description: d[1], InputSchema: json.RawMessage(`{"type":"object"}`),
		})
	}
	if err := v.judge(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.set(Connected, nil)
	s := v.status()
	if !slices.Equal(s.Tools, []string{"good"}) || len(s.Withheld) != 2 ||
		s.Withheld[0].Tool != "hides" || !strings.HasPrefix(s.Withheld[0].Why, "refused: ") ||
		s.Withheld[1] != (Withheld{"twice", "duplicate: the server offers 2 tools of this name, and none is taken"}) ||
		!strings.HasPrefix(s.Error, `2 tools are withheld: "hides": refused: `) {
		t.Errorf("it is %+v", s)
	}
	was := v.tools["mcp__x__good"]
	if err := v.judge(t.Context()); err != nil || v.tools["mcp__x__good"] != was {
		t.Errorf("judged again, an equal tool is another one (%v)", err)
	}
}

// Whoever reads which tools a server has calls those very tools, also while that changes.
func TestTheStatusNamesTheToolsThatCallsFind(t *testing.T) {
	g := served(t, servers.Defaults(), func(tool.Note) error { return nil })
	x := newSession(g, tool.Session{ID: "s", Account: "a"})
	v, other := newServer(x, "x", servers.Server{}), newServer(x, "y", servers.Server{})
	x.servers["x"], x.servers["y"] = v, other
	found := func() (names []string) {
		for name := range x.offered() {
			names = append(names, name)
		}
		return names
	}
	other.tools = map[string]tool.Tool{"mcp__y__b": ownTool{Tool: named("b"), server: "y"}}
	other.set(Connected, nil)
	v.tools = map[string]tool.Tool{"mcp__x__a": ownTool{Tool: named("a"), server: "x"}}
	if got := v.status().Tools; len(got) > 0 || len(found()) != 1 {
		t.Errorf("before calls find a tool it has %q, and calls find %q", got, found())
	}
	v.set(Connected, nil)
	v.tools = nil // withheld, and not yet published
	if got := v.status().Tools; !slices.Equal(got, []string{"a"}) || len(found()) != 2 {
		t.Errorf("while calls find a tool it has %q, and calls find %q", got, found())
	}
	v.set(Failed, nil)
	if got := v.status().Tools; len(got) > 0 || len(found()) != 1 {
		t.Errorf("at the end it has %q, and calls find %q", got, found())
	}
}

// An operator of one account sees what was let in for it, and not what others let in.
func TestPinsAreOfAnAccount(t *testing.T) {
	g := served(t, servers.Defaults(), func(tool.Note) error { return nil })
	for _, account := range []string{"a", "b"} {
		of := kept.Server{Account: account, Config: "c", Name: "x"}
		if err := g.kept.Accept(t.Context(), of, kept.Tool{Name: "of_" + account, Text: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	got := routetest.Call(t, g.part().Routes, tool.RoleOperator, "GET /mcp/pins", "")
	if !strings.Contains(got, `"tool":"of_a"`) || strings.Contains(got, "of_b") {
		t.Errorf("got %s", got)
	}
}

// What is told of a session is told to its account, and only when its tools are others.
func TestAChangeOfToolsIsToldToTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := served(t, own(), func(tool.Note) error { return nil })
		ctx, stop := context.WithCancel(t.Context())
		told := make(chan string, 1)
		go func() {
			told <- routetest.Stream(ctx, g.host.Events.Routes(), tool.RoleAgent, "GET /events")
		}()
		synctest.Wait()
		g.of(tool.Session{ID: "s", Account: "a"})
		g.of(tool.Session{ID: "others", Account: "b"})
		synctest.Wait()
		g.of(tool.Session{ID: "s", Account: "a"}).publish()
		synctest.Wait()
		stop()
		got := <-told
		if n := strings.Count(got, `"session_id":"s"`); n != 1 || strings.Contains(got, "others") {
			t.Errorf("told is %s", got)
		}
	})
}

// An operator bounds the lines of a server and how long it is waited for.
func TestTheBoundsOfAConnectionAreThoseOfTheConfiguration(t *testing.T) {
	conf := servers.Server{Command: "x"}
	conf.Limits.LineBytes = 12345
	v := newServer(&session{g: &gateway{}}, "x", conf)
	if o := v.options(); o.Line != 12345 || o.Patience != conf.Timeout() {
		t.Errorf("it has %+v", o)
	}
	select {
	case <-v.relist:
		t.Error("its list is looked at before it changed")
	default:
	}
	v.options().Changed()
	select {
	case <-v.relist:
	default:
		t.Error("nobody looks at the list that changed")
	}
}

// An agent sees the servers of its session. What changes them, and pins, are for operators.
func TestAnAgentOnlySeesServers(t *testing.T) {
	for _, rt := range (&gateway{}).routes() {
		want := tool.RoleOperator
		if rt.Pattern == "GET /sessions/{id}/mcp" {
			want = tool.RoleAgent
		}
		if rt.Role != want {
			t.Errorf("%s is for %q, want %q", rt.Pattern, rt.Role, want)
		}
	}
}
