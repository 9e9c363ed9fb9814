package config

import (
	"slices"
	"strings"
	"testing"
)

func TestSettingsWithoutEffectAreNamed(t *testing.T) {
	h := newHome(t)
	for _, tt := range []struct{ name, text, want string }{
		{"nothing is set", "", ""},
		{"a verdict over no policy", "policy: {verdict: final}\n", "policy.verdict has no effect: policy.policies has no"},
		{"a verdict over policies", "policy: {verdict: final, policies: [{kind: readOnly}]}\n", ""},
		{
			"a shadow of itself", "policy: {dirs: [/usr], shadow: /usr}\n",
			"policy.shadow has no effect: policy.dirs names the same directory",
		},
		{"a shadow of another directory", "policy: {dirs: [/usr], shadow: /var/lib}\n", ""},
		{"a timeout of nobody", "policy: {canUseTool: {timeout: 3s}}\n", "policy.canUseTool.timeout has no effect: "},
		{"a timeout of a program", "policy: {canUseTool: {timeout: 3s, command: [/bin/false]}}\n", ""},
		{"nobody is asked", "approvals: {approver: false}\n", ""},
		{"nobody waits", "approvals: {approver: false, timeout: 9m}\n", "approvals.timeout has no effect: approvals.approver is false"},
		{"nobody waits in a queue", "approvals: {approver: false, maxPerSession: 9}\n", "approvals.maxPerSession has no effect"},
		{"nobody is told", "approvals: {approver: false, command: [/bin/false]}\n", "approvals.command has no effect"},
		{"no database is away", "store: {timeout: 9s}\n", "store.timeout has no effect: store.url names no database"},
		{"no database has connections", "store: {maxConns: 9}\n", "store.maxConns has no effect"},
		{"no anchor", "audit: {anchor: {every: 9m}}\n", "audit.anchor.every has no effect"},
		{"somebody is told", "approvals: {timeout: 9m, command: [/bin/false]}\n", ""},
		{"a rule about no tool", "policy: {rules: {deny: [\"Bsh(a:b)\"]}}\n", `policy.rules.deny[0] "Bsh(a:b)" has no effect: there is no tool "Bsh"`},
		{"a rule with another spelling", "policy: {rules: {ask: [Bash, bash]}}\n", `policy.rules.ask[1] "bash" has no effect: there is no tool "bash"; names are exact: "Bash"`},
		{"rules about tools of parts, of servers and of one's own", `
policy: {rules: {allow: [ReadVar, mcp__github, Lint, AskUser, TodoWrite]}}
tools: {custom: [{name: Lint, description: d, schema: {type: object}, argv: [lint]}]}
`, ""},
		{"a list policy about no tool", "policy: {policies: [{kind: denylist, tools: [Bash, Bsh]}]}\n", `policy.policies[0].tools[1] "Bsh" has no effect`},
		{"commands of two lists", "sandbox: {allowedCommands: [ls], deniedCommands: [rm]}\n", "so deniedCommands is ignored"},
		{"a weaker sandbox", "sandbox: {enableWeakerNestedSandbox: true}\n", "enableWeakerNestedSandbox changes nothing"},
		{"a sandbox in the sandbox", "sandbox: {allowNestedSandbox: true}\n", "the cage refuses them namespaces"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := h.load(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(c.Warnings, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) || len(c.Warnings) > 1 {
				t.Errorf("warnings %q, want one with %q", got, tt.want)
			}
		})
	}
}

func TestSettingsThatCanNeverHaveAnEffectAreErrors(t *testing.T) {
	h := newHome(t)
	for _, tt := range []struct{ name, text, want string }{
		{"a tool to switch", "tools:\n  tools:\n    Bsh: false\n", `:3: tools.tools.Bsh: there is no tool "Bsh"`},
		{"a tool in another case", "tools: {tools: {bash: false}}\n", `there is no tool "bash"; names are exact: "Bash"`},
		{"a permission", "tools: {permissions: {Bsh: {execution: ask-once}}}\n", `tools.permissions.Bsh: there is no tool "Bsh"`},
		{"a denied tool", "tools: {denied: [bash, Bsh]}\n", `tools.denied[1]: there is no tool "Bsh"`},
		{"an allowed tool", "tools: {allowed: [Bsh]}\n", `tools.allowed[0]: there is no tool "Bsh"`},
		{"no tool of a server", "tools: {tools: {mcp__github__: false}}\n", `there is no tool "mcp__github__"`},
		{"a tool of no server", "tools: {tools: {mcp____x: false}}\n", `there is no tool "mcp____x"`},
		{"a server alone", "tools: {tools: {mcp__github: false}}\n", `there is no tool "mcp__github"`},
		{"a tool of another scheme", "tools: {tools: {m__github__x: false}}\n", `there is no tool "m__github__x"`},
		{"a layer", "sandbox:\n  require: [seccomp, apparmor]\n", `:2: sandbox.require: "apparmor" is no layer: want userns,`},
		{"the name of a variable", "sandbox: {env: {\"A=B\": c}}\n", `env: "A=B" cannot be the name`},
		{"a zero byte in a variable", "sandbox: {env: {A: \"b\\0c\"}}\n", `env: "A" cannot be`},
		{"a matcher where no tool is", "hooks: {sessionStart: [{command: /bin/true, matcher: Bash}]}\n", "sessionStart is about no tool"},
		{"a hook that cannot ask", "hooks: {configChange: [{command: /bin/true, onError: ask}]}\n", "onError: ask would do nothing for configChange"},
		{"a hook that cannot block", "hooks: {sessionEnd: [{command: /bin/true, onError: block}]}\n", "onError: block would do nothing"},
	} {
		if _, err := h.load(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

func TestVariablesThatNothingReadsAreNamed(t *testing.T) {
	h := newHome(t)
	c, err := Load(Source{
		File: h.write(h.away, ""), Env: h.getenv, Dir: h.dir,
		Environ: []string{
			"SANDBOXD_LOG_LEVLE=debug", "SANDBOXD_STATE_DIR=x", "SANDBOXD_LOG_LEVEL=", "SANDBOXD_CONFIG=x", "HOME=/",
			"SANDBOXD_SOCKET=x", "SANDBOXD_KEY_DIR=x", "SANDBOXD_WORKSPACE_ROOTS=x", "SANDBOXDX=1",
		},
	})
	want := []string{"the variable SANDBOXD_LOG_LEVLE has no effect: no setting has that name"}
	if err != nil || !slices.Equal(c.Warnings, want) {
		t.Errorf("got %q, %v, want %q", c.Warnings, err, want)
	}
}
