package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
	"github.com/sandboxd/sandboxd/internal/vars"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// world is a server over real parts, without the sandbox, behind real sockets.
type world struct {
	t     *testing.T
	dir   string // the workspace, with the transcripts
	opts  Options
	queue *approvals.Queue
	front *Front
	hold  chan struct{} // the tool Wait ends when it is closed
	stop  context.CancelCauseFunc
	done  chan error
	paths map[tool.Role]string
	// reloads and stops count what operators asked for.
	reloads, stops int
	reloadErr      error
}

func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "api") // t.TempDir is too long for a socket
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	db, err := storetest.At(t.Context(), t, ":memory:",
		sessions.Schema(), vars.Schema(), approvals.Schema(), audit.Schema(), policy.Schema())
	must(t, err)
	t.Cleanup(func() { db.Close() })
	w := &world{t: t, dir: dir, hold: make(chan struct{}), done: make(chan error, 2), paths: map[tool.Role]string{}}
	state := filepath.Join(dir, "state")
	must(t, os.Mkdir(state, 0o700))
	record, err := audit.Open(t.Context(), audit.Options{Dir: state, KeyFile: filepath.Join(dir, "key", "audit.key"), Sync: "interval"}, audit.NewMirror(db))
	must(t, err)
	t.Cleanup(func() { record.Close() })
	queue, err := approvals.New(t.Context(), db, approvals.Options{Approver: true})
	must(t, err)
	memory := vars.New(db, vars.Options{})
	tools := catalog.NewRegistry(catalog.Group{Name: "test", Tools: []tool.Tool{echo{}, wait{w.hold}}})
	tools.SetDefaults(catalog.Defaults{AllGroups: true})
	said, err := transcript.Open(filepath.Join(dir, "sessions"))
	must(t, err)
	t.Cleanup(func() { said.Close() })
	store := sessions.New(db, sessions.Options{Transcripts: said})
	engine, err := policy.New(t.Context(), policy.Options{Profile: "observe", Verdict: callback.VerdictAdvisory})
	must(t, err)
	registry, err := hooks.New(hooks.Options{})
	must(t, err)
	decisions := policy.NewDecisions(db, policy.DecisionOptions{})
	t.Cleanup(decisions.Close)
	shadow := policy.NewShadow(policy.ShadowOptions{DB: db})
	t.Cleanup(shadow.Close)
	settings := guard.DefaultSettings(dir, dir, nil)
	work := projects.Fixed(tool.Workspace{Roots: []string{dir}, Settings: settings})
	log := slog.New(slog.DiscardHandler)
	host := part.Host{Sessions: store, Record: record.Append, Events: new(events.Broker), Log: log}
	parts := []part.Part{
		memory.Part(host), queue.Part(host), engine.Part(host, decisions, shadow), record.Part(), registry.Part(host),
		{Forget: func(_ context.Context, s tool.Session) error {
			host.Events.Publish(events.Event{Type: events.SessionDeleted, Account: s.Account, Session: s.ID})
			return nil
		}},
	}
	store.Attach(parts...)
	w.queue = queue
	w.opts = Options{
		Parts: parts, Sessions: store, Tools: tools, Hooks: registry, Events: host.Events, Metrics: http.NotFoundHandler(),
		Callers: Callers{Account: named(nil)},
		Defaults: Defaults{
			Settings: settings, Workspaces: work, Mode: tool.ModeAuto, MaxMode: tool.ModeAuto, Profile: sandbox.ProfileStrict,
		},
		Status: func() Status {
			return Status{Version: "test", RoleSplit: "advisory", Config: w.Config(), Sandbox: open{}.Probe(), Roots: []string{dir}}
		},
		StopGrace: time.Minute, Daemon: w, Log: log,
		Redact: audit.NewRedactor().String,
		Pipeline: pipeline.New(pipeline.Options{
			Sessions: store, Tools: tools, Vars: memory, Hooks: posts{registry}, Policy: engine, Approvals: queue, Record: record,
			Meter: unmetered{}, Backend: open{}, Workspaces: work, Log: log,
		}),
	}
	for _, f := range change {
		f(&w.opts)
	}
	w.serve(dir)
	return w
}

func (w *world) serve(dir string) {
	w.t.Helper()
	w.front = NewFront(New(w.opts))
	var ctx context.Context
	ctx, w.stop = context.WithCancelCause(context.Background())
	for _, role := range []tool.Role{tool.RoleAgent, tool.RoleOperator} {
		w.paths[role] = filepath.Join(dir, "run", string(role))
		l, err := Listen(w.paths[role], Access{})
		must(w.t, err)
		go func() { w.done <- w.front.Serve(ctx, l, role) }()
	}
	w.t.Cleanup(func() { w.stop(ErrStopAll) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Reload, Config and StopAll are the daemon.
func (w *world) Reload(context.Context, string, bool) error { w.reloads++; return w.reloadErr }

func (w *world) Config() ConfigStatus { return ConfigStatus{Loaded: time.Now().UTC()} }

func (w *world) StopAll(context.Context, string) (int, error) {
	w.stops++
	return w.opts.Pipeline.CancelAll(ErrStopAll), nil
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	Data   json.RawMessage `json:"data"`
	Error  tool.Error      `json:"error"`
}

// do sends one request; body is text as it is.
func (w *world) do(role tool.Role, method, path, body string, header ...string) answer {
	w.t.Helper()
	res := w.send(role, method, path, strings.NewReader(body), header...)
	defer res.Body.Close()
	a := answer{status: res.StatusCode, header: res.Header}
	var err error
	a.body, err = io.ReadAll(res.Body)
	must(w.t, err)
	if err := json.Unmarshal(a.body, &a); err != nil {
		w.t.Fatalf("%s %s: %v in %s", method, path, err, a.body)
	}
	return a
}

func (w *world) send(role tool.Role, method, path string, body io.Reader, header ...string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://x"+path, body)
	must(w.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.paths[role])
	}
	c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	res, err := c.Do(req)
	must(w.t, err)
	return res
}

func (w *world) session(role tool.Role, header ...string) string {
	w.t.Helper()
	var s session
	must(w.t, json.Unmarshal(w.do(role, "POST", "/sessions", "{}", header...).Data, &s))
	return s.ID
}

// echo answers its argument.
type echo struct{}

func (echo) Spec() tool.Spec {
	return tool.Spec{Name: "Echo", Class: tool.ClassRead, ReadOnly: true, Schema: json.RawMessage(`{"type":"object"}`)}
}
func (echo) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }
func (echo) Run(_ context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	return tool.Output{Data: string(in.Args)}, nil
}

// wait runs until it is let go, or cancelled.
type wait struct{ hold chan struct{} }

func (wait) Spec() tool.Spec {
	return tool.Spec{Name: "Wait", Class: tool.ClassRead, ReadOnly: true, Schema: json.RawMessage(`{"type":"object"}`)}
}
func (wait) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }
func (t wait) Run(ctx context.Context, _ tool.In, _ sandbox.Box) (tool.Output, error) {
	select {
	case <-t.hold:
		return tool.Output{Data: "let go"}, nil
	case <-ctx.Done():
		return tool.Output{}, context.Cause(ctx)
	}
}

// open is a cage without walls, for tools that need none.
type open struct{}

func (open) Probe() sandbox.Report { return sandbox.Report{Layers: []string{}, Missing: []string{}} }
func (open) Close() error          { return nil }
func (open) Binds() error          { return nil }
func (open) Forget(string) error   { return nil }
func (open) Box(context.Context, string, sandbox.Profile, guard.Settings) (sandbox.Box, error) {
	return box{}, nil
}

type box struct{ sandbox.Box }

func (b box) Judged(egress.Judge) sandbox.Box { return b }
func (box) Ledger() egress.Ledger             { return egress.Ledger{} }
func (b box) As(sandbox.User) sandbox.Box     { return b }
func (box) Report() sandbox.Report            { return sandbox.Report{} }
func (box) Close() error                      { return nil }

type unmetered struct{}

func (unmetered) Stage(string, time.Duration) {}
func (unmetered) Done(*tool.Call)             {}

type posts struct{ *hooks.Registry }

func (posts) Posts() bool { return false }

// running blocks until the calls that run are n.
func (w *world) running(n int) {
	w.t.Helper()
	w.runningOf(tool.DefaultAccount, n)
}

func (w *world) runningOf(account string, n int) {
	w.t.Helper()
	// another goroutine of the server: nothing to wait on
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if len(w.opts.Pipeline.Calls(account)) == n {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("never %d calls", n)
		}
	}
}

func TestRequestsAreStrict(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	calls := "/sessions/" + id + "/calls"
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		code, says               string
	}{
		{"unknown field", "POST", calls, `{"tool":"Echo","nope":1}`, 400, "validation_error", `unknown field "nope"`},
		{"unknown field inside", "POST", calls, `{"calls":[{"tool":"Echo","nope":1}]}`, 400, "validation_error", `calls[0].nope`},
		{"wrong case", "POST", calls, `{"Tool":"Echo"}`, 400, "validation_error", `unknown field "Tool"`},
		{"duplicate key", "POST", calls, `{"tool":"Echo","tool":"Wait"}`, 400, "validation_error", `field "tool" is given twice`},
		{"duplicate key inside the arguments", "POST", calls, `{"tool":"Echo","args":{"a":1,"a":2}}`, 400, "validation_error", `field "a" is given twice`},
		{"invalid UTF-8", "POST", calls, "{\"tool\":\"\xff\"}", 400, "validation_error", "UTF-8"},
		{"two values", "POST", calls, `{"tool":"Echo"} {}`, 400, "validation_error", "text after the end"},
		{"no object", "POST", calls, `[]`, 400, "validation_error", "must be a JSON object"},
		{"a wrong type", "POST", calls, `{"tool":5}`, 400, "validation_error", "tool must be string"},
		{
			"arguments that are no object", "POST", calls, `{"tool":"Echo","args":[]}`, 400, "validation_error",
			"args must be an object",
		},
		{"100,000 levels", "POST", calls, strings.Repeat("[", 100_000), 400, "validation_error", "nested deeper"},
		{"no tool", "POST", calls, `{"args":{}}`, 400, "validation_error", "tool is missing"},
		{"half a value", "POST", calls, `{"tool":"Echo"`, 400, "validation_error", "malformed JSON"},
		{"more than 8 MB", "POST", calls, strings.Repeat(" ", route.MaxBody+1), 413, "too_large", "larger than"},
		{"no such route", "GET", "/nope", "", 404, "not_found", "/nope"},
		{"no such method", "PUT", "/sessions", "", 405, "method_not_allowed", "PUT"},
		{"no such session", "POST", "/sessions/ses_none/calls", `{"tool":"Echo"}`, 404, "session_not_found", ""},
		{"a mode that is none", "POST", "/sessions", `{"mode":"anything"}`, 400, "validation_error", "unknown mode"},
		{
			"a looser mode than an agent may have", "POST", "/sessions", `{"mode":"bypassPermissions"}`, 403,
			"mode_not_allowed", "",
		},
		{"a directory outside the workspace", "POST", "/sessions", `{"cwd":"/etc"}`, 403, "cwd_outside_workspace", ""},
		{
			"a tool of the client that the daemon is to run", "POST", "/decide",
			`{"session_id":"` + id + `","tool":"Echo","outside":true,"hold":true}`, 400, "validation_error",
			"the daemon cannot run a tool that it does not have",
		},
		{"a check of nothing", "POST", "/check", `{}`, 400, "validation_error", "give either command, or path and op"},
		{
			"a check of two things", "POST", "/check", `{"command":"ls","path":"a","op":"read"}`, 400,
			"validation_error", "give either command, or path and op",
		},
		{"a check of another use", "POST", "/check", `{"path":"a","op":"change"}`, 400, "validation_error", "path and op"},
		{
			"a check under settings that there are not", "POST", "/check", `{"command":"ls","settings":{"networks":{}}}`,
			400, "validation_error", `settings: unknown key "networks"`,
		},
		{
			"a check with a home that leads nowhere", "POST", "/check", `{"command":"ls ~","home":"me"}`, 400,
			"validation_error", "cwd and home must be absolute",
		},
		{
			"a connection to no host", "POST", "/calls/x/connect", `{"host":"a b","port":443,"protocol":"tls","via":"proxy"}`,
			400, "validation_error", "host",
		},
		{"a page that is too large", "GET", "/sessions?limit=101", "", 400, "validation_error", "limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := w.do(tool.RoleAgent, tt.method, tt.path, tt.body)
			if a.status != tt.status || a.Error.Code != tt.code || !strings.Contains(a.Error.Msg, tt.says) {
				t.Errorf("got %d %s %q, want %d %s %q", a.status, a.Error.Code, a.Error.Msg, tt.status, tt.code, tt.says)
			}
			if a.status == 405 && a.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
}

// Every route of operators is closed to agents, and the whole table is served
// with the prefix and without.
func TestAgentsReachNoRouteOfOperators(t *testing.T) {
	w := newWorld(t)
	n := 0
	for _, rt := range append(New(w.opts).routes(), route.Route{Pattern: "GET /metrics", Role: tool.RoleOperator}) {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		path = strings.NewReplacer("{id}", "x", "{name}", "x").Replace(path)
		if rt.Role != tool.RoleOperator {
			continue
		}
		n++
		for _, prefix := range []string{"", "/v1"} {
			a := w.do(tool.RoleAgent, method, prefix+path, "")
			if a.status != http.StatusForbidden || a.Error.Code != "operator_only" {
				t.Errorf("%s %s%s: got %d %s", method, prefix, path, a.status, a.Error.Code)
			}
		}
	}
	if n < 10 || w.reloads+w.stops > 0 {
		t.Errorf("%d routes of operators; %d reloads and %d stops by agents", n, w.reloads, w.stops)
	}
}

// TestOnlyOperatorsReadMetrics: whoever can open the operator socket is not yet an operator.
func TestOnlyOperatorsReadMetrics(t *testing.T) {
	opts := newWorld(t).opts
	opts.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := New(opts).handler(tool.RoleOperator)
	for uid, want := range map[int]int{os.Geteuid(): http.StatusOK, 4713: http.StatusForbidden} {
		for _, path := range []string{"/metrics", "/v1/metrics"} {
			r := requestOf(t, uid)
			r.URL.Path = path
			got := httptest.NewRecorder()
			h.ServeHTTP(got, r)
			if got.Code != want {
				t.Errorf("uid %d, %s: got %d %s, want %d", uid, path, got.Code, got.Body, want)
			}
		}
	}
}

func TestAccountIsNamedOnTheOperatorSocketAlone(t *testing.T) {
	w := newWorld(t)
	theirs := w.session(tool.RoleOperator, "X-Account-Id", "ann")
	if a := w.do(tool.RoleOperator, "GET", "/sessions/"+theirs, "", "X-Account-Id", "ann"); a.status != 200 {
		t.Errorf("operator for ann: %d", a.status)
	}
	if a := w.do(tool.RoleOperator, "GET", "/sessions/"+theirs, "", "X-Account-Id", "bob"); a.status != 404 {
		t.Errorf("operator for bob: %d", a.status)
	}
	if a := w.do(tool.RoleAgent, "GET", "/sessions/"+theirs, ""); a.status != 404 {
		t.Errorf("an agent as itself: %d", a.status)
	}
	if a := w.do(tool.RoleAgent, "GET", "/sessions/"+theirs, "", "X-Account-Id", "ann"); a.status != 404 ||
		a.Error.Code != "session_not_found" {
		t.Errorf("an agent took the account ann: %d", a.status)
	}
}

// 26 letters of base32 are 130 bits.
func TestIdsCannotBeGuessed(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{}
	for range 20 {
		id := w.session(tool.RoleAgent)
		var r tool.Result
		a := w.do(tool.RoleAgent, "POST", "/sessions/"+id+"/calls", `{"tool":"Echo"}`)
		must(t, json.Unmarshal(a.Data, &r))
		for _, got := range []string{id, r.CallID, a.header.Get("X-Request-Id")} {
			_, random, _ := strings.Cut(got, "_")
			if len(random) != 26 || seen[random] {
				t.Fatalf("id %q", got)
			}
			seen[random] = true
		}
	}
}

// Who is told an id finds in the log what became of the request.
func TestTheLogRepeatsTheIDOfARequest(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer // guarded by mu
	w := newWorld(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(p)
		}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for path, status := range map[string]int{"/healthz": 200, "/nope": 404} {
		id := w.do(tool.RoleAgent, "GET", path, "").header.Get("X-Request-Id")
		w.until("the request is in the log", func() bool {
			mu.Lock()
			defer mu.Unlock()
			line := regexp.MustCompile(`(?m)^.*request_id=` + id + ` .*$`).FindString(log.String())
			return strings.Contains(line, "path="+path+" status="+strconv.Itoa(status))
		})
	}
}

// An answer that names no status has 200, also one that is flushed before it writes.
func TestTheLogKnowsTheStatusOfAStream(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter) error{
		"write": func(w http.ResponseWriter) error { _, err := w.Write([]byte("x")); return err },
		"flush": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		answer := httptest.NewRecorder()
		s := &status{ResponseWriter: answer, ends: func() bool { return true }}
		if err := begin(s); err != nil || s.code != http.StatusOK || answer.Header().Get("Connection") != "close" {
			t.Errorf("%s: status %d, %v, %v", name, s.code, answer.Header(), err)
		}
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A page in a browser on this machine cannot call, should a proxy expose it.
func TestRequestsOfOtherOriginsAreRefused(t *testing.T) {
	w := newWorld(t)
	res := w.send(tool.RoleOperator, "POST", "/reload", nil, "Sec-Fetch-Site", "cross-site", "Origin",
		"https://evil.example")
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden || w.reloads != 0 {
		t.Errorf("got %d, %d reloads", res.StatusCode, w.reloads)
	}
}

func TestReloadIsAnswered(t *testing.T) {
	w := newWorld(t)
	if a := w.do(tool.RoleOperator, "POST", "/reload", ""); a.status != 200 || w.reloads != 1 {
		t.Errorf("got %d", a.status)
	}
	w.reloadErr = errors.New("line 7: unknown key")
	if a := w.do(tool.RoleOperator, "POST", "/reload", ""); a.status != 400 || a.Error.Code != "config_invalid" ||
		!strings.Contains(a.Error.Msg, "line 7") {
		t.Errorf("got %d %+v", a.status, a.Error)
	}
}

// The statuses are those of docs/http.md. A client tries again only what says when.
func TestTheStatusOfACode(t *testing.T) {
	for _, tt := range []struct {
		code   string
		status int
		later  bool
	}{
		{"validation_error", 400, false},
		{"session_not_found", 404, false},
		{"job_not_found", 404, false},
		{"cron_not_found", 404, false},
		{"mcp_server_not_found", 404, false},
		{"task_not_found", 404, false},
		{"team_not_found", 404, false},
		{"skill_not_found", 404, false},
		{"callable_not_found", 404, false},
		{"variable_not_found", 404, false},
		{"task_changed", 409, false},
		{"invalid_status_transition", 409, false},
		{"team_disbanded", 409, false},
		{"member_exists", 409, false},
		{"already_decided", 409, false},
		{"expired", 409, false},
		{"reload_loosens", 409, false},
		{"session_exists", 409, false},
		{"too_large", 413, false},
		{"transcript_corrupt", 422, false},
		{"rate_limited", 429, true},
		{"too_many_requests", 429, true},
		{"account_busy", 429, true},
		{"agents_busy", 503, true},
		{"disk_reserve", 503, true},
		{"account_disk", 507, false},
		{"call_not_held", 404, false},
		{"not_found", 404, false},
		{"port_not_forwarded", 404, false},
		{"tool_not_found", 404, false},
		{"group_not_found", 404, false},
		{"member_not_found", 404, false},
		{"recipient_not_found", 404, false},
		{"project_not_found", 404, false},
		{"variable_host_not_found", 404, false},
		{"hook_blocked", 403, false},
		{"not_in_team", 403, false},
		{"not_the_leader", 403, false},
		{"project_gone", 403, false},
		{"project_refused", 403, false},
		{"cwd_outside_workspace", 403, false},
		{"job_ended", 409, false},
		{"port_taken", 409, false},
		{"agent_exists", 409, false},
		{"mailbox_full", 409, false},
		{"variable_protected", 409, false},
		{"variable_target_locked", 409, false},
		{"branch_local_snapshot_missing", 409, false},
		{"branch_exists", 409, false},
		{"branch_head_conflict", 409, false},
		{"protected_branch", 409, false},
		{"ambiguous_branch", 409, false},
		{"active_run_in_progress", 409, false},
		{"invalid_state", 409, false},
		{"constraint_error", 409, false},
		{"floor_parent_session_mismatch", 409, false},
		{"page_conflict", 409, false},
		{"page_activation_not_allowed", 409, false},
		{"content_target_locked", 409, false},
		{"session_elsewhere", 409, false},
		{"transcript_changed", 409, false},
		{"too_many_jobs", 429, false},
		{"too_many_tasks", 429, false},
		{"too_many_teams", 429, false},
		{"too_many_sessions", 429, false},
		{"record_failed", 503, false},
		{"store_restored", 503, false},
		{"store_unavailable", 503, true},
	} {
		w := httptest.NewRecorder()
		writeError(w, fmt.Errorf("asked: %w", &tool.Error{Code: tt.code, Msg: "no", Hint: "do"}))
		if later := w.Header().Get("Retry-After") != ""; w.Code != tt.status || later != tt.later {
			t.Errorf("%s: got %d, later %v, want %d, %v", tt.code, w.Code, later, tt.status, tt.later)
		}
		if got, want := strings.TrimSpace(w.Body.String()),
			`{"error":{"code":"`+tt.code+`","message":"no","hint":"do"}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A header section that never ends does not fill the memory.
func TestHeadersAreBounded(t *testing.T) {
	w := newWorld(t)
	res := w.send(tool.RoleAgent, "GET", "/healthz", nil, "X-Long", strings.Repeat("a", 1<<20))
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %s", res.Status)
	}
	text, _ := io.ReadAll(res.Body)
	if bytes.Contains(text, []byte("aaa")) {
		t.Error("the header came back")
	}
}
