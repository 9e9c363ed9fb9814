package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
)

// home is a machine with a workspace and a place for configuration beside it.
type home struct {
	t    *testing.T
	dir  string // of the workspace
	away string // where agents cannot write
	env  map[string]string
}

func newHome(t *testing.T) home {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := home{t: t, dir: filepath.Join(base, "work"), away: filepath.Join(base, "away")}
	for _, d := range []string{h.dir, h.away} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.env = map[string]string{
		"HOME": filepath.Join(base, "home"), "SANDBOXD_STATE_DIR": filepath.Join(base, "state"),
		"SANDBOXD_RUNTIME_DIR": "/run/sandboxd-test", "SANDBOXD_WORKSPACE_ROOTS": h.dir,
	}
	return h
}

func (h home) getenv(name string) string { return h.env[name] }

func (h home) write(dir, text string) string {
	h.t.Helper()
	name := filepath.Join(dir, "sandboxd.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return name
}

func (h home) load(text string) (*Config, error) {
	if strings.Contains(text, "workspace:") { // which says it
		h.env = maps.Clone(h.env)
		delete(h.env, "SANDBOXD_WORKSPACE_ROOTS")
	}
	return Load(Source{File: h.write(h.away, text), Env: h.getenv, Dir: h.dir})
}

// The directory in which the daemon starts is nothing that anybody allowed: it may be a home.
func TestNoFileServesNoDirectory(t *testing.T) {
	h := newHome(t)
	delete(h.env, "SANDBOXD_WORKSPACE_ROOTS")
	for name, file := range map[string]string{
		"no file": "", "an empty file": h.write(h.away, ""), "a file of comments": h.write(t.TempDir(), "# nothing\n"),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(Source{File: file, Env: h.getenv, Dir: h.dir})
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Workspace.Roots) > 0 || c.Sessions.Mode != "auto" ||
				c.Policy.Profile != "developer" {
				t.Errorf("got roots %q, mode %q, profile %q", c.Workspace.Roots, c.Sessions.Mode, c.Policy.Profile)
			}
			if got := c.Sandbox.AllowedWritePaths; !slices.Equal(got, guard.DefaultSettings("", "", nil).AllowedWritePaths[1:]) {
				t.Errorf("%q is writable", got)
			}
			if c.Sandbox.Network.AllowedDomains == nil || len(c.Sandbox.Network.AllowedDomains) > 0 ||
				c.Approvals.Timeout != 5*time.Minute {
				t.Errorf("got domains %#v, timeout %v", c.Sandbox.Network.AllowedDomains, c.Approvals.Timeout)
			}
		})
	}
}

// A relative name is one of the directory in which the daemon starts, and a pipe would be waited for.
func TestTheFileIsARegularFile(t *testing.T) {
	h := newHome(t)
	h.write(h.away, "log: {level: debug}\n")
	if c, err := Load(Source{File: "sandboxd.yaml", Env: h.getenv, Dir: h.away}); err != nil || c.Log.Level != "debug" {
		t.Errorf("a relative name: %v", err)
	}
	_, err := Load(Source{File: h.dir, Env: h.getenv, Dir: h.dir})
	if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestMistakesNameTheirLine(t *testing.T) {
	h := newHome(t)
	for _, tt := range []struct{ name, text, want string }{
		{"an unknown key", "log:\n  levle: info\n", `:2: log: unknown key "levle"; did you mean "level"?`},
		{"a key of the sandbox at the top", "network: {}\n", `:1: unknown key "network"; it stands below "sandbox"`},
		{
			"a place", "paths:\n  stateDir: /x\n",
			`:1: unknown key "paths"; places come from the environment: SANDBOXD_STATE_DIR, SANDBOXD_RUNTIME_DIR, SANDBOXD_KEY_DIR`,
		},
		{"an unknown top key", "\nworkspaces: {}\n", `:2: unknown key "workspaces"`},
		{
			"a key given twice", "log: {level: info}\nlog: {level: warn}\n",
			":2: log: the key is given twice, first in line 1",
		},
		{
			"a sandbox key given twice", "sandbox:\n  require: []\n  require: [userns]\n",
			":3: sandbox.require: the key is given twice, first in line 2",
		},
		{
			"an unknown sandbox key", "sandbox:\n  network:\n    allowedDomain: [a.org]\n",
			`:3: sandbox: unknown key "network.allowedDomain"`,
		},
		{
			"a wrong type in the sandbox", "sandbox:\n  limits:\n    wallSeconds: many\n",
			":3: sandbox.limits.wallSeconds: \"many\" is not a value for it",
		},
		{
			"a relative path in the sandbox", "sandbox:\n\n  allowedReadPaths: [src]\n",
			`:3: sandbox.allowedReadPaths: "src" is relative`,
		},
		{
			"hosts that cannot be reached", "sandbox:\n  network: {allowedDomains: [10.0.0.1]}\n",
			":2: sandbox.network.allowedDomains: \"10.0.0.1\" is an address",
		},
		{
			"a negative limit", "sandbox:\n  limits:\n    processes: -1\n",
			":3: sandbox.limits.processes: -1 is negative",
		},
		{"a relative root", "workspace:\n  roots: [work]\n", `:2: workspace.roots[0]: "work" is relative`},
		{"a root that is the system", "workspace:\n  roots: [/]\n", "whole system"},
		{"an unknown limit of modes", "sessions:\n  maxMode: yolo\n", `:2: sessions.maxMode: unknown value "yolo"`},
		{"a list of sections", "- log\n", ":1: want keys and values"},
		{"a list for a section", "log: [info]\n", `:1: log: want keys and values, not a list`},
		{"a section for a text", "log: {level: {x: 1}}\n", `:1: log.level: want a text, not keys and values`},
		{"a list for the sandbox", "sandbox: [x]\n", `:1: sandbox: ["x"] is not an object`},
		{"a root that is a file", "workspace:\n  roots: [/etc/passwd]\n", `:2: workspace.roots[0]: "/etc/passwd" is not a directory`},
		{"too many bytes", strings.Repeat("#", maxFileBytes) + "\n", fmt.Sprintf("has more than %d bytes", maxFileBytes)},
		{"an unknown mode", "sessions:\n  mode: yolo\n", `:2: sessions.mode: unknown value "yolo"`},
		{
			"a mode over the limit", "sessions:\n  mode: bypassPermissions\n",
			":2: sessions.mode: bypassPermissions is looser",
		},
		{
			"a rule that can never match", "policy:\n  rules:\n    deny:\n      - Bash(make)\n      - Bash(a | b)\n",
			":5: policy.rules.deny[1]: rule",
		},
		{
			"an allow that a deny covers", "policy:\n  rules:\n    allow: [Bash(ls)]\n    deny: [Bash(ls)]\n",
			":3: policy.rules.allow[0]",
		},
		{
			"a relative policy directory", "policy:\n  dirs: [policies]\n",
			`:2: policy.dirs[0]: policy directory "policies" is relative`,
		},
		{
			"two to ask", "policy:\n  canUseTool: {command: [/bin/true], webhook: 'http://x'}\n",
			"either a command or a webhook",
		},
		{
			"a relative program to ask", "policy:\n  canUseTool:\n    command: [may-run]\n",
			`program "may-run" is relative`,
		},
		{
			"a program to ask that agents can write", "policy:\n  canUseTool: {command: [" + h.dir + "/may-run]}\n",
			"which agents can write",
		},
		{
			"a script to ask that agents can write",
			"policy:\n  canUseTool: {command: [/bin/sh, " + h.dir + "/may-run]}\n", "which agents can write",
		},
		{
			"a script to tell that agents can write",
			"approvals:\n  command: [/bin/sh, -c, '. " + h.dir + "/tell; true']\n", ":2: approvals.command: ",
		},
		{
			"a webhook that is no address", "policy:\n  canUseTool: {webhook: 'file:///etc/passwd'}\n",
			"no http or https address",
		},
		{"no time to ask", "policy:\n  canUseTool: {webhook: 'http://x', timeout: 0s}\n", "more than zero"},
		{
			"a guard with nothing to compare", "policy:\n  keepDecisions: 0s\n  guardReload: true\n",
			":3: policy.guardReload: it compares recorded calls",
		},
		{
			"a shadow that agents can write", "policy:\n  shadow: " + h.dir + "/p\n",
			":2: policy.shadow: policy directory",
		},
		{"decisions kept for less than nothing", "policy:\n  keepDecisions: -1s\n", "zero or more"},
		{"policies that agents can write", "policy:\n  dirs: [" + h.dir + "/p]\n", "which agents can write"},
		{"an unknown event", "hooks:\n  preToolUs:\n    - {command: true}\n", ":3: hooks.preToolUs: unknown hook event"},
		{
			"a hook that agents can write", "hooks:\n  preToolUse:\n    - {command: " + h.dir + "/guard}\n",
			":3: hooks.preToolUse[0]",
		},
		{
			"an unknown policy of a tool", "tools:\n  permissions:\n    Bash: {execution: ask}\n",
			":3: tools.permissions.Bash: unknown execution \"ask\"",
		},
		{"an unknown policy of results", "tools:\n  permissions:\n    Bash: {results: sometimes}\n", "unknown results"},
		{
			"a relative program to announce", "approvals:\n  command: [tell]\n",
			":2: approvals.command: program \"tell\" is relative",
		},
		{"a program that agents can write", "approvals:\n  command: [" + h.dir + "/tell]\n", "approvals.command"},
		{
			"a hook without its program", "hooks:\n  preToolUse:\n    - {command: '/nonexistent/guard --fast'}\n",
			`:3: hooks.preToolUse[0]: command "/nonexistent/guard --fast": there is no program "/nonexistent/guard"`,
		},
		{
			"a hook that is no program", "hooks:\n  preToolUse:\n    - {command: /etc/passwd}\n",
			`:3: hooks.preToolUse[0]: command "/etc/passwd": program "/etc/passwd" is not executable`,
		},
		{
			"a canUseTool without its program", "policy:\n  canUseTool:\n    command: [/nonexistent/judge, now]\n",
			`:3: policy.canUseTool.command: there is no program "/nonexistent/judge"`,
		},
		{
			"an announcement without its program", "approvals:\n  command: [/nonexistent/tell]\n",
			`:2: approvals.command: there is no program "/nonexistent/tell"`,
		},
		{
			"an anchor without its program", "audit:\n  anchor: {command: [/etc]}\n",
			`:2: audit.anchor: program "/etc" is not executable`,
		},
		{
			"a tool without its program",
			"tools:\n  custom:\n    - {name: L, description: d, argv: [/nonexistent/l]}\n",
			`:3: tools.custom[0]: there is no program "/nonexistent/l"`,
		},
		{"a relative hook", "hooks:\n  preToolUse:\n    - {command: ./guard}\n", "is relative"},
		{"an unknown key of a hook", "hooks:\n  preToolUse:\n    - {comand: x}\n", `:3: hooks.preToolUse[0]: unknown key "comand"; did you mean "command"?`},
		{
			"a tool without a description", "tools:\n  custom:\n    - {name: Lint, argv: [lint]}\n",
			":3: tools.custom[0]: custom tool Lint has no description",
		},
		{"an unknown key of a tool", "tools:\n  custom:\n    - {nam: Lint}\n", `:3: tools.custom[0]: unknown key "nam"; did you mean "name"?`},
		{"a tool that agents can write", "tools:\n  custom:\n    - {name: L, description: d, argv: [" + h.dir +
			"/l]}\n", ":3: tools.custom[0]: program"},
		{
			"two tools of one name",
			"tools:\n  custom:\n    - {name: L, description: d, argv: [l]}\n    - {name: L, description: d, argv: " +
				"[l]}\n", ":4: tools.custom[1]: tool \"L\" is defined twice",
		},
		{
			"a time without a unit", "approvals:\n  timeout: 300\n",
			":2: approvals.timeout: want a time with its unit, as in 90s or 5m, not \"300\"",
		},
		{
			"a text for a number", "\nsessions: {mode: auto, perAccount: many}\n",
			":2: sessions.perAccount: want a whole number, not \"many\"",
		},
		{"a part of a number", "sessions:\n  perAccount: 1.5\n", ":2: sessions.perAccount: want a whole number, not 1.5"},
		{"a list for a number", "vars:\n  capacity: [1]\n", ":2: vars.capacity: want a whole number, not a list"},
		{"a text for a list", "policy:\n  dirs: /a\n", ":2: policy.dirs: want a list, not \"/a\""},
		{"a text for a section", "policy: developer\n", ":1: policy: want keys and values, not \"developer\""},
		{"a list for a text", "log: {level: [info]}\n", ":1: log.level: want a text, not a list"},
		{
			"a wrong type of a tool", "tools:\n  custom:\n    - {name: L, timeoutMs: soon}\n",
			":3: tools.custom[0]: want a whole number for timeoutMs, not string",
		},
		{
			"an unknown key of a group", "tools:\n  groups:\n    shell: {enabeld: true}\n",
			":3: tools.groups.shell: unknown key \"enabeld\"; did you mean \"enabled\"?",
		},
		{"a tab", "log:\n\tlevel: info\n", ":2: the line cannot be read: indent with spaces, not with tabs"},
		{"a time of nothing", "approvals:\n  timeout: 0s\n", ":2: approvals.timeout: want more than zero"},
		{"an address without a port", "metrics:\n  listen: localhost\n", ":2: metrics.listen"},
		{"an account without a name", "accounts:\n  1000: ''\n", ":2: accounts[1000]: \"\" is no name"},
		{"accounts in a list", "accounts: [ann]\n", ":1: accounts: want a name for each uid"},
		{"an account of a name", "accounts:\n  ann: ann\n", ":2: accounts: \"ann\" is neither a uid nor others"},
		{"what others are", "accounts:\n  others: deny\n", ":2: accounts.others: unknown value \"deny\""},
		{"a rate below zero", "api:\n  perSecond: -1\n", ":2: api.perSecond: want zero or more"},
		{"an unknown profile", "profile: heavy\n", `:1: profile: unknown value "heavy": want strict, light`},
		{
			"an unknown profile of rules", "policy:\n  profile: light\n",
			`:2: policy.profile: unknown value "light": want developer, observe, strict`,
		},
		{
			"an unknown verdict", "policy:\n  verdict: binding\n",
			`:2: policy.verdict: unknown value "binding": want advisory, final`,
		},
		{
			"what can be undone", "policy:\n  undoable: deny\n",
			`:2: policy.undoable: unknown value "deny": want ask, allow`,
		},
		{"references in values", "vars:\n  nested: none\n", `:2: vars.nested: unknown value "none": want purpose, all`},
		{"how a write is kept", "store:\n  sync: off\n", `:2: store.sync: unknown value "off": want normal, full`},
		{
			"how a line is kept", "audit:\n  sync: never\n",
			`:2: audit.sync: unknown value "never": want interval, always`,
		},
		{"no question at all", "approvals:\n  maxPerSession: 0\n", ":2: approvals.maxPerSession: want more than zero"},
		{"no variable at all", "vars:\n  capacity: 0\n", ":2: vars.capacity: want more than zero"},
		{"no byte of a value", "vars:\n  maxValue: 0\n", ":2: vars.maxValue: want more than zero"},
		{
			"a byte less than agents need", "limits:\n  agentBytes: 67108863\n",
			":2: limits.agentBytes: 67108863 bytes are too few",
		},
		{"too small a reserve", "limits:\n  diskReserve: 1048575\n", ":2: limits.diskReserve: 1048575 bytes are too few"},
		{"too small a disk", "limits:\n  accountDisk: 1\n", ":2: limits.accountDisk: 1 bytes are too few"},
		{
			"a network rate below zero", "limits:\n  accountNetwork:\n    bytesPerSecond: -1\n",
			":3: limits.accountNetwork.bytesPerSecond: want zero or more",
		},
		{"too many days", "sessions:\n  keepDays: 1000000\n", ":2: sessions.keepDays: 1000000 is not between 0 and "},
		{"days below zero", "sessions:\n  keepDays: -1\n", ":2: sessions.keepDays: -1 is not between 0 and "},
		{"sessions below zero", "sessions:\n  perAccount: -1\n", ":2: sessions.perAccount: want zero or more"},
		{
			"a directory of policies that is missing", "policy:\n  dirs: [/nowhere/policies]\n",
			`:2: policy.dirs[0]: policy directory "/nowhere/policies" is not there`,
		},
		{"a port that is none", "metrics:\n  listen: 'localhost:65536'\n", `"65536" is not a port`},
		{"a port in words", "metrics:\n  listen: 'localhost:http'\n", `"http" is not a port`},
		{"an alias", "log: &l {level: info}\naudit: *l\n", "anchors and aliases are not supported"},
		{"two documents", "log: {}\n---\nlog: {}\n", "more than one document"},
		{"a list", "- a\n", "want keys and values"},
		{"no YAML", "log: {\n", "sandboxd.yaml"},
		{"a NUL", "log: \x00\n", "sandboxd.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := h.load(tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFlagOverEnvironmentOverFile(t *testing.T) {
	h := newHome(t)
	file := h.write(h.away, "log:\n  level: error\nsessions:\n  mode: plan\n  maxMode: acceptEdits\n")
	h.env["SANDBOXD_LOG_LEVEL"], h.env["SANDBOXD_SESSIONS_MODE"] = "warn", "default"
	c, err := Load(Source{File: file, Env: h.getenv, Dir: h.dir, Flags: map[string]string{"log.level": "debug"}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range c.Explain() {
		got[v.Key] = string(v.Value) + " " + v.From
	}
	for key, want := range map[string]string{
		"log.level":        `"debug" flag`,
		"sessions.mode":    `"default" SANDBOXD_SESSIONS_MODE`,
		"sessions.maxMode": `"acceptEdits" sandboxd.yaml:5`,
		"audit.sync":       `"interval" default`,
		"paths.stateDir":   `"` + h.env["SANDBOXD_STATE_DIR"] + `" SANDBOXD_STATE_DIR`,
	} {
		if got[key] != want {
			t.Errorf("%s: got %s, want %s", key, got[key], want)
		}
	}
	for name, value := range map[string]string{"SANDBOXD_APPROVALS_TIMEOUT": "soon", "SANDBOXD_LOG_LEVEL": "loud"} {
		before := h.env[name]
		h.env[name] = value
		if _, err := Load(Source{File: file, Env: h.getenv, Dir: h.dir}); err == nil {
			t.Errorf("%s=%s is accepted", name, value)
		}
		h.env[name] = before
	}
}

// The list is that of docs/configuration.md.
func TestEachOfTheseKeysIsSetByAVariableAndByAFlag(t *testing.T) {
	given := map[string]string{
		"sessions.mode": "plan", "sessions.maxMode": "plan", "profile": "light", "policy.profile": "strict",
		"approvals.approver": "false", "approvals.timeout": "7m0s", "store.sync": "full",
		"store.url": "postgres://db.example.com/sandboxd", "audit.sync": "always", "log.level": "debug",
		"metrics.listen": "127.0.0.1:9090",
	}
	h := newHome(t)
	given["workspace.roots"] = h.dir
	byFlag := Source{Env: h.getenv, Dir: h.dir, Flags: given}
	byVariable := Source{Dir: h.dir, Env: func(name string) string {
		for key, value := range given {
			if name == Variable(key) {
				return value
			}
		}
		return h.env[name]
	}}
	for from, src := range map[string]Source{"flag": byFlag, "": byVariable} {
		c, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, v := range c.Explain() {
			want, ok := given[v.Key]
			if !ok {
				continue
			}
			found++
			if !strings.Contains(string(v.Value), want) || v.From != cmp.Or(from, Variable(v.Key)) {
				t.Errorf("%s is %s from %s, want %s", v.Key, v.Value, v.From, want)
			}
		}
		if found != len(given) || found != len(Overrides) {
			t.Errorf("%d of %d keys are set, of %d that can be", found, len(given), len(Overrides))
		}
	}
}

func TestSandboxMergesKeyByKey(t *testing.T) {
	h := newHome(t)
	c, err := h.load("sandbox:\n  deniedPaths: [/srv/secret]\n  limits: {wallSeconds: 7}\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Sandbox.Limits.WallSeconds != 7 || c.Sandbox.Limits.CPUSeconds == 0 {
		t.Errorf("got limits %+v", c.Sandbox.Limits)
	}
	for _, want := range []string{
		"/srv/secret", "/etc/shadow", filepath.Join(h.env["HOME"], ".ssh"), c.Paths.StateDir, c.File,
	} {
		if !slices.Contains(c.Sandbox.DeniedPaths, want) {
			t.Errorf("%s is not denied", want)
		}
	}
}

// "defaults: none" gives up the secrets of the caller; those of the daemon stay.
func TestDaemonStaysHiddenWithoutDefaults(t *testing.T) {
	h := newHome(t)
	c, err := h.load("sandbox:\n  defaults: none\n")
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(c.Sandbox.DeniedPaths, "/etc/shadow") {
		t.Error("defaults: none keeps the defaults")
	}
	for _, want := range private(c.Paths, c.File) {
		if !slices.Contains(c.Sandbox.DeniedPaths, want) {
			t.Errorf("%s can be seen by calls", want)
		}
	}
}

func TestEveryKeyIsExplained(t *testing.T) {
	h := newHome(t)
	c, err := h.load("tools:\n  custom:\n    - {name: L, description: d, argv: [l], schema: {type: object}}\naccounts: {1000: ann}\n")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Value{}
	for _, v := range c.Explain() {
		if v.From == "" || len(v.Value) == 0 {
			t.Errorf("%s: value %q from %q", v.Key, v.Value, v.From)
		}
		got[v.Key] = v
	}
	for _, key := range append(slices.Clone(Overrides), "sandbox.limits.wallSeconds", "sandbox.network.allowedDomains",
		"hooks", "tools.custom", "accounts.1000", "accounts.others") {
		if _, ok := got[key]; !ok {
			t.Errorf("%s is not explained", key)
		}
	}
	if v := got["accounts.1000"]; string(v.Value) != `"ann"` || v.From != "sandboxd.yaml:4" {
		t.Errorf("got the account %s from %s", v.Value, v.From)
	}
	if v := got["accounts.others"]; string(v.Value) != `"own"` || v.From != "default" {
		t.Errorf("got accounts.others %s from %s", v.Value, v.From)
	}
}

func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		"", "log: {level: info}", "sandbox: {deniedPaths: [/x]}", "a: &a [*a]",
		"hooks: {stop: [{command: x}]}", "? [a]\n: b", "tools: {custom: [{schema: {1: 2}}]}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h := newHome(t)
		c, err := h.load(text)
		if err != nil {
			return
		}
		for _, want := range private(c.Paths, c.File) {
			if !slices.Contains(c.Sandbox.DeniedPaths, want) {
				t.Errorf("%s can be seen by calls under %q", want, text)
			}
		}
		c.Explain()
	})
}

// TestWhatAgentsCouldExchangeIsRefused: it is not enough that a file lies
// elsewhere. No link on the way to it may be theirs to change, and no directory
// with rules may hold one of theirs.
func TestWhatAgentsCouldExchangeIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		link func(h home) (at, to string)
		ok   bool
	}{
		{"a link into the workspace", func(h home) (string, string) { return h.away + "/link", h.dir }, false},
		{"a link of it that leads out", func(h home) (string, string) { return h.dir + "/link", h.away }, false},
		{"a link that stays away", func(h home) (string, string) { return h.away + "/link", h.away }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHome(t)
			link, to := tt.link(h)
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
			h.write(to, "log: {level: debug}\n")
			program := filepath.Join(link, "program")
			if err := os.WriteFile(program, nil, 0o755); err != nil {
				t.Fatal(err)
			}
			away := Source{File: filepath.Join(link, "sandboxd.yaml"), Env: h.getenv, Dir: h.dir}
			_, err := Load(away)
			if tt.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "which agents can write") {
				t.Errorf("the configuration: got %v", err)
			}
			if !tt.ok { // a person must not be able to allow it either
				delete(h.env, "SANDBOXD_WORKSPACE_ROOTS")
				c, err := Load(away)
				if err != nil {
					t.Fatal(err)
				}
				if _, err = c.Project(h.dir); err == nil || !strings.Contains(err.Error(), "which agents can write") {
					t.Errorf("a project that holds the configuration: got %v", err)
				}
				h.env["SANDBOXD_WORKSPACE_ROOTS"] = h.dir
			}
			for what, text := range map[string]string{
				"a policy directory": "policy:\n  dirs: [" + link + "]\n",
				"a program to ask":   "policy:\n  canUseTool: {command: [" + program + "]}\n",
				"a program to tell":  "approvals:\n  command: [" + program + "]\n",
				"a hook":             "hooks:\n  preToolUse:\n    - {command: " + program + "}\n",
				"a tool":             "tools:\n  custom:\n    - {name: L, description: d, argv: [" + program + "]}\n",
			} {
				_, err := h.load(text)
				switch {
				case tt.ok && err != nil:
					t.Errorf("%s: got %v, want none", what, err)
				case !tt.ok && (err == nil || !strings.Contains(err.Error(), "which agents can write")):
					t.Errorf("%s: got %v, want an error", what, err)
				}
			}
		})
	}
	h := newHome(t)
	for what, text := range map[string]string{
		"a configuration in a directory that may be written": "sandbox:\n  allowedWritePaths: [" + h.away + "]\n",
		"a configuration where everything may be written":    "sandbox:\n  allowedWritePaths: []\n",
		"a directory of policies around the workspace":       "policy:\n  dirs: [" + filepath.Dir(h.dir) + "]\n",
	} {
		if _, err := h.load(text); err == nil || !strings.Contains(err.Error(), "which agents can write") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// TestNoNameLeadsToTheMetrics: whatever address of this machine it gives.
func TestNoNameLeadsToTheMetrics(t *testing.T) {
	for at, refused := range map[string]bool{
		"127.0.0.1:9090": true, "127.9.9.9:9090": true, "0.0.0.0:9090": true, "[::1]:9090": true,
		"[::ffff:127.0.0.1]:9090": true, "127.0.0.1:9091": false, "127.0.0.1": false, "192.0.2.1:9090": false,
	} {
		c := &Config{Metrics: Metrics{Listen: "localhost:9090"}}
		c.Sandbox.Network.Hosts = map[string]string{"a.test": at}
		if err := c.checkNetworkHosts(); (err != nil) != refused {
			t.Errorf("%s: got %v", at, err)
		}
	}
	c := &Config{}
	c.Sandbox.Network.Hosts = map[string]string{"a.test": "127.0.0.1:9090"}
	if err := c.checkNetworkHosts(); err != nil {
		t.Errorf("no metrics: %v", err)
	}
}

// TestUnlistedHostsAreAskedAbout, until the file says otherwise; it may name hosts beside.
func TestUnlistedHostsAreAskedAbout(t *testing.T) {
	h := newHome(t)
	for text, want := range map[string]string{
		"log: {level: debug}\n":                               guard.UnlistedAsk,
		"sandbox: {network: {allowedDomains: [a.example]}}\n": guard.UnlistedAsk,
		"sandbox: {defaults: none}\n":                         guard.UnlistedAsk,
		"sandbox: {network: {unlisted: deny}}\n":              guard.UnlistedDeny,
	} {
		if c, err := h.load(text); err != nil || c.Sandbox.Network.Unlisted != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
