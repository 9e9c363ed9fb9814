package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tool"
)

// decider answers /decide with fixed verdicts and notes what was asked.
type decider struct {
	verdict  tool.Verdict
	args     string // rewritten
	err      error
	sessions map[string]bool
	asked    []map[string]any
	held     string // the session for which testCall is held
	said     string // of the hooks, to an event
}

func (d *decider) Do(_ context.Context, method, path string, in, out any) error {
	if path == "/calls/"+testCall {
		b, err := json.Marshal(map[string]any{"session_id": d.held, "held": d.held != ""})
		if err != nil {
			return err
		}
		return json.Unmarshal(b, out)
	}
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	var body map[string]any
	if err := json.Unmarshal(b, &body); err != nil {
		return err
	}
	switch method + " " + path {
	case "POST /sessions":
		d.sessions[body["id"].(string)] = true
		return nil
	case "POST /decide":
		if d.err != nil {
			return d.err
		}
		if !d.sessions[body["session_id"].(string)] {
			return &tool.Error{Code: "session_not_found", Msg: "no session"}
		}
		d.asked = append(d.asked, body)
		answer := map[string]any{"call_id": testCall, "decision": tool.Decision{Verdict: d.verdict, Reasons: []tool.Reason{{Rule: "r", Message: "because"}}}}
		if d.args != "" {
			answer["updated_args"] = json.RawMessage(d.args)
		}
		b, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return json.Unmarshal(b, out)
	}
	if rest, ok := strings.CutPrefix(path, "/sessions/"); ok && method == "POST" {
		if id, ok := strings.CutSuffix(rest, "/hook-events"); ok {
			if !d.sessions[id] {
				return &tool.Error{Code: "session_not_found", Msg: "no session"}
			}
			d.asked = append(d.asked, body)
			return json.Unmarshal([]byte(d.said), out)
		}
	}
	return errors.New("unexpected " + method + " " + path)
}

const (
	testExe  = "/opt/sand box/sandboxd"
	testCall = "call_ABCDEF234567"
)

func runHook(t *testing.T, d *decider, agent, in string) (string, error) {
	t.Helper()
	if d.sessions == nil {
		d.sessions = map[string]bool{}
	}
	var out bytes.Buffer
	err := hook{api: d, agent: agent, exe: testExe}.run(t.Context(), strings.NewReader(in), &out)
	return strings.TrimSpace(out.String()), err
}

const (
	claudeBash = `{"session_id":"abc","transcript_path":"/t","cwd":"/src","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo 'hi'","description":"say hi"},"tool_use_id":"u1"}`
	claudeEdit = `{"session_id":"abc","transcript_path":"/t","cwd":"/src","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"/src/a","old_string":"x","new_string":"y"},"tool_use_id":"u1"}`
	claudeMCP  = `{"session_id":"abc","cwd":"/src","hook_event_name":"PreToolUse","tool_name":"mcp__db__query","tool_input":{"q":"x"}}`
	claudePerm = `{"session_id":"abc","cwd":"/src","hook_event_name":"PermissionRequest","tool_name":"Bash","tool_input":{"command":"'/opt/sand box/sandboxd' exec --call call_ABCDEF234567"}}`
	codexBash  = `{"session_id":"abc","turn_id":"t","transcript_path":null,"cwd":"/src","hook_event_name":"PreToolUse","model":"m","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"u"}`
	codexWords = `{"session_id":"abc","cwd":"/src","hook_event_name":"PreToolUse","tool_name":"shell","tool_input":{"command":["bash","-lc","echo 'x'"],"workdir":"sub"}}`
	geminiBash = `{"session_id":"abc","transcript_path":"/t","cwd":"/src","hook_event_name":"BeforeTool","timestamp":"2026-01-01T00:00:00Z","tool_name":"run_shell_command","tool_input":{"command":"ls","dir_path":"/src/sub"}}`
	geminiEdit = `{"session_id":"abc","cwd":"/src","hook_event_name":"BeforeTool","tool_name":"replace","tool_input":{"file_path":"/src/a","instruction":"i","old_string":"x","new_string":"y","allow_multiple":true}}`
)

func TestHookAnswersInTheContractOfEachAgent(t *testing.T) {
	caged := `'/opt/sand box/sandboxd' exec --call call_ABCDEF234567`
	for _, tt := range []struct {
		name, agent, in string
		d               decider
		want            string
	}{
		{
			"claude allows in the cage", agentClaude, claudeBash,
			decider{verdict: tool.Allow},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"sandboxd: because (r)","updatedInput":{"command":"` + caged + `","description":"say hi"}}}`,
		},
		{
			"claude denies", agentClaude, claudeBash,
			decider{verdict: tool.Deny},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"sandboxd: because (r)"}}`,
		},
		{
			"claude asks its person", agentClaude, claudeEdit,
			decider{verdict: tool.Ask},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"sandboxd: because (r)"}}`,
		},
		{
			"claude gets a rewrite", agentClaude, claudeEdit,
			decider{verdict: tool.Allow, args: `{"new_string":"z"}`},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"sandboxd: because (r)","updatedInput":{"file_path":"/src/a","new_string":"z","old_string":"x"}}}`,
		},
		{
			"the same arguments in other words are no rewrite", agentClaude, claudeEdit,
			decider{verdict: tool.Allow, args: `{ "old_string":"\u0078", "new_string":"y", "file_path":"/src/a" }`},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"sandboxd: because (r)"}}`,
		},
		{
			"a tool that nobody knows is asked about", agentClaude, claudeMCP,
			decider{verdict: tool.Allow},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"sandboxd: the tool mcp__db__query of claude-code is unknown here"}}`,
		},
		{
			"a judged command is permitted", agentClaude, claudePerm,
			decider{held: hookSession(agentClaude, "abc")},
			`{"hookSpecificOutput":{"decision":{"behavior":"allow"},"hookEventName":"PermissionRequest"}}`,
		},
		{
			"a judged command stays as it is", agentClaude, strings.Replace(claudePerm, "PermissionRequest", "PreToolUse", 1),
			decider{held: hookSession(agentClaude, "abc")},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"sandboxd: judged as call_ABCDEF234567"}}`,
		},
		{
			"one that was run already is denied", agentClaude, claudePerm,
			decider{},
			`{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"sandboxd: call call_ABCDEF234567 cannot be run: it was run already, is older than ten minutes, or was judged for another session; send the command itself"},"hookEventName":"PermissionRequest"}}`,
		},
		{
			"one of another session is denied", agentClaude, claudePerm,
			decider{held: hookSession(agentClaude, "abd")},
			`{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"sandboxd: call call_ABCDEF234567 cannot be run: it was run already, is older than ten minutes, or was judged for another session; send the command itself"},"hookEventName":"PermissionRequest"}}`,
		},
		{
			"a permission that needs a person is left to the agent", agentClaude, strings.Replace(claudeBash, "PreToolUse", "PermissionRequest", 1),
			decider{verdict: tool.Ask},
			``,
		},
		{
			"codex cannot be given other arguments", agentCodex, codexBash,
			decider{verdict: tool.Allow, args: `{"command":"ls -l"}`},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"sandboxd: a policy allows this only with other arguments: {\"command\":\"ls -l\"}"}}`,
		},
		{
			"codex denies", agentCodex, codexBash,
			decider{verdict: tool.Deny},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"sandboxd: because (r)"}}`,
		},
		{"codex keeps its own sandbox", agentCodex, codexBash, decider{verdict: tool.Allow}, ``},
		{
			"codex cannot ask", agentCodex, codexBash,
			decider{verdict: tool.Ask},
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"sandboxd: a person must allow this, and Codex cannot ask from a hook: because (r)"}}`,
		},
		{"codex permissions are never granted", agentCodex, strings.Replace(codexBash, "PreToolUse", "PermissionRequest", 1), decider{verdict: tool.Allow}, ``},
		{
			"gemini allows in the cage", agentGemini, geminiBash,
			decider{verdict: tool.Allow},
			`{"decision":"allow","hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"command":"` + caged + `","dir_path":"/src/sub"}},"reason":"sandboxd: because (r)"}`,
		},
		{"gemini denies", agentGemini, geminiEdit, decider{verdict: tool.Deny}, `{"decision":"deny","reason":"sandboxd: because (r)"}`},
		{"gemini asks", agentGemini, geminiEdit, decider{verdict: tool.Ask}, `{"decision":"ask","reason":"sandboxd: because (r)"}`},
		{"another event is nothing", agentClaude, `{"hook_event_name":"Stop","cwd":"/"}`, decider{}, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := runHook(t, &tt.d, tt.agent, tt.in)
			if err != nil || got != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestHookTranslatesCalls(t *testing.T) {
	for _, tt := range []struct{ agent, in, tool, dir, args string }{
		{agentClaude, claudeBash, "Bash", "/src", `{"command":"echo 'hi'"}`},
		{agentCodex, codexWords, "Bash", "/src/sub", `{"command":"'bash' '-lc' 'echo '\\''x'\\'''"}`},
		{agentGemini, geminiBash, "Bash", "/src/sub", `{"command":"ls"}`},
		{agentGemini, geminiEdit, "Edit", "/src", `{"file_path":"/src/a","new_string":"y","old_string":"x","replace_all":true}`},
	} {
		d := &decider{verdict: tool.Deny}
		if _, err := runHook(t, d, tt.agent, tt.in); err != nil || len(d.asked) != 1 {
			t.Fatalf("%s: asked %d times, %v", tt.in, len(d.asked), err)
		}
		got := d.asked[0]
		args, err := json.Marshal(got["args"])
		if err != nil {
			t.Fatal(err)
		}
		if got["tool"] != tt.tool || got["cwd"] != tt.dir || string(args) != tt.args {
			t.Errorf("got %v %v %s, want %s %s %s", got["tool"], got["cwd"], args, tt.tool, tt.dir, tt.args)
		}
	}
}

func TestHookNeverAllowsByFailure(t *testing.T) {
	away := decider{err: errors.New("connection refused")}
	for _, agent := range []string{agentClaude, agentCodex, agentGemini} {
		in := map[string]string{agentClaude: claudeBash, agentCodex: codexBash, agentGemini: geminiBash}[agent]
		got, err := runHook(t, &away, agent, in)
		if err != nil || !strings.Contains(got, `deny`) || !strings.Contains(got, "connection refused") {
			t.Errorf("%s with the daemon away: got %s, %v", agent, got, err)
		}
	}
	for _, in := range []string{
		``, `garbage`, `{}`, `[]`, `null`, claudeBash + `x`, claudeBash[:40],
		`{"hook_event_name":"PreToolUse"}`,
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"relative","tool_input":{}}`,
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"/","tool_input":{"command":"ls","command":"rm"}}`,
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"/","tool_input":"ls"}`,
		"{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Bash\",\"cwd\":\"/\",\"tool_input\":{\"command\":\"\xff\"}}",
		strings.Replace(claudeBash, "PreToolUse", "pretooluse", 1),
		strings.Replace(claudeBash, "PreToolUse", "BeforeEveryTool", 1),
	} {
		if got, err := runHook(t, &decider{verdict: tool.Allow}, agentClaude, in); err == nil || got != "" {
			t.Errorf("%.80q: got %q, %v, want an error", in, got, err)
		}
	}
}

func TestHookLetsEventsWithoutACallPass(t *testing.T) {
	in := `{"session_id":"a","cwd":"/src","hook_event_name":"OfTomorrow","prompt":"hi"}`
	if got, err := runHook(t, &decider{verdict: tool.Deny}, agentClaude, in); err != nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestHookAsksAboutWhatItDoesNotUnderstand(t *testing.T) {
	for _, input := range []string{
		`{"command":"ls","dangerouslyDisableSandbox":true}`,
		`{"command":"ls","run_as":"root"}`,
		`{"command":[1,2]}`,
	} {
		in := `{"session_id":"a","cwd":"/src","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":` + input + `}`
		got, err := runHook(t, &decider{verdict: tool.Allow}, agentClaude, in)
		if err != nil || !strings.Contains(got, `"permissionDecision":"ask"`) || strings.Contains(got, "updatedInput") {
			t.Errorf("%s: got %s, %v, want an ask", input, got, err)
		}
	}
}

func TestCageNamesOneCallAndNothingElse(t *testing.T) {
	if id, ok := uncage(testExe, cage(testExe, testCall)); !ok || id != testCall {
		t.Errorf("got %q, %v", id, ok)
	}
	for _, line := range []string{
		cage(testExe, testCall) + "; rm -rf /", cage(testExe, testCall) + "\n", cage("/tmp/sandboxd", testCall), "x=1 " + cage(testExe, testCall),
		cage(testExe, "call_$(id)"), cage(testExe, ""), cage(testExe, "call_"), cage(testExe, "../sessions"), "ls", "",
	} {
		if got, ok := uncage(testExe, line); ok {
			t.Errorf("%q counts as caged: %q", line, got)
		}
	}
}

func FuzzUncage(f *testing.F) {
	f.Add(cage(testExe, testCall))
	f.Add(cage(testExe, testCall) + "; x")
	f.Fuzz(func(t *testing.T, line string) {
		if command, ok := uncage(testExe, line); ok && cage(testExe, command) != line {
			t.Errorf("%q is not the cage of %q", line, command)
		}
	})
}

func TestHookInstall(t *testing.T) {
	for agent := range hookTargets {
		t.Run(agent, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "sub", "settings.json")
			old := `{"model":"x","hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"mine"}]}]}}`
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(old), 0o640); err != nil {
				t.Fatal(err)
			}
			question := time.Minute
			install := func(write bool) string {
				var out bytes.Buffer
				if err := installHook(&out, agent, testExe, file, question, write); err != nil {
					t.Fatal(err)
				}
				return out.String()
			}
			read := func() string {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			if out := install(false); read() != old || !strings.Contains(out, "hook --agent "+agent) {
				t.Errorf("showing changed the file, or did not show: %s", out)
			}
			install(true)
			got := read()
			if !strings.Contains(got, `"mine"`) || !strings.Contains(got, `"model": "x"`) || !strings.Contains(got, "hook --agent "+agent) {
				t.Errorf("got %s", got)
			}
			if out := install(true); read() != got || !strings.Contains(out, "already") {
				t.Errorf("the second time changed the file: %s", out)
			}
			backups, err := filepath.Glob(file + ".*.bak")
			if err != nil || len(backups) != 1 {
				t.Fatalf("got backups %v, %v, want one", backups, err)
			}
			if b, err := os.ReadFile(backups[0]); err != nil || string(b) != old {
				t.Errorf("got backup %q, %v", b, err)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("got mode %v, %v, want 0640", info.Mode(), err)
			}
		})
	}
}

func TestHookInstallRefusesWhatItCannotRead(t *testing.T) {
	for _, old := range []string{`{`, `[]`, `{"hooks":1}`, `{"hooks":{"PreToolUse":{}}}`, `// comment`} {
		file := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		err := installHook(&bytes.Buffer{}, agentClaude, testExe, file, time.Minute, true)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "settings_invalid" {
			t.Errorf("%s: got %v, want settings_invalid", old, err)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != old {
			t.Errorf("%s: the file was changed to %q, %v", old, b, err)
		}
	}
	if err := installHook(&bytes.Buffer{}, "vim", testExe, "", time.Minute, true); err == nil {
		t.Error("an unknown agent was installed")
	}
}

// FuzzHook: whatever an agent sends, a daemon that denies is never turned into a
// yes or into silence.
func FuzzHook(f *testing.F) {
	for _, in := range []string{claudeBash, claudeEdit, claudeMCP, claudePerm, codexBash, codexWords, geminiBash, geminiEdit} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := runHook(t, &decider{verdict: tool.Deny}, agentClaude, in)
		if err != nil {
			return
		}
		var i hookInput
		if err := json.Unmarshal([]byte(in), &i); err != nil {
			t.Fatalf("%q was answered with %q, but cannot be read: %v", in, got, err)
		}
		switch {
		case strings.Contains(got, `"permissionDecision":"deny"`), strings.Contains(got, `"permissionDecision":"ask"`):
		case i.Event == "PermissionRequest" && (got == "" || strings.Contains(got, `"behavior":"deny"`)):
		case i.Tool == "" && got == "", i.ended() && got == "":
		default:
			t.Errorf("%q was answered with %q", in, got)
		}
	})
}

// What an agent has done itself is told to the hooks, and what they say reaches its
// model. A command that ran through the daemon is not told twice.
func TestHookTellsOfWhatTheAgentDid(t *testing.T) {
	const read = `{"session_id":"abc","cwd":"/src","hook_event_name":"PostToolUse","tool_name":"Read","tool_input":{"file_path":"/src/a"},"tool_response":{"content":"x"},"tool_use_id":"u1"}`
	for _, tt := range []struct {
		name, agent, in, said, want string
		told                        map[string]any
	}{
		{
			"nothing to say", agentClaude, read, `{}`, "",
			map[string]any{"toolName": "Read", "toolOutput": `{"content":"x"}`, "toolUseId": "u1"},
		},
		{
			"a block", agentClaude, read, `{"block":true,"reason":"a secret"}`,
			`{"decision":"block","reason":"sandboxd: a secret"}`,
			map[string]any{"toolName": "Read"},
		},
		{
			"words for the model", agentClaude, read, `{"system_messages":["a","b"]}`,
			`{"hookSpecificOutput":{"additionalContext":"a\nb","hookEventName":"PostToolUse"}}`,
			map[string]any{"toolName": "Read"},
		},
		{
			"a failure", agentClaude, `{"session_id":"abc","cwd":"/src","hook_event_name":"PostToolUseFailure","tool_name":"mcp__x__y","tool_input":{},"error":"no"}`,
			`{}`, "",
			map[string]any{"toolName": "mcp__x__y", "error": "no"},
		},
		{
			"gemini", agentGemini, `{"session_id":"abc","cwd":"/src","hook_event_name":"AfterTool","tool_name":"read_file","tool_input":{"file_path":"/src/a"},"tool_response":"text"}`,
			`{"block":true,"reason":"r"}`, `{"decision":"block","reason":"sandboxd: r"}`,
			map[string]any{"toolName": "Read", "toolOutput": "text"},
		},
		{
			"a command of the daemon", agentClaude, strings.NewReplacer("PermissionRequest", "PostToolUse").Replace(claudePerm), `{"block":true}`, "", nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &decider{said: tt.said}
			got, err := runHook(t, d, tt.agent, tt.in)
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if tt.told == nil {
				if len(d.asked) > 0 {
					t.Errorf("told %v, want nothing", d.asked)
				}
				return
			}
			if len(d.asked) != 1 {
				t.Fatalf("told %d times, want once", len(d.asked))
			}
			input := d.asked[0]["input"].(map[string]any)
			for k, want := range tt.told {
				if input[k] != want {
					t.Errorf("%s: told %v, want %v", k, input[k], want)
				}
			}
		})
	}
}
