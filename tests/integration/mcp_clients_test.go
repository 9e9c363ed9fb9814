package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// relay passes requests on to the agent socket: the suite speaks to ports alone.
func (d *running) relay(t *testing.T) string {
	way := d.socket(t, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", "sandboxd", ""
		res, err := way.RoundTrip(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(res.StatusCode)
		part := make([]byte, 32<<10)
		for {
			n, err := res.Body.Read(part)
			if _, lost := w.Write(part[:n]); err != nil || lost != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}

// bearer passes requests on to the port, with the token: the suite sends none. A host that is another's stays.
func bearer(t *testing.T, port string) string {
	to, err := url.Parse(port)
	if err != nil {
		t.Fatal(err)
	}
	own := "" // the address of the relay
	srv := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = to.Scheme, to.Host
			p.Out.Host = strings.ReplaceAll(p.In.Host, own, to.Host)
			if origin := p.In.Header.Get("Origin"); origin != "" {
				p.Out.Header.Set("Origin", strings.ReplaceAll(origin, own, to.Host))
			}
			p.Out.Header.Set("Authorization", "Bearer "+portToken)
		},
	})
	own = srv.Listener.Addr().String()
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}

// bridged answers the suite by a bridge for each session, line by line.
type bridged struct {
	t        *testing.T
	d        *running
	mu       sync.Mutex // one message at a time
	sessions map[string]*rawMCP
}

func (b *bridged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	var msg struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	var line bytes.Buffer
	if err != nil || json.Unmarshal(body, &msg) != nil || json.Compact(&line, body) != nil {
		http.Error(w, "no message", http.StatusBadRequest)
		return
	}
	id := r.Header.Get("Mcp-Session-Id")
	if msg.Method == "initialize" {
		id = fmt.Sprint(len(b.sessions) + 1)
		w.Header().Set("Mcp-Session-Id", id)
	}
	s := b.sessions[id]
	if s == nil {
		in, out, _ := b.d.bridge(b.t)
		s = &rawMCP{b.t, in, bufio.NewReaderSize(out, 1<<20)}
		b.sessions[id] = s
	}
	s.send(line.String())
	if msg.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, s.answerTo(string(msg.ID))) // the suite says what it misses
}

// TestM24_TheConformanceSuite runs the scenarios of the official suite that need no tools, resources or prompts of their
// own, over HTTP, at a port and through the bridge. server-stateless has checks that need such tools.
func TestM24_TheConformanceSuite(t *testing.T) {
	packages := os.Getenv(clientPackages)
	if packages == "" {
		needs.Elsewhere(t, "make test-clients runs it, with the suite installed")
	}
	d := newDaemon(t, "")
	b := httptest.NewServer(&bridged{t: t, d: d, sessions: map[string]*rawMCP{}})
	t.Cleanup(b.Close)
	const old, middle, newest = "2025-06-18", "2025-11-25", "2026-07-28"
	_, port := newPort(t, "", nil)
	for way, url := range map[string]string{"HTTP": d.relay(t), "port": bearer(t, port), "bridge": b.URL} {
		for _, tt := range []struct {
			scenario string
			versions []string
			http     bool // is about HTTP
		}{
			{"server-initialize", []string{old, middle}, false},
			{"server-session-lifecycle", []string{old, middle}, true},
			{"server-stateless", []string{newest}, true},
			{"ping", []string{old, middle}, false},
			{"tools-list", []string{old, middle, newest}, false},
			{"resources-list", []string{old, middle, newest}, false},
			{"prompts-list", []string{old, middle, newest}, false},
			{"sep-2164-resource-not-found", []string{newest}, false},
			{"caching", []string{newest}, false},
			{"server-sse-multiple-streams", []string{middle, newest}, true},
			{"http-header-validation", []string{newest}, true},
			{"dns-rebinding-protection", []string{middle, newest}, true},
		} {
			if tt.http && way == "bridge" {
				continue
			}
			for _, version := range tt.versions {
				cmd := exec.CommandContext(t.Context(), filepath.Join(packages, ".bin/node"),
					filepath.Join(packages, ".bin/conformance"), "server", "--url", url, "--scenario", tt.scenario,
					"--spec-version", version)
				cmd.Dir = d.work
				out, err := cmd.CombinedOutput()
				text := string(out)
				if tt.scenario == "server-stateless" {
					fixtures := strings.Count(text, "\n    Error: Not testable: server does not list the diagnostic tool ")
					if fixtures > 0 && fixtures == strings.Count(text, "\n    Error: ") {
						err = nil
					}
				}
				if err != nil || strings.Contains(text, "SKIPPED: scenario") {
					t.Errorf("%s %s %s: %v\n%s", way, version, tt.scenario, err, text[max(0, len(text)-3000):])
					continue
				}
				i := max(strings.LastIndex(text, "Passed: "), 0)
				t.Logf("%s %s %s: %s", way, version, tt.scenario, strings.SplitN(text[i:], "\n", 2)[0])
			}
		}
	}
}

// TestM24_TheInspectorHasTheTools is the official client for people, from a command line: by the bridge that it
// starts, and at a port with the token.
func TestM24_TheInspectorHasTheTools(t *testing.T) {
	packages := os.Getenv(clientPackages)
	if packages == "" {
		needs.Elsewhere(t, "make test-clients runs it, with the inspector installed")
	}
	d, port := newPort(t, "", nil)
	inspect := func(target []string, args ...string) (string, error) {
		all := append([]string{filepath.Join(packages, ".bin/inspector"), "--cli"}, target...)
		cmd := exec.CommandContext(t.Context(), filepath.Join(packages, ".bin/node"), append(all, args...)...)
		cmd.Dir, cmd.Env = d.ws, d.env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for way, target := range map[string][]string{
		"bridge": {filepath.Join(bin, "sandboxd"), "mcp", "-e", "SANDBOXD_SOCKET=" + filepath.Join(d.work, "run/a.sock")},
		"port":   {port, "--transport", "http", "--header", "Authorization: Bearer " + portToken},
	} {
		for _, tt := range []struct {
			args []string
			want string
		}{
			{[]string{"--method", "tools/list"}, `"name": "Bash"`},
			{[]string{"--method", "tools/call", "--tool-name", "Bash", "--tool-arg", "command=echo by $((6*7))"}, "by 42"},
			{[]string{"--method", "tools/call", "--tool-name", "Bash", "--tool-arg", "command=cat ~/.ssh/id_rsa"}, "is denied by sandbox policy"},
			{[]string{"--method", "resources/templates/list"}, "var://"},
			{[]string{"--method", "prompts/list"}, `"prompts"`},
		} {
			out, err := inspect(target, tt.args...)
			if !strings.Contains(out, tt.want) || strings.Contains(out, "PLANTED") {
				t.Errorf("%s %q: %v, want %q\n%.3000s", way, tt.args, err, tt.want, out)
			}
		}
	}
	if out, err := inspect([]string{port, "--transport", "http"}, "--method", "tools/list"); err == nil || strings.Contains(out, `"Bash"`) {
		t.Errorf("without the token: %s", out)
	}
}

// TestM24_ClaudeCodeHasTheTools is the real client, offline, with the bridge as its server, put into its configuration by
// sandboxd mcp config.
func TestM24_ClaudeCodeHasTheTools(t *testing.T) {
	packages := os.Getenv(clientPackages)
	if packages == "" {
		needs.Elsewhere(t, "make test-clients runs it, with the clients installed")
	}
	if os.Getenv(withoutNet) == "" {
		rerunWithoutNetwork(t)
		return
	}
	loopback(t)
	d := &day{T: t, running: newDaemon(t, dayConfig), client: "claude-code", program: filepath.Join(packages, ".bin/claude")}
	if out, err := d.exec("sandboxd", "mcp", "config", "claude-code", "--write"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const ours = "mcp__sandboxd__"
	d.steps = []scriptedCall{
		{tool: "ToolSearch", input: args{
			"query": "select:" + ours + "Bash," + ours + "Read," + ours + "Write," + ours + "ReadVar", "max_results": 10,
		}},
		{tool: ours + "Bash", input: args{"command": "echo ran in $(pwd)"}, want: "ran in " + d.ws},
		{tool: ours + "Write", input: args{"file_path": "b.txt", "content": "new\n"}, want: "b.txt"},
		{tool: ours + "Read", input: args{"file_path": "b.txt"}, want: "new"},
		{tool: ours + "Bash", input: args{"command": "cat ~/.ssh/id_rsa"}, want: "is denied by sandbox policy", not: "PLANTED"},
		{tool: ours + "Bash", input: args{"command": "head -c 60000 /dev/zero | tr '\\0' x"}, want: "$VAR_REF{{", not: `"stdout"`},
		{
			tool: ours + "Bash", input: args{"command": "git push --force origin main; echo after the push"},
			answer: agreed(), want: "after the push",
		},
		{
			tool: ours + "Bash", input: args{"command": "git push --force origin other; echo after the push"},
			answer: refused("use a branch"), want: "use a branch", not: "after the push",
		},
		{tool: ours + "Bash", input: args{"command": "echo rewrite me"}, want: "what the hook wrote"},
		{tool: "ListMcpResourcesTool", input: args{"server": "sandboxd"}},
	}
	d.model = newModel(t, d.steps)
	api := httptest.NewServer(d.model)
	t.Cleanup(api.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	person, asked := context.WithCancel(ctx)
	answered := make(chan int)
	go func() { answered <- d.answer(person) }()
	cmd := exec.CommandContext(ctx, d.program, "-p", "do it", "--allowedTools", "mcp__sandboxd")
	cmd.WaitDelay, cmd.Dir = 5*time.Second, d.ws
	cmd.Env = append(slices.Clone(d.env), "ANTHROPIC_BASE_URL="+api.URL, "ANTHROPIC_API_KEY=none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
	out, err := cmd.CombinedOutput()
	asked()
	if n := <-answered; err != nil || n != 2 {
		t.Errorf("%v; %d questions were answered, want 2", err, n)
	}
	t.Logf("the client said: %.2000s", out)
	for i, s := range d.steps {
		if i >= len(d.model.results) {
			t.Fatalf("call %d, %s, has no result", i+1, s.tool)
		}
		d.hold(i, s, d.model.results[i])
	}
}
