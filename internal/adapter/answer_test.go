package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// decider answers /decide with fixed verdicts and notes what was asked.
type decider struct {
	verdict  tool.Verdict
	args     string // rewritten
	err      error
	sessions map[string]bool
	asked    []map[string]any
	leased   string // the session for which testCall is leased
	said     string // of the hooks, to an event
}

func (d *decider) Do(_ context.Context, method, path string, in, out any) error {
	if path == "/calls/"+testCall {
		b, err := json.Marshal(map[string]any{"session_id": d.leased, "held": d.leased != ""})
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
			return &client.Error{Code: "session_not_found", Msg: "no session"}
		}
		d.asked = append(d.asked, body)
		answer := map[string]any{
			"call_id":  testCall,
			"decision": tool.Decision{Verdict: d.verdict, Reasons: []tool.Reason{{Rule: "r", Message: "because"}}},
		}
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
				return &client.Error{Code: "session_not_found", Msg: "no session"}
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
	err := Answer(t.Context(), d, strings.NewReader(in), &out, Options{Agent: agent, Exe: testExe})
	return strings.TrimSpace(out.String()), err
}

const (
	claudeBash = `{"session_id":"abc","transcript_path":"/t","cwd":"/src","permission_mode":"default",
		"hook_event_name":"PreToolUse","tool_name":"Bash",
		"tool_input":{"command":"echo 'hi'","description":"say hi"},"tool_use_id":"u1"}`
	claudeEdit = `{"session_id":"abc","transcript_path":"/t","cwd":"/src",
		"hook_event_name":"PreToolUse","tool_name":"Edit",
		"tool_input":{"file_path":"/src/a","old_string":"x","new_string":"y"},"tool_use_id":"u1"}`
	claudeMCP = `{"session_id":"abc","cwd":"/src",
		"hook_event_name":"PreToolUse","tool_name":"mcp__db__query","tool_input":{"q":"x"}}`
	claudePerm = `{"session_id":"abc","cwd":"/src","hook_event_name":"PermissionRequest","tool_name":"Bash",
		"tool_input":{"command":"'/opt/sand box/sandboxd' exec --call call_ABCDEF234567"}}`
	codexBash = `{"session_id":"abc","turn_id":"t","transcript_path":null,"cwd":"/src",
		"hook_event_name":"PreToolUse","model":"m","permission_mode":"default","tool_name":"Bash",
		"tool_input":{"command":"ls"},"tool_use_id":"u"}`
	codexWords = `{"session_id":"abc","cwd":"/src","hook_event_name":"PreToolUse","tool_name":"shell",
		"tool_input":{"command":["bash","-lc","echo 'x'"],"workdir":"sub"}}`
	geminiBash = `{"session_id":"abc","transcript_path":"/t","cwd":"/src",
		"hook_event_name":"BeforeTool","timestamp":"2026-01-01T00:00:00Z","tool_name":"run_shell_command",
		"tool_input":{"command":"ls","dir_path":"/src/sub"}}`
	geminiEdit = `{"session_id":"abc","cwd":"/src","hook_event_name":"BeforeTool","tool_name":"replace",
		"tool_input":{"file_path":"/src/a","instruction":"i","old_string":"x","new_string":"y","allow_multiple":true}}`
)

// The answers of the decider as a model reads them.
const (
	allowed = "sandboxd allowed this call: because (r)."
	denied  = "sandboxd denied this call: because (r). What to do: go on without this call, or ask your person for another way."
	asked   = "sandboxd asks a person before this call: because (r)."
)

// preToolUse is an answer to Claude Code or clients.Codex, with rewritten input if there is any.
func preToolUse(decision, reason string, input ...string) string {
	updated := ""
	if len(input) > 0 {
		updated = `,"updatedInput":` + input[0]
	}
	return `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"` + decision +
		`","permissionDecisionReason":"` + reason + `"` + updated + `}}`
}

func TestHookAnswersInTheContractOfEachAgent(t *testing.T) {
	caged := `'/opt/sand box/sandboxd' exec --call call_ABCDEF234567`
	gone := `{"hookSpecificOutput":{"decision":{"behavior":"deny","message":` +
		`"sandboxd denied this call: call call_ABCDEF234567 cannot be run: it was run already, is older than ten ` +
		`minutes, or was judged for another session. What to do: send the command itself."},"hookEventName":"PermissionRequest"}}`
	for _, tt := range []struct {
		name, agent, in string
		d               decider
		want            string
	}{
		{
			"claude allows in the cage", clients.ClaudeCode, claudeBash,
			decider{verdict: tool.Allow},
			preToolUse("allow", allowed, `{"command":"`+caged+`","description":"say hi"}`),
		},
		{
			"a command in the background goes into the cage too", clients.ClaudeCode,
			strings.Replace(claudeBash, `"description":`, `"run_in_background":true,"description":`, 1),
			decider{verdict: tool.Allow},
			preToolUse("allow", allowed, `{"command":"`+caged+`","description":"say hi","run_in_background":true}`),
		},
		{
			"claude denies", clients.ClaudeCode, claudeBash,
			decider{verdict: tool.Deny},
			preToolUse("deny", denied),
		},
		{
			"claude asks its person", clients.ClaudeCode, claudeEdit,
			decider{verdict: tool.Ask},
			preToolUse("ask", asked),
		},
		{
			"claude gets a rewrite", clients.ClaudeCode, claudeEdit,
			decider{verdict: tool.Allow, args: `{"new_string":"z"}`},
			preToolUse("allow", allowed, `{"file_path":"/src/a","new_string":"z","old_string":"x"}`),
		},
		{
			"the same arguments in other words are no rewrite", clients.ClaudeCode, claudeEdit,
			decider{verdict: tool.Allow, args: `{ "old_string":"\u0078", "new_string":"y", "file_path":"/src/a" }`},
			preToolUse("allow", allowed),
		},
		{
			"a tool of a server is judged by its name", clients.ClaudeCode, claudeMCP,
			decider{verdict: tool.Ask},
			preToolUse("ask", asked),
		},
		{
			"a judged command is permitted", clients.ClaudeCode, claudePerm,
			decider{leased: sessionOf(clients.ClaudeCode, "abc")},
			`{"hookSpecificOutput":{"decision":{"behavior":"allow"},"hookEventName":"PermissionRequest"}}`,
		},
		{
			"a judged command stays as it is", clients.ClaudeCode,
			strings.Replace(claudePerm, "PermissionRequest", "PreToolUse", 1),
			decider{leased: sessionOf(clients.ClaudeCode, "abc")},
			preToolUse("allow", `sandboxd allowed this call: judged as call_ABCDEF234567.`),
		},
		{
			"one that was run already is denied", clients.ClaudeCode, claudePerm,
			decider{},
			gone,
		},
		{
			"one of another session is denied", clients.ClaudeCode, claudePerm,
			decider{leased: sessionOf(clients.ClaudeCode, "abd")},
			gone,
		},
		{
			"a permission that needs a person is left to the agent", clients.ClaudeCode,
			strings.Replace(claudeBash, "PreToolUse", "PermissionRequest", 1),
			decider{verdict: tool.Ask},
			``,
		},
		{
			"codex cannot be given other arguments", clients.Codex, codexBash,
			decider{verdict: tool.Allow, args: `{"command":"ls -l"}`},
			preToolUse("deny", `sandboxd denied this call: a rule allows it only with other arguments. `+
				`What to do: send it again with these arguments: {\"command\":\"ls -l\"}.`),
		},
		{
			"codex denies", clients.Codex, codexBash,
			decider{verdict: tool.Deny},
			preToolUse("deny", denied),
		},
		{"codex keeps its own sandbox", clients.Codex, codexBash, decider{verdict: tool.Allow}, ``},
		{
			"codex cannot ask", clients.Codex, codexBash,
			decider{verdict: tool.Ask},
			preToolUse("deny", `sandboxd denied this call: a person must allow it, and Codex cannot ask from a hook: `+
				`because (r). What to do: ask your person to run it, or to allow it with a rule of sandboxd.`),
		},
		{
			"codex permissions are never granted", clients.Codex,
			strings.Replace(codexBash, "PreToolUse", "PermissionRequest", 1),
			decider{verdict: tool.Allow},
			``,
		},
		{
			"gemini allows in the cage", clients.Gemini, geminiBash,
			decider{verdict: tool.Allow},
			`{"decision":"allow","hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":` +
				`{"command":"` + caged + `","dir_path":"/src/sub"}},"reason":"` + allowed + `"}`,
		},
		{
			"gemini gets a rewrite, in its words", clients.Gemini, geminiEdit,
			decider{verdict: tool.Allow, args: `{"new_string":"z","replace_all":false}`},
			`{"decision":"allow","hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":` +
				`{"allow_multiple":false,"file_path":"/src/a","instruction":"i","new_string":"z","old_string":"x"}},` +
				`"reason":"` + allowed + `"}`,
		},
		{
			"gemini denies", clients.Gemini, geminiEdit,
			decider{verdict: tool.Deny},
			`{"decision":"deny","reason":"` + denied + `"}`,
		},
		{
			"gemini asks", clients.Gemini, geminiEdit,
			decider{verdict: tool.Ask},
			`{"decision":"ask","reason":"` + asked + `"}`,
		},
		{ // to run it is no lease, and it has been judged for a tool of another name
			"a tool of the agent that is called Bash is judged by its name", clients.Gemini,
			strings.ReplaceAll(claudePerm, "PermissionRequest", "BeforeTool"),
			decider{verdict: tool.Deny, leased: sessionOf(clients.Gemini, "abc")},
			`{"decision":"deny","reason":"` + denied + `"}`,
		},
		{"another event is nothing", clients.ClaudeCode, `{"hook_event_name":"Stop","cwd":"/"}`, decider{}, ``},
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
		{clients.ClaudeCode, claudeBash, "Bash", "/src", `{"command":"echo 'hi'"}`},
		{clients.Codex, codexWords, "Bash", "/src/sub", `{"command":"'bash' '-lc' 'echo '\\''x'\\'''"}`},
		{clients.Gemini, geminiBash, "Bash", "/src/sub", `{"command":"ls"}`},
		{
			clients.Gemini, geminiEdit, "Edit", "/src",
			`{"file_path":"/src/a","new_string":"y","old_string":"x","replace_all":true}`,
		},
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
	for _, agent := range []string{clients.ClaudeCode, clients.Codex, clients.Gemini} {
		in := map[string]string{clients.ClaudeCode: claudeBash, clients.Codex: codexBash, clients.Gemini: geminiBash}[agent]
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
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"/","tool_input":{"command":"` + "\xff" + `"}}`,
		strings.Replace(claudeBash, "PreToolUse", "pretooluse", 1),
		strings.Replace(claudeBash, "PreToolUse", "BeforeEveryTool", 1),
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"/","tool_input":{"command":"\ud800"}}`,
		`{"hook_event_name":"PreToolUse","tool_name":["Bash"],"cwd":"/","tool_input":{"command":"ls"}}`,
		`{"hook_event_name":"OfTomorrow","Tool_Name":"Bash","cwd":"/","tool_input":{"command":"ls"}}`,
	} {
		if got, err := runHook(t, &decider{verdict: tool.Allow}, clients.ClaudeCode, in); err == nil || got != "" {
			t.Errorf("%.80q: got %q, %v, want an error", in, got, err)
		}
	}
	large := strings.Repeat(" ", maxInput) + claudeBash
	got, err := runHook(t, &decider{verdict: tool.Allow}, clients.ClaudeCode, large)
	if got != "" || err == nil || !strings.Contains(err.Error(), "the hook call is larger than 33554432 bytes") {
		t.Errorf("a large one: got %q, %v", got, err)
	}
	why, _ := firstReason(tool.Decision{Verdict: tool.Deny})
	if why != "the rules of sandboxd: deny" {
		t.Errorf("a denial without a reason says %q", why)
	}
}

// A field is what its name says in exactly this spelling, as for the agent that wrote it:
// encoding/json takes the last of two that differ in case.
func TestHookReadsFieldsByTheirExactNames(t *testing.T) {
	const harmless, call = `{"command":"ls"}`, `"session_id":"a","cwd":"/src","hook_event_name":"PreToolUse"`
	for _, in := range []string{
		`{` + call + `,"tool_name":"Bash","tool_input":{"command":"rm -rf /"},"Tool_Input":` + harmless + `}`,
		`{` + call + `,"tool_name":"Bash","Tool_Input":` + harmless + `,"tool_input":{"command":"rm -rf /"}}`,
		`{` + call + `,"tool_name":"Bash","TOOL_INPUT":` + harmless + `}`,
		`{` + call + `,"tool_name":"Write","tool_Name":"Read","tool_input":{"file_path":"/src/.git/hooks/x","content":"x"}}`,
		`{` + call + `,"CWD":"/etc","tool_name":"Bash","tool_input":` + harmless + `}`,
		`{` + call + `,"ſession_id":"b","tool_name":"Bash","tool_input":` + harmless + `}`,
		`{` + call + `,"Hook_Event_Name":"SessionStart","tool_name":"Bash","tool_input":` + harmless + `}`,
	} {
		d := &decider{verdict: tool.Allow, sessions: map[string]bool{}}
		if got, err := runHook(t, d, clients.ClaudeCode, in); err == nil || got != "" || len(d.asked) > 0 {
			t.Errorf("%s: got %q, %v, and asked %v", in, got, err, d.asked)
		}
	}
	// Fields of a later version are passed over, and so is the case of what a file holds.
	in := `{` + call + `,"tool_name":"Write","tool_input":{"file_path":"/src/x","content":"{\"A\":1,\"a\":2}"},"effort":{"X":1,"x":2}}`
	d := &decider{verdict: tool.Allow, sessions: map[string]bool{}}
	if got, err := runHook(t, d, clients.ClaudeCode, in); err != nil || !strings.Contains(got, `"allow"`) {
		t.Errorf("%s: got %q, %v", in, got, err)
	}
}

func TestHookLetsEventsWithoutACallPass(t *testing.T) {
	in := `{"session_id":"a","cwd":"/src","hook_event_name":"OfTomorrow","prompt":"hi"}`
	if got, err := runHook(t, &decider{verdict: tool.Deny}, clients.ClaudeCode, in); err != nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestHookAsksAboutWhatItDoesNotUnderstand(t *testing.T) {
	for _, input := range []string{
		`{"command":"ls","dangerouslyDisableSandbox":true}`,
		`{"command":"ls","run_as":"root"}`,
		`{"command":[1,2]}`,
	} {
		in := `{"session_id":"a","cwd":"/src","hook_event_name":"PreToolUse","tool_name":"Bash",
			"tool_input":` + input + `}`
		got, err := runHook(t, &decider{verdict: tool.Allow}, clients.ClaudeCode, in)
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
		cage(testExe, testCall) + "; rm -rf /", cage(testExe, testCall) + "\n", cage("/tmp/sandboxd", testCall),
		"x=1 " + cage(testExe, testCall),
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

// FuzzHook: whatever an agent sends, a daemon that denies is never turned into a yes, and
// into silence only where the table lets the tool pass.
func FuzzHook(f *testing.F) {
	for _, in := range []string{
		claudeBash, claudeEdit, claudeMCP, claudePerm, codexBash, codexWords, geminiBash, geminiEdit,
		call(clients.ClaudeCode, "TaskUpdate", `{"taskId":"1","addBlocks":["2"]}`),
		call(clients.Codex, "apply_patch", `{"command":"*** Begin Patch\n*** Add File: x\n+y\n*** End Patch"}`),
		call(clients.Gemini, "tracker_get_task", `{"id":"abc"}`),
	} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, c := range clients.All() {
			got, err := runHook(t, &decider{verdict: tool.Deny}, c.Name, in)
			if err != nil {
				continue
			}
			i, err := readEvent([]byte(in))
			if err != nil {
				t.Fatalf("%q was answered with %q, but cannot be read: %v", in, got, err)
			}
			calls, err := translate(c, i)
			passes := err == nil && len(calls) == 0
			switch {
			case strings.Contains(got, `"permissionDecision":"deny"`), strings.Contains(got, `"permissionDecision":"ask"`):
			case strings.Contains(got, `"decision":"deny"`), strings.Contains(got, `"decision":"ask"`):
			case i.Event == "PermissionRequest" && (got == "" || strings.Contains(got, `"behavior":"deny"`)):
			case got == "" && (i.Tool == "" || i.ended() || passes):
			default:
				t.Errorf("%s: %q was answered with %q", c.Name, in, got)
			}
		}
	})
}

// What an agent has done itself is told to the hooks, and what they say reaches its
// model. A command that ran through the daemon is not told twice.
func TestHookTellsOfWhatTheAgentDid(t *testing.T) {
	const read = `{"session_id":"abc","cwd":"/src","hook_event_name":"PostToolUse","tool_name":"Read",
		"tool_input":{"file_path":"/src/a"},"tool_response":{"content":"x"},"tool_use_id":"u1"}`
	for _, tt := range []struct {
		name, agent, in, said, want string
		told                        map[string]any
	}{
		{
			"nothing to say", clients.ClaudeCode, read, `{}`, "",
			map[string]any{"toolName": "Read", "toolOutput": `{"content":"x"}`, "toolUseId": "u1"},
		},
		{
			"a block", clients.ClaudeCode, read, `{"block":true,"reason":"a secret"}`,
			`{"decision":"block","reason":"sandboxd: a secret"}`,
			map[string]any{"toolName": "Read"},
		},
		{
			"words for the model", clients.ClaudeCode, read, `{"system_messages":["a","b"]}`,
			`{"hookSpecificOutput":{"additionalContext":"a\nb","hookEventName":"PostToolUse"}}`,
			map[string]any{"toolName": "Read"},
		},
		{
			"a failure", clients.ClaudeCode,
			`{"session_id":"abc","cwd":"/src","hook_event_name":"PostToolUseFailure","tool_name":"mcp__x__y",
				"tool_input":{},"error":"no"}`,
			`{}`, "",
			map[string]any{"toolName": "mcp__x__y", "error": "no"},
		},
		{
			"gemini", clients.Gemini,
			`{"session_id":"abc","cwd":"/src","hook_event_name":"AfterTool","tool_name":"read_file",
				"tool_input":{"file_path":"/src/a"},"tool_response":"text"}`,
			`{"block":true,"reason":"r"}`, `{"decision":"block","reason":"sandboxd: r"}`,
			map[string]any{"toolName": "Read", "toolOutput": "text"},
		},
		{
			"a command of the daemon", clients.ClaudeCode,
			strings.NewReplacer("PermissionRequest", "PostToolUse").Replace(claudePerm), `{"block":true}`, "", nil,
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
