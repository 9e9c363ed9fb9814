package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answers is a daemon that has the data of its answers prepared, by "METHOD path" or "METHOD path body". It refuses
// every other request.
type answers map[string]string

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := r.Method + " " + strings.TrimPrefix(r.URL.RequestURI(), "/v1")
	body, _ := io.ReadAll(r.Body)
	data, ok := a[asked+" "+string(body)]
	if !ok {
		data, ok = a[asked]
	}
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error": {"code": "not_prepared", "message": "nothing is prepared for `+asked+`"}}`)
	case r.Header.Get("Accept") == "text/event-stream":
		io.WriteString(w, data)
	default:
		io.WriteString(w, `{"data": `+data+`}`)
	}
}

// serveAnswers lets the commands of this test find a daemon on both sockets, and no other files of sandboxd.
func serveAnswers(t *testing.T, a answers) (home string) {
	t.Helper()
	home = t.TempDir()
	agents, operators := filepath.Join(home, "a"), filepath.Join(home, "o")
	for _, socket := range []string{agents, operators} {
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: a}
		go func() { _ = srv.Serve(l) }()
		t.Cleanup(func() { srv.Close() })
	}
	for name, value := range map[string]string{
		"HOME": home, "SANDBOXD_STATE_DIR": filepath.Join(home, "state"),
		"SANDBOXD_RUNTIME_DIR": filepath.Join(home, "run"), "SANDBOXD_KEY_DIR": filepath.Join(home, "key"),
		"SANDBOXD_CONFIG": "", "SANDBOXD_SOCKET": agents,
		"SANDBOXD_OPERATOR_SOCKET": operators,
	} {
		t.Setenv(name, value)
	}
	t.Chdir(t.TempDir())
	return home
}

// typed makes a text the standard input.
func typed(t *testing.T, text string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "typed")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = f
	t.Cleanup(func() { os.Stdin = stdin; f.Close() })
}

// With --json a script reads one JSON document, and no table.
func TestScriptsReadJSON(t *testing.T) {
	home := serveAnswers(t, answers{
		"GET /status":    `{"config": {}}`,
		"GET /grants":    `[{"id": "grt_1", "tool": "Glob"}]`,
		"GET /projects":  `[{"dir": "/w", "problem": "it is gone"}]`,
		"POST /projects": `{"dir": "/w", "in": "/w", "change": true}`,
		"GET /cron":      `[{"id": "cron_1", "command": "make\ntest"}]`,
		"GET /sessions/s/tasks?limit=100&offset=0": `[{"id": "1", "subject": "look", "blocks": ["2"]}]`,
		"GET /sessions/s/mcp":                      `[{"name": "git", "status": "failed", "stderr": "it said"}]`,
		"GET /mcp/pins":                            `[{"server": "git", "pin": "0123456789abcdef"}]`,
		"POST /sessions/s/shares":                  `{"id": "shr_1", "url": "http://x/#k"}`,
		"GET /shares?limit=100&offset=0":           `[{"id": "shr_1", "password": true}]`,
		"GET /sessions/s/skills":                   `[{"name": "k", "model": "m"}]`,
		"GET /sessions/s/skills?format=ignored":    `[]`,
		"GET /sessions/s/skills/k":                 `{"name": "k", "when_to_use": "often"}`,
		"POST /sessions/s/skills/end":              `{"ended": "k", "running": [{"name": "j"}]}`,
		"POST /hooks/test":                         `{"runs": [{"name": "h"}], "outcome": {"ask": true}}`,
		"GET /policies/shadow?limit=20":            `{"revision": "r1", "missed": 3}`,
		"GET /sessions/s/origins":                  `{"session": ["web"], "hosts": ["a.example"]}`,
		"GET /events?type=connection": "event: connection\n" +
			"data: {\"call_id\": \"c1\", \"connection\": {}}\n\n",
	})
	conf := filepath.Join(home, "sandboxd.yaml")
	t.Setenv("SANDBOXD_CONFIG", conf)
	const text = "sandbox: {network: {intercept: [a.example], secrets: [{host: a.example, command: [/bin/false]}]}}\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		exit int
		want string // without white space
	}{
		{"approvals grants", 0, `[{"id":"grt_1",`},
		{"allow", 0, `{"dir":"/w","in":"/w","change":true,"ended":0}`},
		{"allow --list", 0, `"problem":"it is gone"`},
		{"cron list", 0, `"command":"make\ntest"`},
		{"tasks list --session s", 0, `"blocks":["2"]`},
		{"mcp servers --session s", 0, `"stderr":"it said"`},
		{"mcp pins", 0, `"pin":"0123456789abcdef"`},
		{"share s", 0, `"id":"shr_1"`},
		{"share list", 0, `"password":true`},
		{"skills list --session s", 0, `"model":"m"`},
		{"skills show k --session s", 0, `"when_to_use":"often"`},
		{"skills end --session s", 0, `{"ended":"k","running":[{"name":"j"}]}`},
		{"hooks test stop", 0, `"ask":true`},
		{"policy shadow", 0, `"missed":3`},
		{"policy rules", 0, `"id":"developer.git.force_push"`},
		{"policy diff " + conf, 0, `"note":"no calls are recorded in`},
		{"policy test", 0, `"tests":`},
		{"vars origins --session s", 0, `"hosts":["a.example"]`},
		{"network explain example.com", 0, `"verdict":"ask"`},
		{"network secrets", 0, `"host":"a.example","header":"Authorization","source":"command",` +
			`"name":"/bin/false","error":"`},
		{"network tail", 1, `"call_id":"c1"`},
		{"config show", 0, `"key":"sandbox.network.secrets"`},
		{"config check", 0, `sandboxd.yaml","ok":true,"mistakes":[],"warnings":[`},
		{"check path --op write /etc/x", 3, `"verdict":"deny"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs, compact bytes.Buffer
			exit := run(t.Context(), append(strings.Fields(tt.args), "--json"), &out, &errs)
			if err := json.Compact(&compact, out.Bytes()); err != nil || exit != tt.exit ||
				!strings.Contains(compact.String(), tt.want) {
				t.Errorf("exit %d, %v, want %s in\n%s%s", exit, err, tt.want, out.String(), errs.String())
			}
			if tt.args == "network tail" && strings.Count(out.String(), "\n") != 1 {
				t.Errorf("the event is not one line: %q", out.String())
			}
		})
	}
}

// What a daemon answers is said in words, with what a person has to know of it.
func TestPeopleReadWords(t *testing.T) {
	const at = "2026-01-02T03:04:05Z"
	serveAnswers(t, answers{
		"POST /sessions":        `{"id": "s", "mode": "auto"}`,
		"POST /projects/remove": `{"dir": "/w", "ended": 2}`,
		"GET /jobs/j/output?offset=0": `{"job_id": "j", "state": "exited", "exit_code": 3, "output": "one\n", ` +
			`"next_offset": 4, "output_bytes": 8}`,
		"GET /jobs/j/output?offset=4": `{"job_id": "j", "state": "exited", "exit_code": 3, "output": "two\n", ` +
			`"next_offset": 8, "output_bytes": 8}`,
		"GET /jobs/w/output?offset=0":                                     `{"job_id": "w", "state": "running", "withheld": true}`,
		`POST /jobs/j/input {"end":false,"text":"typed\nwithout an end"}`: `null`,
		"DELETE /sessions/s/cron/cron_1":                                  `null`,
		"GET /sessions/s/mcp":                                             `[{"name": "git", "status": "failed", "error": "no program"}]`,
		"POST /sessions/none/skills/end":                                  `{"ended": null, "running": []}`,
		"POST /sessions/two/skills/end":                                   `{"ended": "k", "running": [{}, {}]}`,
		"GET /sessions/s/skills": `[{"name": "every", "available": true, "tool_restrictions": null}, ` +
			`{"name": "no", "available": true, "tool_restrictions": []}]`,
		"GET /sessions/s/skills?format=ignored": `[]`,
		"POST /hooks/test": `{"runs": [{"name": "h", "duration_ns": 1000000}], ` +
			`"outcome": {"ask": true, "reason": "why", "system_messages": ["be careful"]}}`,
		"POST /calls/call_1/undo": `{"undone": "call_1", ` +
			`"conflicts": [{"path": "/a", "why": "it changed"}]}`,
		"GET /sessions/s/origins": `{"session": ["person", "web"], ` +
			`"hosts": ["a.example", "b.example"]}`,
		"GET /sessions?limit=100&sort_by=updated_at": `[{"id": "s", "cwd": "/w", "transcript_damaged": true}]`,
		"GET /sessions/s": `{"id": "s", "cwd": "/w", ` +
			`"transcript_damaged": true, "model": "m-1"}`,
		"GET /pages/p/variables/staged": `{"items": [{"key": "k", "op": "set", "status": "rejected", ` +
			`"decision_reason": "a person said no"}]}`,
		"GET /events?type=connection": "event: dropped\ndata: {\"dropped\": 7, \"time\": \"" + at + "\"}\n\n",
		"GET /sessions/s/messages?limit=100&offset=0": `[7, {"role": "user", "content": {"a": 1}}, ` +
			`{"role": "assistant", "content": [{"type": "tool_use", "name": "LS"}]}]`,
	})
	for _, tt := range []struct {
		args string
		exit int
		out  string // of stdout
		errs string // of stderr
	}{
		{"allow --remove /w", 0, "/w is taken back; 2 calls there were ended\n", ""},
		{"jobs output j", 0, "one\ntwo\n", "job j: exited (3)"},
		{"jobs output w", 0, "", "note: what the job prints is withheld until its result is released"},
		{"jobs input j -", 0, "", ""},
		{"jobs input k -", 1, "", "nothing is prepared for POST /jobs/k/input"},
		{"check path --jsonl", 0, `"invalid`, ""},
		{"jobs input j", 2, "", "there is nothing to send: give a TEXT, or --end"},
		{"jobs forward j http", 2, "", `PORT "http" is no number`},
		{"cron delete cron_1", 0, "", ""},
		{"cron delete cron_2", 1, "", "nothing is prepared for DELETE /sessions/s/cron/cron_2"},
		{"mcp try git log", 1, "", "server git is failed: no program"},
		{"mcp try hg log", 1, "", `session s has no MCP server "hg"`},
		{"mcp try git log --session x", 1, "", "nothing is prepared for GET /sessions/x/mcp"},
		{"mcp servers --session x", 1, "", "nothing is prepared for GET /sessions/x/mcp"},
		{"mcp pins", 1, "", "nothing is prepared for GET /mcp/pins"},
		{"mcp config codex --file a --project", 2, "", "--file goes without --project"},
		{"web", 1, "", "nothing is prepared for POST /web/links"},
		{"share x", 1, "", "nothing is prepared for POST /sessions/x/shares"},
		{"share list", 1, "", "nothing is prepared for GET /shares"},
		{"share s --password-file /dev/null", 1, "", "the first line of /dev/null is empty\nsandboxd: hint: without"},
		{"skills end --session none", 0, "no skill runs\n", ""},
		{"skills end --session two", 0, "k has ended; skills that run: 2\n", ""},
		{"skills list --session s", 0, "every                   all    \nno                      none   ", ""},
		{"hooks test stop", 0, "h  1ms  said nothing\noutcome: ask a person: why; tell the model: be careful\n", ""},
		{"network tail", 1, "7 events were lost\n", "the daemon ended the stream of events (stream_ended)"},
		{"network explain example.com:0", 2, "", `"example.com:0": the port is a number from 1 to 65535`},
		{"undo --last 0", 2, "", "name a call, --last N with N of at least 1, or --session"},
		{"undo call_1 --last 2", 2, "", "name a call"},
		{"undo call_1 --session s", 2, "", "name a call"},
		{"undo --last 2 --session s", 2, "", "name a call"},
		{"undo call_1 a", 1, "left     /a: it changed\n", ""},
		{"vars origins --session s", 0, "person\nweb from a.example, b.example\n", ""},
		{"scopes staged p", 0, "rejected  a person said no", ""},
		{"sessions list", 0, "damaged", ""},
		{
			"sessions show s", 0, "s in /w, messages that cannot be read, changed 0001-01-01 00:00:00, m-1\n" +
				"a message that cannot be read: json: cannot unmarshal number into Go value",
			"",
		},
		{"sessions show s", 0, "\nuser\n  {\"a\": 1}\n\nassistant\n  -> LS \n", ""},
		{"policy rules", 0, "developer.", "note: which configuration the daemon uses is not known: nothing is"},
		{"exec --call call_1 -- ls", 2, "", "only --report may be given with it, and no command"},
		{"exec --call call_1 --mode auto", 2, "", "only --report may be given with it"},
		{"docs openapi", 0, `"openapi": "3.1`, ""},
		{"docs tools", 0, "### Read\n", ""},
		{"__complete tools show ", 0, "WebFetch\n", "ShellCompDirectiveNoFileComp"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			typed(t, "typed\nwithout an end")
			var out, errs bytes.Buffer
			exit := run(t.Context(), strings.Split(tt.args, " "), &out, &errs)
			if exit != tt.exit || !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.errs) {
				t.Errorf("exit %d, want %d, %q and %q in\n%s\n%s", exit, tt.exit, tt.out, tt.errs, out.String(),
					errs.String())
			}
		})
	}
}
