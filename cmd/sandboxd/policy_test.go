package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/child"
)

// TestMain lets the test binary be the launcher of the cage.
func TestMain(m *testing.M) {
	if child.IsChild() {
		child.Main()
	}
	os.Exit(m.Run())
}

func TestPolicyCommandRefusesBadInput(t *testing.T) {
	for _, tt := range []struct{ args, stdin, want string }{
		{"eval --mode yolo -c ls", "", "not a permission mode"},
		{"eval", "{", "read a call from stdin"},
		{"eval", "", "no call was given: name one with -c"},
		{"eval", `{"tol": "Read"}`, "unknown field"},
		{"eval", `{}`, "either a command or a tool"},
		{"eval", `{"tool": "Read", "command": "ls"}`, "either a command or a tool"},
		{"eval", `{"command": "ls", "args": {}}`, "a command has no args"},
		{"eval", `{"tool": "WebFetch", "hosts": ["a.example"]}`, "unknown field"},
		{"eval", `{"command": "ls", "connection": {"host": "a.example"}}`, "leave connection and changes out"},
		{"eval --confined perhaps -c ls", "", "want true or false"},
		{"eval --cwd / -c ls", "", "the whole system"},
		{"check --profile lax", "", `"lax"`},
		{"bench --count 0 -c ls", "", "at least 1"},
		{"init x --owner core", "", "cannot be the owner"},
		{"check /nonexistent", "", "/nonexistent"},
		{"replay --since 0d", "", "want a number of days"},
		{"replay --since 3y", "", "want a time such as"},
		{"replay --since 400d", "", "decisions are kept for 14d"},
		{"replay /nonexistent", "", "/nonexistent"},
		{"diff", "", "accepts between 1 and 2 arg"},
		{"diff /nonexistent", "", "/nonexistent"},
		{"suggest --least 0", "", "want 2 or more"},
		{"suggest DIR", "", "unknown command"},
		{"shadow -n 101", "", "want 1 to 100"},
	} {
		c := policyCmd()
		c.SetArgs(strings.Fields(tt.args))
		c.SetIn(strings.NewReader(tt.stdin))
		c.SetOut(&bytes.Buffer{})
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("policy %s: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
}

// What programs are confined by is asked of the host, or said; the rule is the one of the
// request path.
func TestX07_CX38_ExplainKnowsWhetherProgramsAreConfined(t *testing.T) {
	for _, tt := range []struct{ name, args, first string }{
		{
			"only the mode asks, and the settings answer", "--mode default --confined=true",
			"allow, decided by the sandbox settings: autoAllowBashIfSandboxed",
		},
		{"nothing is confined", "--mode default --confined=false", "ask, decided by mode default"},
		{"in mode plan they do not answer", "--mode plan --confined=true", "ask, decided by mode plan"},
		{"nobody asks", "--mode bypassPermissions --confined=true", "allow, decided by mode bypassPermissions"},
		{"nobody is asked", "--mode dontAsk --confined=true", "deny, decided by mode dontAsk"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			out := runPolicy(t, "", strings.Fields("explain -c make "+tt.args)...)
			if !strings.HasPrefix(out, tt.first+" (policy revision ") {
				t.Errorf("got %s, want %s", out, tt.first)
			}
		})
	}
}

// runPolicy runs a command that succeeds.
func runPolicy(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	c := policyCmd()
	c.SetArgs(args)
	c.SetIn(strings.NewReader(stdin))
	c.SetOut(&out)
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.Execute(); err != nil {
		t.Fatalf("policy %q: %v", args, err)
	}
	return out.String()
}

// Every tool is judged with the facts that a daemon would have: its own uses, the settings
// of the configuration, and what was said of the session.
func TestExplainJudgesEveryTool(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, tt := range []struct{ name, call, first string }{
		{
			"a file outside the workspace", `{"tool": "Write", "args": {"file_path": "/etc/x", "content": ""}}`,
			"deny, decided by the sandbox settings: allowedWritePaths",
		},
		{
			"a rule about a relative path", `{"tool": "Write", "args": {"file_path": "migrations/1.sql", "content": ""}}`,
			"deny, decided by the rule deny Write(migrations/**)",
		},
		{
			"a secret", `{"tool": "Read", "args": {"file_path": ".env"}}`,
			"ask, decided by the rule developer.secrets.file",
		},
		{"arguments that the tool does not take", `{"tool": "Read", "args": {"path": "a"}}`, "deny, decided by core."},
		{"a tool that there is not", `{"tool": "Teleport"}`, "deny, decided by core.tool_not_found"},
		{"a tool of variables", `{"tool": "ListVars"}`, "allow, decided by mode auto"},
		{"a tool of the session", `{"tool": "TodoWrite", "args": {"action": "list"}}`, "allow, decided by mode auto"},
		{"a tool that asks a person", `{"tool": "AskUser", "args": {"question": "?"}}`, "allow, decided by mode auto"},
		{
			"a reference to a variable that there is not", `{"command": "echo $VAR_REF{{none}}"}`,
			"deny, decided by core.",
		},
		{
			"a session that has read a web page", `{"command": "npm publish", "origins": ["web"]}`,
			"ask, decided by the rule developer.provenance.heard",
		},
		{"a mode of its own", `{"tool": "Grep", "args": {"pattern": "x"}, "mode": "default"}`, "ask, decided by mode default"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := runPolicy(t, tt.call, "explain", "--confined=true", "--deny", "Write(migrations/**)")
			if !strings.HasPrefix(out, tt.first) {
				t.Errorf("got %s, want %s", out, tt.first)
			}
		})
	}
}

func TestSeveralCallsAreAnsweredInOrder(t *testing.T) {
	t.Chdir(t.TempDir())
	out := runPolicy(t, `{"command": "ls"} {"command": "rm -rf /usr/x"}`+"\n"+`{"command": "git push -f"}`,
		"eval", "--confined=true")
	var verdicts []string
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var d tool.Decision
		if err := dec.Decode(&d); err != nil {
			t.Fatal(err)
		}
		verdicts = append(verdicts, d.Verdict.String())
	}
	if got := strings.Join(verdicts, " "); got != "allow deny ask" {
		t.Errorf("got %s", got)
	}
}

// What nobody was asked is said: an answer without it may not be the daemon's.
func TestExplainNamesWhatItDidNotAsk(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "hooks: {preToolUse: [{name: a, command: /bin/false}]}\npolicy: {canUseTool: {command: [/bin/false]}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SANDBOXD_CONFIG", file)
	out := runPolicy(t, "", "explain", "--confined=true", "-c", "ls")
	if !strings.HasPrefix(out, "allow,") || !strings.Contains(out, "note: hooks and policy.canUseTool of the configuration were not asked") {
		t.Errorf("got %s", out)
	}
}

// The examples of rules are calls of the tools that a daemon would have, with the facts that
// their tools find; one of another tool is a mistake.
func TestExamplesAreCallsOfRealTools(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(t.TempDir())
	config := filepath.Join(dir, "config.yaml")
	text := "tools: {denied: [Write], custom: [{name: Lint, description: d, schema: {type: object, properties: " +
		"{package: {type: string}}}, argv: [lint, '{{package}}']}]}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SANDBOXD_CONFIG", config)
	for _, tt := range []struct{ name, example, when, wrong string }{
		{"a tool of the operator's own", "{tool: Lint, args: {package: x}}", `"lint x" in input.starts`, ""},
		{"a tool that no session has", "{tool: Write, args: {file_path: a, content: b}}", `input.paths[0].path == "/src/a"`, ""},
		{"a tool of a part", "{tool: ReadVar, args: {name: x}}", `input.tool.class == "state"`, ""},
		{"a path that is found", "{tool: Read, args: {file_path: ../home/u/.ssh/id}}", `input.paths[0].under[_] == "~/.ssh"`, ""},
		{"a host that is found", "curl https://a.example/", `input.hosts[0].name == "a.example"`, ""},
		{"a file of a redirection", "'true > out'", `some p in input.paths; p.path == "/src/out"; p.op == "write"`, ""},
		{"a tool that there is not", "{tool: Teleport}", "true", "Tool Teleport not found"},
		{"arguments that the tool does not take", "{tool: Read, args: {path: a}}", "true", "Read"},
		{"a text that is no command", "'echo \"'", "true", "example Bash"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			policies := filepath.Join(t.TempDir(), "p")
			if err := os.Mkdir(policies, 0o700); err != nil {
				t.Fatal(err)
			}
			rule := "package sandboxd.policies.acme.a\n\n# METADATA\n# custom:\n#   match:\n#     - " + tt.example +
				"\nfindings contains {\"id\": \"acme.a\", \"effect\": \"count\", \"message\": \"m\"} if {\n\t" +
				strings.ReplaceAll(tt.when, "; ", "\n\t") + "\n}\n"
			if err := os.WriteFile(filepath.Join(policies, "a.rego"), []byte(rule), 0o600); err != nil {
				t.Fatal(err)
			}
			c := policyCmd()
			c.SetArgs([]string{"check", policies})
			c.SetOut(&bytes.Buffer{})
			c.SilenceErrors, c.SilenceUsage = true, true
			err := c.Execute()
			if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("got %v, want %q", err, tt.wrong)
			}
		})
	}
}
