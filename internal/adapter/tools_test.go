package adapter

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// call is a hook call of an agent before it runs a tool.
func call(agent, name, input string) string {
	event := "PreToolUse"
	if agent == clients.Gemini {
		event = "BeforeTool"
	}
	return fmt.Sprintf(`{"session_id":"a","cwd":"/src","hook_event_name":%q,"tool_name":%q,"tool_input":%s}`,
		event, name, input)
}

// Tools that touch nothing outside the agent pass in silence, also when the daemon is away.
func TestHarmlessToolsPass(t *testing.T) {
	for _, tt := range []struct{ agent, name, input string }{
		{clients.ClaudeCode, "TodoWrite", `{"todos":[{"content":"a","status":"pending","activeForm":"b"}]}`},
		{clients.ClaudeCode, "TaskCreate", `{"subject":"a","description":"b"}`},
		{clients.ClaudeCode, "TaskUpdate", `{"taskId":"1","status":"completed","addBlocks":["2","3"]}`},
		{clients.ClaudeCode, "TaskGet", `{"taskId":1}`},
		{clients.ClaudeCode, "AskUserQuestion", `{"questions":[]}`},
		{clients.ClaudeCode, "ExitPlanMode", `{}`},
		{clients.ClaudeCode, "Agent", `{"description":"a","prompt":"rm -rf /","subagent_type":"Explore"}`},
		{clients.ClaudeCode, "CronCreate", `{"cron":"* * * * *","prompt":"x","durable":false}`},
		{clients.ClaudeCode, "TaskStop", `{"task_id":"b1","shell_id":null}`},
		{clients.Codex, "update_plan", `{"plan":[]}`},
		{clients.Codex, "spawn_agent", `{"message":"x","agent_type":"worker"}`},
		{clients.Gemini, "write_todos", `{"todos":[],"wait_for_previous":true}`},
		{clients.Gemini, "complete_task", `{"whatever":"x"}`},
		{clients.Gemini, "tracker_get_task", `{"id":"abc123"}`},
		{clients.Gemini, "exit_plan_mode", `{"plan_filename":"plan.md"}`},
		{clients.Gemini, "invoke_agent", `{"agent_name":"generalist","prompt":"x"}`},
	} {
		d := &decider{verdict: tool.Deny, err: fmt.Errorf("the daemon is away")}
		got, err := runHook(t, d, tt.agent, call(tt.agent, tt.name, tt.input))
		if err != nil || got != "" || len(d.asked) > 0 {
			t.Errorf("%s %s %s: got %q, %v", tt.agent, tt.name, tt.input, got, err)
		}
	}
}

// What makes a harmless tool another one asks: a path for an id, a value or an argument that
// the table does not have. So does a new argument of a tool that is judged.
func TestHarmlessToolsAskAboutWhatIsNew(t *testing.T) {
	for _, tt := range []struct{ agent, name, input, want string }{
		{clients.ClaudeCode, "Agent", `{"prompt":"x","isolation":"worktree"}`, "the argument isolation of Agent needs a person"},
		{clients.ClaudeCode, "CronCreate", `{"cron":"*","prompt":"x","durable":true}`, "durable of CronCreate is not understood: want false"},
		{clients.ClaudeCode, "TaskGet", `{"taskId":"../../x"}`, "is no id"},
		{clients.ClaudeCode, "TaskGet", `{"taskId":".hidden"}`, "is no id"},
		{clients.ClaudeCode, "TaskUpdate", `{"taskId":"1","addBlocks":["a","/b"]}`, "is no id"},
		{clients.ClaudeCode, "TaskUpdate", `{"taskId":"1","addBlocks":[{"a":1}]}`, "want a list of ids"},
		{clients.ClaudeCode, "TodoWrite", `{"todos":[],"file":"x"}`, "the argument file of TodoWrite"},
		{clients.ClaudeCode, "Read", `{"file_path":"/src/a","follow":true}`, "the argument follow of Read"},
		{clients.ClaudeCode, "Monitor", `{"description":"x","ws":{"url":"wss://x"}}`, "the argument ws of Monitor"},
		{clients.Gemini, "tracker_update_task", `{"id":"../../settings"}`, "is no id"},
		{clients.Gemini, "exit_plan_mode", `{"plan_filename":"../x"}`, "is no id"},
		{clients.Gemini, "invoke_agent", `{"agent_name":"mine","prompt":"x"}`, "want codebase_investigator or cli_help"},
		{clients.Gemini, "run_shell_command", `{"command":"ls","additional_permissions":{}}`, "additional_permissions"},
		{clients.Gemini, "run_shell_command", `{"command":"ls","dir_path":7}`, "the directory is not text"},
		{clients.Codex, "spawn_agent", `{"items":[{"type":"local_image","path":"/x"}]}`, "the argument items of spawn_agent"},
		{clients.Codex, "apply_patch", `{"command":"nothing"}`, "the patch names no file"},
		{
			clients.Codex, "apply_patch", `{"command":"*** Begin Patch\n*** Add Fil: a\n+x\n*** Add File: b\n+x\n*** End Patch"}`,
			`the line \"*** Add Fil: a\" of the patch cannot be read`,
		},
		{clients.Codex, "apply_patch", `{"command":"*** Begin Patch\n*** Move to: x\n"}`, "moves a file that it does not name"},
		{
			clients.Codex, "Bash", `{"command":"apply_patch <<'E'\n*** Begin Patch\n*** Add File: x\n*** End Patch\nE"}`,
			"the command holds a patch",
		},
	} {
		d := &decider{verdict: tool.Allow}
		got, err := runHook(t, d, tt.agent, call(tt.agent, tt.name, tt.input))
		verdict := `"permissionDecision":"ask"`
		switch tt.agent {
		case clients.Codex: // which cannot ask
			verdict = `"permissionDecision":"deny"`
		case clients.Gemini:
			verdict = `"decision":"ask"`
		}
		if err != nil || !strings.Contains(got, verdict) || !strings.Contains(got, tt.want) || len(d.asked) > 0 {
			t.Errorf("%s %s %s: got %q, %v, want %s and %q", tt.agent, tt.name, tt.input, got, err, verdict, tt.want)
		}
	}
}

// How a call reaches the daemon: as which tool, and whether that is one of ours.
func TestCallsOfToolsThatAreNotOurs(t *testing.T) {
	type asked struct {
		Tool    string
		Outside bool
		Args    string
	}
	for _, tt := range []struct {
		agent, in string
		want      asked
	}{
		{
			clients.ClaudeCode, call(clients.ClaudeCode, "WebFetch", `{"url":"https://go.dev","prompt":"x","offset":3}`),
			asked{"WebFetch", true, `{"url":"https://go.dev"}`},
		},
		{
			clients.ClaudeCode, call(clients.ClaudeCode, "mcp__db__query", `{"q":"x"}`),
			asked{"mcp__db__query", true, `{"q":"x"}`},
		},
		{
			clients.ClaudeCode, call(clients.ClaudeCode, "Tomorrow", `{"q":"x"}`),
			asked{"Tomorrow", true, `{"q":"x"}`},
		},
		{
			clients.ClaudeCode, call(clients.ClaudeCode, "ReadMcpResourceTool", `{"server":"db","uri":"x://y"}`),
			asked{"mcp__db__ReadMcpResourceTool", true, `{"server":"db","uri":"x://y"}`},
		},
		{
			clients.ClaudeCode, call(clients.ClaudeCode, "ListMcpResourcesTool", `{}`),
			asked{"ListMcpResourcesTool", true, `{}`},
		},
		{ // a server that would be taken for another one
			clients.ClaudeCode, call(clients.ClaudeCode, "ReadMcpResourceTool", `{"server":"db__x","uri":"x://y"}`),
			asked{"ReadMcpResourceTool", true, `{"server":"db__x","uri":"x://y"}`},
		},
		{
			clients.ClaudeCode, call(clients.ClaudeCode, "Monitor", `{"command":"make","description":"x","timeout_ms":3}`),
			asked{"Bash", false, `{"command":"make"}`},
		},
		{
			clients.Gemini, call(clients.Gemini, "list_directory", `{"dir_path":"sub","ignore":["x"]}`),
			asked{"Read", false, `{"file_path":"sub"}`},
		},
		{
			clients.Gemini, call(clients.Gemini, "web_fetch", `{"prompt":"see https://go.dev"}`),
			asked{"WebFetch", true, `{"prompt":"see https://go.dev"}`},
		},
		{ // a name that only looks like one of a server
			clients.Gemini, call(clients.Gemini, "mcp_db_query", `{}`), asked{"mcp_db_query", true, `{}`},
		},
		{
			clients.Gemini,
			strings.Replace(call(clients.Gemini, "mcp_my_db_query", `{}`), `"cwd"`,
				`"mcp_context":{"server_name":"my_db","tool_name":"query","command":"x"},"cwd"`, 1),
			asked{"mcp__my_db__query", true, `{}`},
		},
		{
			clients.Gemini,
			strings.Replace(call(clients.Gemini, "mcp_a__b_query", `{}`), `"cwd"`,
				`"mcp_context":{"server_name":"a__b","tool_name":"query"},"cwd"`, 1),
			asked{"mcp_a__b_query", true, `{}`},
		},
		{
			clients.Codex, call(clients.Codex, "view_image", `{"path":"a.png"}`),
			asked{"Read", false, `{"file_path":"a.png"}`},
		},
		{
			clients.Codex, call(clients.Codex, "mcp__db__query", `{}`), asked{"mcp__db__query", true, `{}`},
		},
	} {
		d := &decider{verdict: tool.Deny}
		if _, err := runHook(t, d, tt.agent, tt.in); err != nil || len(d.asked) != 1 {
			t.Errorf("%s: asked %d times, %v", tt.in, len(d.asked), err)
			continue
		}
		args, err := json.Marshal(d.asked[0]["args"])
		if err != nil {
			t.Fatal(err)
		}
		got := asked{d.asked[0]["tool"].(string), d.asked[0]["outside"].(bool), string(args)}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.in, diff)
		}
		if got.Outside && d.asked[0]["hold"] != false {
			t.Errorf("%s: the daemon is to hold what it cannot run", tt.in)
		}
	}
}

// Codex may type into what it starts, and no hook hears of that.
func TestCommandsOfCodexMayBeTypedInto(t *testing.T) {
	for agent, in := range map[string]string{
		clients.ClaudeCode: claudeBash, clients.Codex: codexBash, clients.Gemini: geminiBash,
	} {
		d := &decider{verdict: tool.Deny}
		if _, err := runHook(t, d, agent, in); err != nil || len(d.asked) != 1 {
			t.Fatalf("%s: %v, %v", agent, d.asked, err)
		}
		if typed := d.asked[0]["typed"] == true; typed != (agent == clients.Codex) {
			t.Errorf("%s: got typed %v", agent, typed)
		}
	}
}

// Each file of a patch is judged by what becomes of it, and the strictest answer holds for all.
func TestPatchesAreJudgedFileByFile(t *testing.T) {
	patch := "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** Update File: /etc/x\n*** Move to: sub/y\n@@\n-a\n+b\n" +
		"  *** Delete File: gone \n*** End Patch\n"
	input, err := json.Marshal(map[string]string{"command": patch})
	if err != nil {
		t.Fatal(err)
	}
	d := &decider{verdict: tool.Allow}
	got, err := runHook(t, d, clients.Codex, call(clients.Codex, "apply_patch", string(input)))
	if err != nil || got != "" {
		t.Errorf("got %q, %v, want silence", got, err)
	}
	var asked []map[string]any
	for _, a := range d.asked {
		asked = append(asked, map[string]any{"tool": a["tool"], "args": a["args"]})
	}
	want := []map[string]any{
		{"tool": "Write", "args": map[string]any{"file_path": "/src/new.txt", "content": patch}},
		{"tool": "Edit", "args": map[string]any{"file_path": "/etc/x", "old_string": "", "new_string": patch}},
		{"tool": "Bash", "args": map[string]any{"command": "mv -T -- '/etc/x' '/src/sub/y'"}},
		{"tool": "Write", "args": map[string]any{"file_path": "/src/sub/y", "content": patch}},
		{"tool": "Bash", "args": map[string]any{"command": "rm -- '/src/gone'"}},
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	d = &decider{verdict: tool.Deny}
	got, err = runHook(t, d, clients.Codex, call(clients.Codex, "apply_patch", string(input)))
	if err != nil || !strings.Contains(got, "deny") || len(d.asked) != 1 {
		t.Errorf("got %q, %v after %d questions, want a denial after one", got, err, len(d.asked))
	}
	d = &decider{verdict: tool.Allow, args: `{"file_path":"/src/other","content":"x"}`}
	got, err = runHook(t, d, clients.Codex, call(clients.Codex, "apply_patch", string(input)))
	if err != nil || !strings.Contains(got, "make one call for each file") {
		t.Errorf("got %q, %v, want a denial that says what to do", got, err)
	}
}

// What models read are sentences that say what happened and what to do.
func TestAnswersAreSentences(t *testing.T) {
	for _, tt := range []struct {
		a    outcome
		want string
	}{
		{outcome{verdict: tool.Deny, reason: "x (r)", todo: "do y"}, "sandboxd denied this call: x (r). What to do: do y."},
		{outcome{verdict: tool.Deny, reason: "x."}, "sandboxd denied this call: x. What to do: " + goOn + "."},
		{outcome{verdict: tool.Ask, reason: "why?"}, "sandboxd asks a person before this call: why?"},
		{outcome{verdict: tool.Allow, reason: "x", todo: "y"}, "sandboxd allowed this call: x."},
	} {
		if got := tt.a.sentences(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
