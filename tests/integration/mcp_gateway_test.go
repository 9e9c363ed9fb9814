package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// mcpState is what the daemon says of an MCP server.
type mcpState struct {
	Name, Type, Status, Error string
	Tools                     []string
	Withheld                  []struct{ Tool, Why string }
	Stderr                    string
	Dropped                   int `json:"dropped_lines"`
}

// mcpBinary is this test as a program of its own.
var mcpBinary = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	from, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer from.Close()
	path := filepath.Join(bin, "mcp-server")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(to, from); err != nil {
		return "", err
	}
	return path, to.Close()
})

// mcpConfig is a mcpScript server in the configuration; more are keys in JSON.
func mcpConfig(t testing.TB, s mcpScript, more ...string) string {
	t.Helper()
	script, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	env, err := json.Marshal(map[string]string{mcpServer: string(script), "MARK": "m1"})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"command":"env","args":["./mcp-server"],"env":%s%s}`, env, strings.Join(append([]string{""}, more...), ","))
}

// allowMCP lets calls of the tools of these servers run unasked.
const allowMCP = "policy: {rules: {allow: [ListMcpResources, ReadMcpResource, mcp__one, mcp__two, mcp__good, mcp__bad, mcp__later]}}\n"

// newMCP is a daemon with these servers.
func newMCP(t testing.TB, config string, servers map[string]string) *running {
	t.Helper()
	text := config + "mcp:\n  servers:\n"
	for name, server := range servers {
		text += "    " + name + ": " + server + "\n"
	}
	d := newPlaces(t, text)
	d.linkMCP()
	d.start()
	return d
}

// linkMCP puts the scripted server into the workspace, which the cage shows: /tmp and /var/tmp are private there.
func (d *running) linkMCP() {
	d.t.Helper()
	path, err := mcpBinary()
	if err == nil {
		err = os.Link(path, filepath.Join(d.ws, "mcp-server"))
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *running) mcp(session string) map[string]mcpState {
	d.t.Helper()
	return d.mcpTo(d.agent, session)
}

// mcpTo is what a client hears of the servers of a session.
func (d *running) mcpTo(c *client.Client, session string) map[string]mcpState {
	d.t.Helper()
	var list []mcpState
	if err := c.Do(d.t.Context(), "GET", "/sessions/"+session+"/mcp", nil, &list); err != nil {
		d.t.Fatal(err)
	}
	all := map[string]mcpState{}
	for _, s := range list {
		all[s.Name] = s
	}
	return all
}

// mcpIs waits until a server is in a state.
func (d *running) mcpIs(session, name, status string) mcpState {
	d.t.Helper()
	var s mcpState
	if !waitFor(func() bool { s = d.mcp(session)[name]; return s.Status == status || s.Status == "failed" }) ||
		s.Status != status {
		d.t.Fatalf("server %s is %+v, want %s\n%s", name, s, status, d.log)
	}
	return s
}

// good calls a tool that succeeds, and returns its text.
func (d *running) good(session, tool, args string) string {
	d.t.Helper()
	r := d.call(session, tool, args)
	if r.Status != client.StatusSuccess {
		d.t.Fatalf("%s %s: %s %+v %+v\n%s", tool, args, r.Status, r.Error, r.Decision, d.log)
	}
	return r.FormattedText
}

// bad calls a tool that fails, and returns why.
func (d *running) bad(session, tool, args string) client.Error {
	d.t.Helper()
	r := d.call(session, tool, args)
	if r.Error == nil {
		d.t.Fatalf("%s %s: %s %s", tool, args, r.Status, r.FinalText)
	}
	return *r.Error
}

func TestM02_M12_M28_M05_M06_AToolOfAServerTakesTheOnePath(t *testing.T) {
	t.Parallel()
	d := newMCP(t, allowMCP, map[string]string{"one": mcpConfig(t, mcpScript{Tools: plainTools("env", "echo", "fails", "die")})})
	s := d.session()
	if got := d.mcpIs(s, "one", "connected"); !slices.Equal(got.Tools, []string{"die", "echo", "env", "fails"}) {
		t.Errorf("tools are %q", got.Tools)
	}
	if all := d.tools(s); !slices.Contains(all, "mcp__one__echo") || !slices.Contains(all, "ListMcpResources") {
		t.Errorf("tools of the session: %q", all)
	}
	r := d.call(s, "mcp__one__echo", `{"a":"b","limit":0}`)
	if r.Status != client.StatusSuccess || !strings.Contains(r.FinalText, `echo {"a":"b"}`) ||
		!strings.HasPrefix(r.VarResult, "mcp__one__echo_") {
		t.Errorf("got %+v %+v", r, r.Error)
	}
	env := d.good(s, "mcp__one__env", `{}`)
	if !strings.Contains(env, "MARK=m1") || strings.Contains(env, "SANDBOXD_SOCKET") || strings.Contains(env, "XDG_CONFIG_HOME") {
		t.Errorf("the environment of the server:\n%s", env)
	}
	if e := d.bad(s, "mcp__one__fails", `{}`); e.Msg != "MCP tool error: Invalid email: 'x' missing '@'" {
		t.Errorf("M-25: %+v", e)
	}
	if e := d.bad(s, "mcp__one__die", `{}`); !strings.HasPrefix(e.Msg, "MCP tool error: ") || e.Code != "mcp_error" {
		t.Errorf("M-27: %+v", e)
	}
	// It is started again.
	if !waitFor(func() bool { return d.call(s, "mcp__one__echo", `{}`).Status == client.StatusSuccess }) {
		t.Errorf("after its death: %+v", d.mcp(s)["one"])
	}
}

func TestM14_M15_AServerThatFailsTakesNothingWithIt(t *testing.T) {
	t.Parallel()
	d := newMCP(t, allowMCP, map[string]string{
		"good": mcpConfig(t, mcpScript{Start: "banner", Tools: plainTools("echo")}),
		"half": mcpConfig(t, mcpScript{Start: "half", Tools: plainTools("echo")}),
		"dead": mcpConfig(t, mcpScript{Start: "die"}), "mute": mcpConfig(t, mcpScript{Start: "silent"}),
		"none":  mcpConfig(t, mcpScript{}),
		"flood": mcpConfig(t, mcpScript{Start: "flood", Tools: plainTools("echo")}),
		"gone":  `{command: /nonexistent/server}`,
	})
	s := d.session()
	d.mcpIs(s, "good", "connected")
	d.good(s, "mcp__good__echo", `{}`)
	if to, agent := d.mcpTo(d.operator, s)["good"], d.mcp(s)["good"]; !strings.Contains(to.Stderr, "a warning") ||
		to.Dropped == 0 || agent.Dropped != to.Dropped || agent.Stderr != "" {
		t.Errorf("what its program said: operators hear %+v, agents %+v", to, agent)
	}
	if got := d.mcp(s)["mute"]; got.Status != "pending" {
		t.Errorf("a call beside bad servers has waited: the silent one is %+v", got)
	}
	if got := d.mcpIs(s, "dead", "failed"); !strings.Contains(got.Error, "cannot start: no reason") {
		t.Errorf("the error is %q", got.Error)
	}
	d.mcpIs(s, "gone", "failed")
	if got := d.mcpIs(s, "none", "connected"); len(got.Tools) != 0 {
		t.Errorf("tools are %q", got.Tools)
	}
	d.good(s, "mcp__good__echo", `{}`)
}

func TestM04_ADeadServerIsTriedAgainTwice(t *testing.T) {
	t.Parallel()
	d := newPlaces(t, "")
	seen := filepath.Join(d.ws, "seen")
	d.write("config.yaml", allowMCP+"mcp: {servers: {later: "+mcpConfig(t, mcpScript{Start: "third", Seen: seen, Tools: plainTools("echo")},
		fmt.Sprintf(`"sandbox":{"allowedWritePaths":[%q]}`, d.ws))+"}}\n")
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.linkMCP()
	d.start()
	s := d.session()
	d.mcpIs(s, "later", "connected")
	if text, err := os.ReadFile(seen); err != nil || len(text) != 3 {
		t.Errorf("it was started %d times: %v", len(text), err)
	}
}

// Each of the two answers only when the other has begun, so one after the other none would.
func TestM11_ServersConnectSideBySide(t *testing.T) {
	d := newPlaces(t, "")
	waits := func(mine, others string) string {
		begin := fmt.Sprintf("touch %s; until [ -e %s ]; do sleep 0.02; done; exec ./mcp-server", mine, others)
		config := mcpConfig(t, mcpScript{Tools: plainTools("echo")}, fmt.Sprintf(`"sandbox":{"allowedWritePaths":[%q]}`, d.ws))
		return strings.Replace(config, `"env","args":["./mcp-server"]`, fmt.Sprintf(`"sh","args":["-c",%q]`, begin), 1)
	}
	d.write("config.yaml", "mcp: {servers: {one: "+waits("first", "second")+", two: "+waits("second", "first")+"}}\n")
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.linkMCP()
	d.start()
	s := d.session()
	d.mcpIs(s, "one", "connected")
	d.mcpIs(s, "two", "connected")
}

func TestM16_M17_M18_M19_M22_AnOperatorChangesServers(t *testing.T) {
	d := newMCP(t, allowMCP, map[string]string{"one": mcpConfig(t, mcpScript{Tools: plainTools("pid")})})
	s, other := d.session(), d.session()
	d.mcpIs(s, "one", "connected")
	d.mcpIs(other, "one", "connected")
	if text := d.metrics(); !strings.Contains(text, "\nsandboxd_mcp_servers_connected 2\n") {
		t.Errorf("two servers are connected: %s", text)
	}
	pid := d.good(s, "mcp__one__pid", `{}`)
	put := func(servers string) (u struct {
		Added, Removed []string
		Errors         map[string]string
	},
	) {
		t.Helper()
		if err := d.operator.Do(t.Context(), "PUT", "/sessions/"+s+"/mcp", json.RawMessage(`{"servers":`+servers+`}`), &u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	one, two := mcpConfig(t, mcpScript{Tools: plainTools("pid")}), mcpConfig(t, mcpScript{Tools: plainTools("echo", "pid")})
	u := put(`{"one":` + one + `,"two":` + two + `,"a__b":` + two + `,"odd":{"type":"smoke"},"unknown":{"command":"x","nope":1}}`)
	if !slices.Equal(u.Added, []string{"two"}) || len(u.Removed) != 0 || len(u.Errors) != 3 || !strings.Contains(u.Errors["a__b"], "__") {
		t.Errorf("M-19: %+v", u)
	}
	d.mcpIs(s, "two", "connected")
	if got := d.good(s, "mcp__one__pid", `{}`); got != pid {
		t.Errorf("M-18: the unchanged server is another one: %s, want %s", got, pid)
	}
	if _, there := d.mcp(other)["two"]; there {
		t.Error("M-22: the server is in another session, too")
	}
	u = put(`{"two":` + mcpConfig(t, mcpScript{Tools: plainTools("echo", "pid")}, `"callTimeout":"9s"`) + `}`)
	if len(u.Added) != 0 || !slices.Equal(u.Removed, []string{"one"}) {
		t.Errorf("M-19: %+v", u)
	}
	d.mcpIs(s, "two", "connected")
	if all := d.tools(s); slices.Contains(all, "mcp__one__pid") || !slices.Contains(all, "mcp__two__pid") {
		t.Errorf("tools are %q", all)
	}
	if err := d.operator.Do(t.Context(), "POST", "/reload", map[string]any{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := d.mcp(s); got["two"].Status != "connected" || len(got) != 1 {
		t.Errorf("M-16: after a reload the session has %+v", got)
	}
	toggle := func(on bool) {
		t.Helper()
		if err := d.operator.Do(t.Context(), "POST", "/sessions/"+s+"/mcp/two/toggle", map[string]bool{"enabled": on}, nil); err != nil {
			t.Fatal(err)
		}
	}
	toggle(false)
	if got := d.mcp(s)["two"]; got.Status != "disabled" || slices.Contains(d.tools(s), "mcp__two__pid") {
		t.Errorf("M-17: %+v", got)
	}
	toggle(true)
	d.mcpIs(s, "two", "connected")
	before := d.good(s, "mcp__two__pid", `{}`)
	if err := d.operator.Do(t.Context(), "POST", "/sessions/"+s+"/mcp/two/reconnect", map[string]any{}, nil); err != nil {
		t.Fatal(err)
	}
	d.mcpIs(s, "two", "connected")
	if after := d.good(s, "mcp__two__pid", `{}`); after == "" || before == "" {
		t.Errorf("M-16: %q and %q", before, after)
	}
	if err := d.operator.Do(t.Context(), "POST", "/sessions/"+s+"/mcp/nobody/reconnect", map[string]any{}, nil); err == nil {
		t.Error("M-16: an unknown name is no error")
	}
	for _, path := range []string{"/mcp/two/reconnect", "/mcp/two/toggle"} {
		if err := d.agent.Do(t.Context(), "POST", "/sessions/"+s+path, map[string]any{}, nil); err == nil {
			t.Errorf("an agent may %s", path)
		}
	}
	if err := d.agent.Do(t.Context(), "PUT", "/sessions/"+s+"/mcp", map[string]any{"servers": map[string]any{}}, nil); err == nil {
		t.Error("an agent may set servers")
	}
}

func TestM20_M21_Resources(t *testing.T) {
	d := newMCP(t, allowMCP, map[string]string{
		"one": mcpConfig(t, mcpScript{}), "two": mcpConfig(t, mcpScript{}),
	})
	s := d.session()
	d.mcpIs(s, "one", "connected")
	d.mcpIs(s, "two", "connected")
	if got := d.good(s, "ListMcpResources", `{}`); strings.Count(got, "mem://motd") != 2 {
		t.Errorf("all: %s", got)
	}
	if got := d.good(s, "ListMcpResources", `{"server":"two"}`); strings.Contains(got, "one:") || !strings.Contains(got, "two: motd (mem://motd) words") {
		t.Errorf("of one: %s", got)
	}
	if got := d.good(s, "ReadMcpResource", `{"server":"one","uri":"mem://motd"}`); got != "of mem://motd" {
		t.Errorf("read: %q", got)
	}
	e := d.bad(s, "ReadMcpResource", `{"server":"three","uri":"mem://motd"}`)
	if e.Msg != "MCP server not found: three" || e.Code != "mcp_server_not_found" {
		t.Errorf("unknown: %+v", e)
	}
	if e := d.bad(s, "ReadMcpResource", `{"server":"one","uri":"file:///etc/shadow"}`); e.Code != "path_denied" {
		t.Errorf("a denied file: %+v", e)
	}
}

// A hostile server may do what it wants: the other servers answer, and the daemon lives.
func TestM27_HostileAnswersHarmNobody(t *testing.T) {
	t.Parallel()
	d := newMCP(t, allowMCP, map[string]string{
		"bad":  mcpConfig(t, mcpScript{Tools: plainTools("huge", "twice", "others", "noise", "kinds", "structured", "progress", "fork", "die")}),
		"mute": mcpConfig(t, mcpScript{Tools: plainTools("silence")}, `"callTimeout":"2s"`),
		"good": mcpConfig(t, mcpScript{Tools: plainTools("echo")}),
	})
	s := d.session()
	for _, server := range []string{"bad", "mute", "good"} {
		d.mcpIs(s, server, "connected")
	}
	quick := func(after string) {
		t.Helper()
		d.good(s, "mcp__good__echo", `{}`)
	}
	if e := d.bad(s, "mcp__bad__huge", `{}`); !strings.Contains(e.Msg, "bytes") {
		t.Errorf("17 MB: %+v", e)
	}
	quick("huge")
	var wg sync.WaitGroup
	wg.Go(func() {
		if e := d.bad(s, "mcp__mute__silence", `{}`); e.Msg != "MCP tool error: no answer within 2s" {
			t.Errorf("silence: %+v", e)
		}
	})
	quick("silence")
	wg.Wait()
	if got := d.good(s, "mcp__bad__twice", `{}`); got != "first" {
		t.Errorf("twice: %q", got)
	}
	if got := d.good(s, "mcp__bad__others", `{}`); got != "own" {
		t.Errorf("others' ids: %q", got)
	}
	if got := d.good(s, "mcp__bad__noise", `{}`); got != "after noise" {
		t.Errorf("noise: %q", got)
	}
	if got := d.good(s, "mcp__bad__structured", `{}`); !strings.Contains(got, `"n": 7`) {
		t.Errorf("structured: %q", got)
	}
	if got := d.good(s, "mcp__bad__progress", `{}`); got != "done" {
		t.Errorf("progress: %q", got)
	}
	// Links are text: neither a file, nor a variable or a route of the daemon is read for the model.
	kept := d.call(s, "WriteVar", `{"name":"kept","value":"KEPT-VALUE"}`)
	if kept.Error != nil {
		t.Fatal(kept.Error)
	}
	r := d.call(s, "mcp__bad__kinds", `{"daemon":"var://`+s+`/kept"}`)
	var kinds []string
	for _, c := range r.Content {
		kinds = append(kinds, c.Type)
	}
	if want := []string{"text", "image", "audio", "resource", "resource", "text"}; !slices.Equal(kinds, want) ||
		strings.Contains(r.FinalText, "root:") || strings.Contains(r.FinalText, "KEPT-VALUE") {
		t.Errorf("kinds %q: %s", kinds, r.FinalText)
	}
	d.bad(s, "mcp__bad__die", `{}`)
	quick("die")
}

func TestM29_NothingIsLeftOfAServer(t *testing.T) {
	nap := newNap()
	d := newMCP(t, allowMCP, map[string]string{"one": mcpConfig(t, mcpScript{Tools: plainTools("fork")})})
	s := d.session()
	d.mcpIs(s, "one", "connected")
	d.good(s, "mcp__one__fork", `{"seconds":"`+nap+`"}`)
	if !waitFor(func() bool { return len(withWord(nap)) > 0 }) {
		t.Fatal("the child does not run")
	}
	if err := d.agent.Do(t.Context(), "DELETE", "/sessions/"+s, nil, nil); err != nil {
		t.Fatal(err)
	}
	if !waitFor(func() bool { return len(withWord(nap)) == 0 }) {
		t.Error("a child of the server outlives the session")
	}
}
