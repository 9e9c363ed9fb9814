package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// cgroupsOf are the directories of the control groups of a process that the daemon has made.
func cgroupsOf(t *testing.T, pid int) (dirs []string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !strings.Contains(parts[2], "sandboxd-") {
			continue
		}
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			dir := filepath.Join(root, parts[1], parts[2])
			if _, err := os.Stat(dir); err == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// named are the files of this name that the daemon keeps.
func (d *running) named(name string) (paths []string) {
	roots := []string{d.work}
	for _, parent := range []string{os.TempDir(), "/run", "/dev/shm"} {
		more, _ := filepath.Glob(parent + "/sandboxd-run-*")
		roots = append(roots, more...)
	}
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Name() == name {
				paths = append(paths, path)
			}
			return nil // what has gone meanwhile is not there
		})
	}
	return paths
}

// Of a server, of what it started and of its files nothing is left when its session is deleted: no process, no
// control group, no private directory.
func TestM29_NoProcessGroupOrFileOfAServerIsLeft(t *testing.T) {
	mark := fmt.Sprint("mark-", time.Now().UnixNano())
	nap := newNap()
	config := mcpConfig(t, mcpScript{Tools: plainTools("fork", "write")})
	d := newMCP(t, allowMCP, map[string]string{"one": strings.Replace(config, `"./mcp-server"`, fmt.Sprintf(`"./mcp-server",%q`, mark), 1)})
	s := d.session()
	d.mcpIs(s, "one", "connected")
	d.good(s, "mcp__one__fork", `{"seconds":"`+nap+`"}`)
	if got := d.good(s, "mcp__one__write", `{"path":"../../../../../../../../tmp/`+mark+`","text":"x"}`); got != "error: <nil>" {
		t.Fatal(got)
	}
	pids := withWord(mark)
	if len(pids) == 0 || !waitFor(func() bool { return len(withWord(nap)) > 0 }) {
		t.Fatal("the server does not run")
	}
	groups, files := cgroupsOf(t, pids[len(pids)-1]), d.named(mark)
	if len(files) == 0 {
		t.Error("its private file is nowhere")
	}
	if err := d.agent.Do(t.Context(), "DELETE", "/sessions/"+s, nil, nil); err != nil {
		t.Fatal(err)
	}
	left := func() (all []string) {
		all = d.named(mark)
		for _, pid := range append(withWord(mark), withWord(nap)...) {
			all = append(all, fmt.Sprint("process ", pid))
		}
		for _, dir := range groups {
			if _, err := os.Stat(dir); err == nil {
				all = append(all, dir)
			}
		}
		return all
	}
	if !waitFor(func() bool { return len(left()) == 0 }) {
		t.Errorf("left: %q", left())
	}
}

// From the moment that settings are in force, a server answers under them alone: it is started again.
func TestM18_ServersAreStartedAgainUnderOtherSettings(t *testing.T) {
	config := allowMCP + "mcp: {servers: {one: " + mcpConfig(t, mcpScript{Tools: plainTools("read")}) + "}}\n"
	d := newPlaces(t, config)
	d.linkMCP()
	d.write("ws/plan.txt", "the old plan")
	d.start()
	s := d.session()
	d.mcpIs(s, "one", "connected")
	if got := d.good(s, "mcp__one__read", `{"path":"plan.txt"}`); got != "read: the old plan" {
		t.Fatal(got)
	}
	d.write("config.yaml", config+"sandbox: {deniedPaths: ["+filepath.Join(d.ws, "plan.txt")+"]}\n")
	d.does(d.operator, http.MethodPost, "/reload", nil, nil)
	restarted := false
	if !waitFor(func() bool {
		r := d.call(s, "mcp__one__read", `{"path":"plan.txt"}`)
		if strings.Contains(r.FinalText, "old plan") {
			t.Fatal("a server that was started before answers after the reload")
		}
		restarted = restarted || r.Error != nil && r.Error.Code == "mcp_not_connected" &&
			strings.Contains(r.Error.Msg, "started again")
		return r.Status == client.StatusSuccess
	}) {
		t.Errorf("the server does not come back: %+v\n%s", d.mcp(s)["one"], d.log)
	}
	if !restarted {
		t.Error("nobody was told that the server is started again")
	}
}

// A server has the rights of whoever made the session, and none where that is not known.
func TestM22_AServerRunsAsWhoMadeTheSession(t *testing.T) {
	d := newShared(t, allowMCP+"accounts: {others: own}\nmcp: {servers: {one: "+mcpConfig(t, mcpScript{Tools: plainTools("uid", "read")})+"}}\n")
	d.linkMCP()
	a := d.as(alice)
	s := a.session("")
	var states []mcpState
	if !waitFor(func() bool {
		err := json.Unmarshal(a.ask("GET", "/sessions/"+s+"/mcp", "").Data, &states)
		return err == nil && len(states) == 1 && states[0].Status == "connected"
	}) {
		t.Fatalf("the server is %+v\n%s", states, d.log)
	}
	if r := a.call(s, "mcp__one__uid", map[string]any{}); r.FormattedText != fmt.Sprintf("%d %d []", alice, alice) {
		t.Errorf("for alice it runs as %q %+v", r.FormattedText, r.Error)
	}
	d.write("ws/roots.txt", "of root") // mode 0600
	if r := a.call(s, "mcp__one__read", map[string]any{"path": "roots.txt"}); strings.Contains(r.FormattedText, "of root") {
		t.Errorf("it reads a file of root: %q", r.FormattedText)
	}
	own := d.session()
	d.mcpIs(own, "one", "connected")
	if got := d.good(own, "mcp__one__uid", `{}`); !strings.HasPrefix(got, "0 0 ") {
		t.Errorf("for root it runs as %q", got)
	}
	var made client.Session
	d.does(d.operator, http.MethodPost, "/sessions", map[string]any{"cwd": d.ws}, &made)
	var state mcpState
	if !waitFor(func() bool {
		d.does(d.operator, http.MethodGet, "/sessions/"+made.ID+"/mcp", nil, &states)
		state = states[0]
		return state.Status == "failed"
	}) || !strings.Contains(state.Error, "not known with whose rights") {
		t.Errorf("in a session that an operator made it is %+v", state)
	}
}

// With firstSight: ask no model gets a tool before a person has let it in, and what was let in stays so.
func TestM15_FirstSightAsks(t *testing.T) {
	d := newPlaces(t, allowMCP+"mcp: {firstSight: ask, servers: {one: "+mcpConfig(t, mcpScript{Tools: plainTools("echo", "env")})+"}}\n")
	d.linkMCP()
	d.start()
	s := d.session()
	if got := d.mcpIs(s, "one", "connected"); len(got.Tools) != 0 || !strings.Contains(got.Error, "first sight") {
		t.Errorf("at first it is %+v", got)
	}
	if e := d.bad(s, "mcp__one__echo", `{}`); e.Code != "tool_not_found" {
		t.Errorf("a call of a tool that nobody let in: %+v", e)
	}
	all := d.pinQuestions(2)
	if q := all[0]; q.Args.Tool != "echo" || !strings.Contains(q.Args.Why, "first sight") || !strings.Contains(q.Args.Definition, "Does echo.") {
		t.Errorf("the question is %+v", q)
	}
	for i, yes := range []bool{true, false} {
		d.does(d.operator, http.MethodPost, "/approvals/"+all[i].ID, map[string]any{"approved": yes}, nil)
	}
	d.mcpHas(s, "one", "echo")
	d.good(s, "mcp__one__echo", `{}`)
	d.stop(os.Interrupt)
	d.start()
	s = d.session()
	d.mcpHas(s, "one", "echo")
	if all := d.pinQuestions(1); all[0].Args.Tool != "env" {
		t.Errorf("after a restart %+v is asked about", all)
	}
}

// A secret of network.secrets is put into the requests to a remote server, and masked in what it answers.
func TestM08_SecretsOfTheNetworkReachTheirServerAlone(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	srv.AddTool(&mcp.Tool{Name: "show", Description: "Says what it got.", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			said := "got " + r.Extra.Header.Get("Authorization")
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil
		})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv },
		&mcp.StreamableHTTPOptions{DisableLocalhostProtection: true})
	k := newKeeper(t, `, value: "Bearer {{file}}"`, h.ServeHTTP, allowMCP,
		"mcp: {servers: {one: {type: http, url: 'https://api.test/'}}}\n")
	s := k.session()
	k.mcpIs(s, "one", "connected")
	if got := k.good(s, "mcp__one__show", `{}`); !strings.HasPrefix(got, "got ") || got == "got " || strings.Contains(got, k.token) {
		t.Errorf("the answer is %q", got)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, sent := range k.got {
		if sent != "Bearer "+k.token {
			t.Errorf("a request has %q", sent)
		}
	}
	if len(k.got) < 3 {
		t.Errorf("%d requests came", len(k.got))
	}
}
