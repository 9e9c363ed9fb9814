package integration

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

type args = map[string]any

// agreed and refused are answers of a person.
func agreed(edited ...args) args {
	a := args{"approved": true}
	if len(edited) > 0 {
		a["args"] = edited[0]
	}
	return a
}

func refused(reason string) args { return args{"approved": false, "reason": reason} }

// behind is a command for the background, which waits for meetsIt, and meetsIt for it. OpenCode has
// no tool that begins one.
const (
	behind  = "until [ -e go ]; do sleep 0.1; done; echo it ran behind > behind.tmp; mv behind.tmp behind"
	meetsIt = "touch go; until [ -e behind ]; do sleep 0.1; done; cat behind; rm go behind"
)

// TestClaudeCode_DayAndGeneratedTools is a day with the real client.
func TestClaudeCode_DayAndGeneratedTools(t *testing.T) {
	d := newDay(t, "claude-code", "claude", func(d *day) []scriptedCall {
		bash := func(command string) args { return args{"command": command, "description": "work"} }
		return []scriptedCall{
			{tool: "ToolSearch", input: args{
				"query": "select:TaskCreate,TaskGet,TaskUpdate,TaskList,TaskStop,WebFetch,WebSearch,NotebookEdit,CronCreate," +
					"CronList,CronDelete,ListMcpResourcesTool,ReadMcpResourceTool,ReadMcpResourceDirTool,RefreshMcpTools," +
					"EnterWorktree,ExitWorktree,Monitor,SendMessage,mcp__notes__search,mcp__notes__remove",
				"max_results": 40,
			}, want: "tool_reference"},
			{tool: "TaskCreate", input: args{"subject": "read", "description": "read it"}, want: "created"},
			{tool: "TaskCreate", input: args{"subject": "write", "description": "write it"}, want: "created"},
			{tool: "TaskUpdate", input: args{"taskId": "1", "status": "in_progress"}, want: "1"},
			{tool: "TaskList", input: args{}, want: "read"},
			{tool: "Bash", input: bash("ls; sh escape.sh; echo ran in $(pwd)"), want: "ran in " + d.ws, not: "escape 0"},
			{tool: "Read", input: args{"file_path": d.ws + "/a.txt"}, want: "two"},
			{tool: "Edit", input: args{"file_path": d.ws + "/a.txt", "old_string": "two", "new_string": "2"}, want: "updated"},
			{tool: "Write", input: args{"file_path": d.ws + "/b.txt", "content": "new\n"}, want: "created"},
			{tool: "Read", input: args{"file_path": d.ws + "/b.txt", "limit": 5}, want: "new"},
			{tool: "Bash", input: bash("cat a.txt b.txt | wc -l"), want: "4"},
			{tool: "TaskUpdate", input: args{"taskId": "1", "status": "completed"}, want: "1"},
			{tool: "TaskGet", input: args{"taskId": "2"}, want: "write"},
			{tool: "Bash", input: bash("cat ~/.ssh/id_rsa"), want: "sandboxd denied this call", not: "PLANTED"},
			{tool: "Read", input: args{"file_path": d.home + "/.ssh/id_rsa"}, want: "sandboxd denied this call: path", not: "PLANTED"},
			{tool: "Bash", input: bash("echo rewrite me"), want: "what the hook wrote", not: "rewrite me"},
			{tool: "Bash", input: bash("git push --force origin main; echo after the push"), answer: agreed(), want: "after the push"},
			{
				tool: "Bash", input: bash("git push --force origin other; echo after the push"),
				answer: agreed(args{"command": "echo a person wrote this"}), want: "a person wrote this", not: "after the push",
			},
			{
				tool: "Bash", input: bash("git push --force origin third; echo after the push"),
				answer: refused("use a branch"), want: "use a branch", not: "after the push",
			},
			{
				tool: "Bash", input: args{"command": "echo free", "dangerouslyDisableSandbox": true},
				want: "sandboxd asks a person", not: "free",
			},
			{
				tool: "WebFetch", input: args{"url": "https://evil.example/x", "prompt": "what is it?"},
				want: "sandboxd denied this call: the rule",
			},
			{tool: "WebFetch", input: args{"url": "https://good.example/x", "prompt": "what is it?"}},
			{
				tool: "WebFetch", input: args{"url": "https://other.example/x", "prompt": "what is it?"},
				answer: refused("not that host"), want: "not that host",
			},
			{tool: "WebSearch", input: args{"query": "weather"}, answer: refused("do not search"), want: "do not search"},
			{tool: "mcp__notes__search", input: args{"q": "x"}, want: "search did x"},
			{tool: "mcp__notes__remove", input: args{"q": "y"}, answer: agreed(), want: "remove did y"},
			{tool: "ListMcpResourcesTool", input: args{"server": "notes"}, want: "the first"},
			{
				tool: "ReadMcpResourceTool", input: args{"server": "notes", "uri": "note://1"}, answer: agreed(),
				want: "text of the first",
			},
			{
				tool:  "Agent",
				input: args{"description": "help", "prompt": subTask, "run_in_background": false},
				want:  "done", sub: []scriptedCall{
					{tool: "Bash", input: bash("echo from the sub-agent"), want: "from the sub-agent"},
					{tool: "Bash", input: bash("cat ~/.ssh/id_rsa"), want: "sandboxd denied this call", not: "PLANTED"},
				},
			},
			{
				tool: "Agent", input: args{"description": "help", "prompt": "x", "isolation": "worktree"},
				want: "sandboxd asks a person",
			},
			{tool: "CronCreate", input: args{"cron": "0 0 1 1 *", "prompt": "x"}, want: "Scheduled"},
			{tool: "CronCreate", input: args{"cron": "0 0 1 1 *", "prompt": "x", "durable": true}, want: "sandboxd asks a person"},
			{tool: "CronList", input: args{}, want: "x"},
			{tool: "ReportFindings", input: args{"findings": []any{}}, want: "o findings"},
			{tool: "Skill", input: args{"skill": "none"}},
			{
				tool: "EnterWorktree", input: args{"name": "w"}, answer: refused("stay here"), want: "stay here",
			},
			{tool: "Read", input: args{"file_path": d.ws + "/n.ipynb"}, want: "print"},
			{
				tool: "NotebookEdit", input: args{"notebook_path": d.ws + "/n.ipynb", "cell_id": "c1", "new_source": "print(2)"},
				want: "print(2)",
			},
			{
				tool: "Bash", input: args{"command": "sh escape.sh; " + behind, "description": "wait", "run_in_background": true},
				want: "running in background", not: "escape 0",
			},
			{tool: "Bash", input: bash(meetsIt), want: "it ran behind"},
			{
				tool: "Bash", input: args{"command": "cat ~/.ssh/id_rsa", "description": "read", "run_in_background": true},
				want: "sandboxd denied this call", not: "PLANTED",
			},
			{tool: "Bash", input: bash("git add -A && git commit -qm first && git log --oneline | wc -l"), want: "1"},
			{tool: "ListAgents", input: args{}, answer: agreed(), want: "agent"},
			{tool: "Bash", input: bash("go version >/dev/null; make -n 2>&1 | head -1; echo ok"), want: "ok"},
			{tool: "TaskUpdate", input: args{"taskId": "2", "status": "completed"}, want: "2"},
		}
	})
	if d == nil {
		return
	}
	d.write("ws/n.ipynb", `{"cells":[{"cell_type":"code","id":"c1","metadata":{},"source":["print(1)"],"outputs":[],`+
		`"execution_count":null}],"metadata":{"language_info":{"name":"python"}},"nbformat":4,"nbformat_minor":5}`)
	servers, err := json.Marshal(args{"mcpServers": args{"notes": args{"command": notes(), "env": args{notesServer: "1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	d.run([]string{
		"ANTHROPIC_BASE_URL=" + d.url, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_ENABLE_TASKS=1", "CLAUDE_CODE_ENABLE_TODO_TOOLS=1",
	}, "-p", "do it", "--mcp-config", string(servers))
	d.tools("@anthropic-ai/claude-code", d.claudeTypes())
}

// TestGemini_DayAndGeneratedTools is a day with the real client.
func TestGemini_DayAndGeneratedTools(t *testing.T) {
	d := newDay(t, "gemini", "gemini", func(d *day) []scriptedCall {
		bash := func(command string) args { return args{"command": command, "description": "work"} }
		return []scriptedCall{
			{tool: "update_topic", input: args{"title": "a day", "summary": "s", "strategic_intent": "i"}, want: "a day"},
			{tool: "list_directory", input: args{"dir_path": "."}, want: "a.txt"},
			{tool: "read_file", input: args{"file_path": "a.txt"}, want: "two"},
			{tool: "glob", input: args{"pattern": "*.txt"}, want: "a.txt"},
			{tool: "grep_search", input: args{"pattern": "two"}, want: "two"},
			{tool: "run_shell_command", input: bash("ls; sh escape.sh; echo ran in $(pwd)"), want: "ran in " + d.ws, not: "escape 0"},
			{
				tool: "run_shell_command", input: args{"command": "pwd", "dir_path": "sub", "wait_for_previous": true},
				want: d.ws + "/sub",
			},
			{
				tool:  "replace",
				input: args{"file_path": d.ws + "/a.txt", "instruction": "i", "old_string": "two", "new_string": "2"}, want: "odified",
			},
			{tool: "write_file", input: args{"file_path": d.ws + "/b.txt", "content": "new\n"}, want: "b.txt"},
			{tool: "read_file", input: args{"file_path": "b.txt", "start_line": 1}, want: "new"},
			{tool: "run_shell_command", input: bash("cat a.txt b.txt | wc -l"), want: "4"},
			{tool: "run_shell_command", input: bash("cat ~/.ssh/id_rsa"), want: "sandboxd denied this call", not: "PLANTED"},
			{tool: "run_shell_command", input: bash("base64 < ~/.ssh/id_rsa"), want: "What to do: ", not: "UExBT"},
			{tool: "run_shell_command", input: bash("echo rewrite me"), want: "what the hook wrote", not: "rewrite me\n"},
			{
				tool: "run_shell_command", input: bash("git push --force origin main; echo after the push"),
				answer: agreed(), want: "after the push",
			},
			{
				tool: "run_shell_command", input: bash("git push --force origin other; echo after the push"),
				answer: agreed(args{"command": "echo a person wrote this"}), want: "a person wrote this", not: "after the push",
			},
			{
				tool: "run_shell_command", input: bash("git push --force origin third; echo after the push"),
				answer: refused("use a branch"), want: "use a branch", not: "after the push\n",
			},
			{
				tool: "web_fetch", input: args{"prompt": "what is https://evil.example/x about?"},
				want: "sandboxd denied this call: the rule",
			},
			{tool: "web_fetch", input: args{"prompt": "what is https://good.example/x about?"}},
			{
				tool: "web_fetch", input: args{"prompt": "compare https://good.example/x and https://other.example/"},
				answer: refused("not that host"), want: "not that host",
			},
			{tool: "google_web_search", input: args{"query": "weather"}, answer: refused("do not search"), want: "do not search"},
			{tool: "mcp_notes_search", input: args{"q": "x"}, want: "search did x"},
			{tool: "mcp_notes_remove", input: args{"q": "y"}, answer: agreed(), want: "remove did y"},
			{tool: "list_mcp_resources", input: args{"serverName": "notes"}, want: "the first"},
			{tool: "read_mcp_resource", input: args{"uri": "note://1"}, answer: agreed(), want: "text of the first"},
			{
				tool: "invoke_agent", input: args{"agent_name": "generalist", "prompt": subTask}, want: "finished",
				sub: []scriptedCall{
					{tool: "run_shell_command", input: bash("echo from the sub-agent"), want: "from the sub-agent"},
					{tool: "run_shell_command", input: bash("cat ~/.ssh/id_rsa"), want: "sandboxd denied this call", not: "PLANTED"},
					{tool: "complete_task", input: args{"result": args{"response": "finished"}}},
				},
			},
			{tool: "update_topic", input: args{"title": "afternoon", "summary": "s", "strategic_intent": "i"}, want: "afternoon"},
			{tool: "glob", input: args{"pattern": "**/*", "dir_path": d.ws, "respect_git_ignore": true}, want: "b.txt"},
			{tool: "grep_search", input: args{"pattern": "n", "dir_path": ".", "include_pattern": "*.txt"}, want: "b.txt"},
			{tool: "run_shell_command", input: bash("git add -A && git commit -qm first && git log --oneline | wc -l"), want: "1"},
			{tool: "run_shell_command", input: bash("echo one > c.txt && cat c.txt"), want: "one"},
			{tool: "read_file", input: args{"file_path": "c.txt"}, want: "one"},
			{tool: "run_shell_command", input: bash("rm c.txt; ls"), want: "b.txt"},
			{tool: "list_directory", input: args{"dir_path": d.ws}, want: "a.txt"},
			{
				tool: "replace", input: args{
					"file_path": d.ws + "/b.txt", "instruction": "i", "old_string": "new", "new_string": "old", "allow_multiple": false,
				}, want: "odified",
			},
			{tool: "read_file", input: args{"file_path": "b.txt"}, want: "old"},
			{tool: "read_file", input: args{"file_path": d.home + "/.ssh/id_rsa"}, not: "PLANTED"},
			{tool: "run_shell_command", input: bash("git status --short; git diff | head -3; echo ok"), want: "ok"},
			{tool: "run_shell_command", input: args{"command": "sh escape.sh; " + behind, "is_background": true}, want: "background", not: "escape 0"},
			{tool: "list_background_processes", input: args{}, want: "RUNNING"},
			{tool: "run_shell_command", input: bash(meetsIt), want: "it ran behind"},
			{
				tool: "run_shell_command", input: args{"command": "cat ~/.ssh/id_rsa", "is_background": true},
				want: "sandboxd denied this call", not: "PLANTED",
			},
			{tool: "run_shell_command", input: bash("go env GOOS; echo ok"), want: "ok"},
			{tool: "enter_plan_mode", input: args{"reason": "r"}, want: "lan mode"},
			{tool: "exit_plan_mode", input: args{"plan_filename": "none.md"}},
		}
	})
	if d == nil {
		return
	}
	d.write("ws/sub/.keep", "")
	d.settings(".gemini/settings.json", args{
		"security":   args{"auth": args{"selectedType": "gemini-api-key"}},
		"general":    args{"enableAutoUpdate": false},
		"privacy":    args{"usageStatisticsEnabled": false},
		"mcpServers": args{"notes": args{"command": notes(), "env": args{notesServer: "1"}}},
	})
	d.run([]string{"GOOGLE_GEMINI_BASE_URL=" + d.url, "GEMINI_API_KEY=none", "GEMINI_CLI_TRUST_WORKSPACE=true"},
		"-p", "do it", "-m", "gemini-2.5-flash", "--approval-mode", "yolo")
	d.tools("@google/gemini-cli", d.geminiNames())
}

// settings adds members to a settings file in the home, as a person would.
func (d *day) settings(file string, more args) {
	d.T.Helper()
	text, err := os.ReadFile(filepath.Join(d.home, file))
	if err != nil {
		d.Fatal(err)
	}
	var all args
	if err := json.Unmarshal(text, &all); err != nil {
		d.Fatal(err)
	}
	maps.Copy(all, more)
	if text, err = json.Marshal(all); err != nil {
		d.Fatal(err)
	}
	d.write("home/"+file, string(text))
}

// aPixel is a picture, for the tool that reads pictures.
const aPixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestCodex_DayAndGeneratedTools is a day with the real client. Its own sandbox is off: that is
// not what is tested.
func TestCodex_DayAndGeneratedTools(t *testing.T) {
	d := newDay(t, "codex", "codex", func(d *day) []scriptedCall {
		run := func(command string) args { return args{"cmd": command} }
		patch := func(body string) string { return "*** Begin Patch\n" + body + "*** End Patch\n" }
		agent := map[string]string{"targets": `agent_id\\*":\\*"([^"\\]+)`}
		return []scriptedCall{
			{tool: "create_goal", input: args{"objective": "a day"}, want: "a day"},
			{tool: "exec_command", input: run("ls; echo ran in $(pwd)"), want: "ran in " + d.ws},
			{tool: "exec_command", input: args{"cmd": "pwd", "workdir": "sub"}, want: d.ws + "/sub"},
			{tool: "exec_command", input: run("cat a.txt"), want: "two"},
			{tool: "apply_patch", input: patch("*** Update File: a.txt\n@@\n one\n-two\n+2\n three\n"), want: "Updated"},
			{tool: "apply_patch", input: patch("*** Add File: b.txt\n+new\n*** Add File: sub/c.txt\n+new\n"), want: "b.txt"},
			{tool: "exec_command", input: run("cat a.txt b.txt | wc -l"), want: "4"},
			{tool: "view_image", input: args{"path": "pixel.png"}},
			{tool: "view_image", input: args{"path": d.home + "/.ssh/id_rsa"}, want: "sandboxd denied this call"},
			{tool: "exec_command", input: run("cat ~/.ssh/id_rsa"), want: "sandboxd denied this call", not: "PLANTED"},
			{
				tool: "apply_patch", input: patch("*** Add File: d.txt\n+x\n*** Add File: " + d.home + "/.ssh/config\n+x\n"),
				want: "sandboxd denied this call",
			},
			{tool: "exec_command", input: run("ls d.txt || echo not written"), want: "not written"},
			{
				tool: "exec_command", input: run("echo rewrite me"),
				want: "What to do: send it again with these arguments: {\\\"command\\\":\\\"echo what the hook wrote\\\"}",
			},
			{tool: "exec_command", input: run("echo what the hook wrote"), want: "what the hook wrote"},
			{tool: "exec_command", input: run("git push --force origin main; echo after the push"), answer: agreed(), want: "after the push"},
			{
				tool: "exec_command", input: run("git push --force origin other; echo after the push"),
				answer: agreed(args{"command": "echo a person wrote this"}), want: "What to do: send it again with these arguments: {\\\"command\\\":\\\"echo a person wrote this", not: "Chunk ID",
			},
			{
				tool: "exec_command", input: run("git push --force origin third; echo after the push"),
				answer: refused("use a branch"), want: "use a branch", not: "Chunk ID",
			},
			{tool: "search", space: "mcp__notes", input: args{"q": "x"}, want: "search did x"},
			{tool: "remove", space: "mcp__notes", input: args{"q": "y"}, answer: agreed(), want: "remove did y"},
			{tool: "remove", space: "mcp__notes", input: args{"q": "z"}, answer: refused("keep it"), want: "keep it"},
			{tool: "list_mcp_resources", input: args{"server": "notes"}, want: "the first"},
			{tool: "list_mcp_resource_templates", input: args{"server": "notes"}, want: "resourceTemplates"},
			{tool: "read_mcp_resource", input: args{"server": "notes", "uri": "note://1"}, answer: agreed(), want: "text of the first"},
			{tool: "get_goal", input: args{}, want: "a day"},
			{
				tool: "spawn_agent", space: "multi_agent_v1", input: args{"message": subTask}, want: "agent_id",
				sub: []scriptedCall{
					{tool: "exec_command", input: run("echo from the sub-agent"), want: "from the sub-agent"},
					{tool: "exec_command", input: run("cat ~/.ssh/id_rsa"), want: "sandboxd denied this call", not: "PLANTED"},
				},
			},
			{tool: "wait_agent", space: "multi_agent_v1", input: args{"timeout_ms": 20000}, last: agent, want: "done"},
			{
				tool: "close_agent", space: "multi_agent_v1", input: args{},
				last: map[string]string{"target": agent["targets"]}, want: "status",
			},
			{tool: "request_user_input", input: args{"questions": []any{args{
				"id": "a", "header": "h", "question": "q?",
				"options": []any{args{"label": "x", "description": "d"}, args{"label": "y", "description": "d"}},
			}}}},
			{tool: "exec_command", input: args{"cmd": behind, "yield_time_ms": 300}, want: "session ID"},
			{tool: "exec_command", input: run(meetsIt), want: "it ran behind"},
			{tool: "exec_command", input: args{"cmd": "cat", "tty": true, "yield_time_ms": 300}, want: "session ID"},
			{
				tool: "write_stdin", input: args{"chars": "typed\n\x04", "yield_time_ms": 1000},
				last: map[string]string{"session_id": `session ID (\d+)`}, want: "typed",
			},
			{tool: "exec_command", input: run("git add -A && git commit -qm first && git log --oneline | wc -l"), want: "1"},
			{tool: "exec_command", input: run("git status --short; echo ok"), want: "ok"},
			{tool: "apply_patch", input: patch("*** Delete File: b.txt\n"), want: "b.txt"},
			{tool: "exec_command", input: run("ls"), want: "a.txt", not: "b.txt"},
			{tool: "apply_patch", input: patch("*** Update File: a.txt\n*** Move to: sub/a.txt\n@@\n one\n-2\n+two\n three\n"), want: "sub/a.txt"},
			{tool: "exec_command", input: run("grep -rn two ."), want: "sub/a.txt"},
			{tool: "exec_command", input: run("sort sub/a.txt | tail -1"), want: "two"},
			{tool: "exec_command", input: run("go env GOOS; echo ok"), want: "ok"},
			{tool: "exec_command", input: args{"cmd": "echo $0", "login": false}, want: "sh"},
			{tool: "search", space: "mcp__notes", input: args{"q": "evening"}, want: "search did evening"},
			{tool: "update_goal", input: args{"status": "complete"}, want: "complete"},
		}
	})
	if d == nil {
		return
	}
	pixel, err := base64.StdEncoding.DecodeString(aPixel)
	if err != nil {
		t.Fatal(err)
	}
	d.write("ws/pixel.png", string(pixel))
	d.write("ws/sub/.keep", "")
	d.write("home/.codex/config.toml", fmt.Sprintf(`model = "gpt-5.5"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
[mcp_servers.notes]
command = %q
env = { %s = "1" }
[features]
multi_agent = true
`, d.url, notes(), notesServer))
	d.run([]string{"SCRIPTED_KEY=none"}, "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust",
		"--sandbox", "danger-full-access", "do it")
	d.tools("@openai/codex", nil) // it publishes no types
}

// TestOpenCode_DayAndGeneratedTools is a day with the real client.
func TestOpenCode_DayAndGeneratedTools(t *testing.T) {
	d := newDay(t, "opencode", "opencode", func(d *day) []scriptedCall {
		bash := func(command string) args { return args{"command": command, "description": "work"} }
		file := func(name string) string { return d.ws + "/" + name }
		todo := func(status string) args {
			return args{"todos": []any{args{"id": "1", "content": "read", "status": status, "priority": "high"}}}
		}
		return []scriptedCall{
			{tool: "todowrite", input: todo("pending"), want: "read"},
			{tool: "bash", input: bash("ls; sh escape.sh; echo ran in $(pwd)"), want: "ran in " + d.ws, not: "escape 0"},
			{tool: "bash", input: args{"command": "pwd", "description": "x", "workdir": file("sub")}, want: file("sub")},
			{tool: "read", input: args{"filePath": file("a.txt")}, want: "two"},
			{tool: "edit", input: args{"filePath": file("a.txt"), "oldString": "two", "newString": "2"}, want: "pplied"},
			{tool: "write", input: args{"filePath": file("b.txt"), "content": "new\n"}, want: "rote"},
			{tool: "read", input: args{"filePath": file("b.txt"), "limit": 5}, want: "new"},
			{tool: "glob", input: args{"pattern": "*.txt"}, want: "b.txt"},
			{tool: "grep", input: args{"pattern": "new", "include": "*.txt"}, want: "b.txt"},
			{tool: "bash", input: bash("cat a.txt b.txt | wc -l"), want: "4"},
			{tool: "todowrite", input: todo("in_progress"), want: "in_progress"},
			{tool: "bash", input: bash("cat ~/.ssh/id_rsa"), want: "sandboxd denied this call", not: "PLANTED"},
			{tool: "read", input: args{"filePath": d.home + "/.ssh/id_rsa"}, want: "sandboxd denied this call", not: "PLANTED"},
			{tool: "write", input: args{"filePath": d.home + "/.ssh/config", "content": "x"}, want: "sandboxd denied this call"},
			{tool: "bash", input: bash("echo rewrite me"), want: "what the hook wrote", not: "rewrite me"},
			{tool: "bash", input: bash("git push --force origin main; echo after the push"), answer: agreed(), want: "after the push"},
			{
				tool: "bash", input: bash("git push --force origin other; echo after the push"),
				answer: agreed(args{"command": "echo a person wrote this"}), want: "a person wrote this", not: "after the push",
			},
			{
				tool: "bash", input: bash("git push --force origin third; echo after the push"),
				answer: refused("use a branch"), want: "use a branch", not: "after the push",
			},
			{tool: "webfetch", input: args{"url": "https://evil.example/x", "format": "text"}, want: "sandboxd denied this call: the rule"},
			{tool: "webfetch", input: args{"url": "https://good.example/x", "format": "text"}},
			{
				tool: "webfetch", input: args{"url": "https://other.example/x", "format": "text"},
				answer: refused("not that host"), want: "not that host",
			},
			{tool: "notes_search", input: args{"q": "x"}, answer: agreed(), want: "search did x"},
			{tool: "notes_remove", input: args{"q": "y"}, answer: refused("keep it"), want: "keep it"},
			{tool: "skill", input: args{"name": "none"}, answer: refused("no skills"), want: "no skills"},
			{
				tool: "task", input: args{"description": "help", "prompt": subTask, "subagent_type": "general"}, want: "done",
				sub: []scriptedCall{
					{tool: "bash", input: bash("echo from the sub-agent"), want: "from the sub-agent"},
					{tool: "bash", input: bash("cat ~/.ssh/id_rsa"), want: "sandboxd denied this call", not: "PLANTED"},
				},
			},
			{tool: "bash", input: bash("git add -A && git commit -qm first && git log --oneline | wc -l"), want: "1"},
			{tool: "bash", input: bash("git status --short; echo ok"), want: "ok"},
			{tool: "write", input: args{"filePath": file("sub/c.txt"), "content": "one\n"}, want: "rote"},
			{tool: "read", input: args{"filePath": file("sub/c.txt")}, want: "one"},
			{tool: "edit", input: args{"filePath": file("sub/c.txt"), "oldString": "one", "newString": "two"}, want: "pplied"},
			{tool: "grep", input: args{"pattern": "two", "path": file("sub")}, want: "c.txt"},
			{tool: "glob", input: args{"pattern": "**/*.txt", "path": d.ws}, want: "c.txt"},
			{tool: "bash", input: bash("sort sub/c.txt"), want: "two"},
			{tool: "bash", input: bash("echo one > e.txt && cat e.txt"), want: "one"},
			{tool: "bash", input: bash("rm e.txt; ls"), want: "a.txt"},
			{tool: "bash", input: bash("go env GOOS; echo ok"), want: "ok"},
			{tool: "bash", input: bash("git diff | head -3; echo ok"), want: "ok"},
			{tool: "read", input: args{"filePath": file("a.txt"), "offset": 1}, want: "three"},
			{tool: "todowrite", input: todo("completed"), want: "completed"},
			{tool: "bash", input: bash("echo good night"), want: "good night"},
		}
	})
	if d == nil {
		return
	}
	d.write("ws/sub/.keep", "")
	model := args{"scripted": args{"name": "scripted", "tool_call": true}}
	settings, err := json.Marshal(args{
		"provider": args{"scripted": args{
			"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": args{"baseURL": d.url + "/v1", "apiKey": "none"},
			"models": model,
		}},
		"model": "scripted/scripted", "autoupdate": false, "share": "disabled",
		"mcp": args{"notes": args{
			"type": "local", "command": []string{notes()}, "environment": args{notesServer: "1"}, "enabled": true,
		}},
		"permission": args{"external_directory": "allow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.write("config/opencode/opencode.json", string(settings))
	d.run([]string{"OPENCODE_DISABLE_MODELS_FETCH=1"}, "run", "do it")
	d.tools("opencode-ai", nil) // it publishes no types
}
