package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
		"SANDBOXD_RUNTIME_DIR": "/run/sandboxd-test",
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
	return Load(Source{File: h.write(h.away, text), Env: h.getenv, Dir: h.dir})
}

func TestNoFileServesTheDirectory(t *testing.T) {
	h := newHome(t)
	for name, file := range map[string]string{
		"no file": "", "an empty file": h.write(h.away, ""), "a file of comments": h.write(t.TempDir(), "# nothing\n"),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(Source{File: file, Env: h.getenv, Dir: h.dir})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.Workspace.Roots, []string{h.dir}) || c.Sessions.Mode != "auto" || c.Policy.Profile != "developer" {
				t.Errorf("got roots %q, mode %q, profile %q", c.Workspace.Roots, c.Sessions.Mode, c.Policy.Profile)
			}
			for _, want := range []string{h.dir, "/tmp"} {
				if !slices.Contains(c.Sandbox.AllowedWritePaths, want) {
					t.Errorf("%s is not writable: %q", want, c.Sandbox.AllowedWritePaths)
				}
			}
			if c.Sandbox.Network.AllowedDomains == nil || len(c.Sandbox.Network.AllowedDomains) > 0 || c.Approvals.Timeout != 5*time.Minute {
				t.Errorf("got domains %#v, timeout %v", c.Sandbox.Network.AllowedDomains, c.Approvals.Timeout)
			}
		})
	}
}

func TestMistakesNameTheirLine(t *testing.T) {
	h := newHome(t)
	for _, tt := range []struct{ name, text, want string }{
		{"an unknown key", "log:\n  levle: info\n", `:2: unknown key "levle"`},
		{"an unknown top key", "\nworkspaces: {}\n", `:2: unknown key "workspaces"`},
		{"a key given twice", "log: {level: info}\nlog: {level: warn}\n", ":2: log: the key is given twice, first in line 1"},
		{"a sandbox key given twice", "sandbox:\n  require: []\n  require: [userns]\n", ":3: sandbox.require: the key is given twice, first in line 2"},
		{"an unknown sandbox key", "sandbox:\n  network:\n    allowedDomain: [a.org]\n", `:3: sandbox: unknown key "network.allowedDomain"`},
		{"a wrong type in the sandbox", "sandbox:\n  limits:\n    wallSeconds: many\n", ":3: sandbox: limits.wallSeconds"},
		{"a relative path in the sandbox", "sandbox:\n\n  allowedReadPaths: [src]\n", `:3: sandbox: allowedReadPaths: "src" is relative`},
		{"a negative limit", "sandbox:\n  limits:\n    processes: -1\n", ":3: sandbox: limits.processes: -1 is negative"},
		{"a relative root", "workspace:\n  roots: [work]\n", `workspace.roots: "work" is relative`},
		{"a root that is the system", "workspace:\n  roots: [/]\n", "whole system"},
		{"no root", "workspace: {roots: []}\n", "no root is named"},
		{"an unknown mode", "sessions:\n  mode: yolo\n", `:2: sessions.mode: unknown value "yolo"`},
		{"a mode over the limit", "sessions:\n  mode: bypassPermissions\n", ":2: sessions.mode: bypassPermissions is looser"},
		{"a rule that can never match", "policy:\n  rules:\n    deny:\n      - Bash(make)\n      - Bash(a | b)\n", ":5: policy.rules.deny[1]: rule"},
		{"an allow that a deny covers", "policy:\n  rules:\n    allow: [Bash(ls)]\n    deny: [Bash(ls)]\n", ":3: policy.rules.allow[0]"},
		{"a relative policy directory", "policy:\n  dirs: [policies]\n", `:2: policy.dirs[0]: policy directory "policies" is relative`},
		{"two to ask", "policy:\n  canUseTool: {command: [/bin/true], webhook: 'http://x'}\n", "either a command or a webhook"},
		{"a relative program to ask", "policy:\n  canUseTool:\n    command: [may-run]\n", `program "may-run" is relative`},
		{"a program to ask that agents can write", "policy:\n  canUseTool: {command: [" + h.dir + "/may-run]}\n", "which agents can write"},
		{"a webhook that is no address", "policy:\n  canUseTool: {webhook: 'file:///etc/passwd'}\n", "no http or https address"},
		{"no time to ask", "policy:\n  canUseTool: {webhook: 'http://x', timeout: 0s}\n", "more than zero"},
		{"decisions kept for less than nothing", "policy:\n  keepDecisions: -1s\n", "zero or more"},
		{"policies that agents can write", "policy:\n  dirs: [" + h.dir + "/p]\n", "which agents can write"},
		{"an unknown event", "hooks:\n  preToolUs:\n    - {command: true}\n", ":3: hooks.preToolUs[0]"},
		{"a hook that agents can write", "hooks:\n  preToolUse:\n    - {command: " + h.dir + "/guard}\n", ":3: hooks.preToolUse[0]"},
		{"an unknown policy of a tool", "tools:\n  permissions:\n    Bash: {execution: ask}\n", ":3: tools.permissions.Bash: unknown execution \"ask\""},
		{"an unknown policy of results", "tools:\n  permissions:\n    Bash: {results: sometimes}\n", "unknown results"},
		{"a relative program to announce", "approvals:\n  command: [tell]\n", ":2: approvals.command: program \"tell\" is relative"},
		{"a program that agents can write", "approvals:\n  command: [" + h.dir + "/tell]\n", "approvals.command"},
		{"a relative hook", "hooks:\n  preToolUse:\n    - {command: ./guard}\n", "is relative"},
		{"an unknown key of a hook", "hooks:\n  preToolUse:\n    - {comand: x}\n", `:3: unknown key "comand"`},
		{"a tool without a description", "tools:\n  custom:\n    - {name: Lint, argv: [lint]}\n", ":3: tools.custom[0]: custom tool Lint has no description"},
		{"an unknown key of a tool", "tools:\n  custom:\n    - {nam: Lint}\n", `:3: unknown field "nam"`},
		{"a tool that agents can write", "tools:\n  custom:\n    - {name: L, description: d, argv: [" + h.dir + "/l]}\n", ":3: tools.custom[0]: program"},
		{"two tools of one name", "tools:\n  custom:\n    - {name: L, description: d, argv: [l]}\n    - {name: L, description: d, argv: [l]}\n", ":4: tools.custom[1]: tool \"L\" is defined twice"},
		{"a time without a unit", "approvals:\n  timeout: 300\n", ":2: "},
		{"a time of nothing", "approvals:\n  timeout: 0s\n", ":2: approvals.timeout: want more than zero"},
		{"an address without a port", "metrics:\n  listen: localhost\n", ":2: metrics.listen"},
		{"an account without a name", "accounts:\n  1000: ''\n", "accounts: 1000"},
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

func TestFileInTheWorkspaceIsRefused(t *testing.T) {
	h := newHome(t)
	file := h.write(h.dir, "log: {level: debug}\n")
	if _, err := Load(Source{File: file, Env: h.getenv, Dir: h.dir}); err == nil || !strings.Contains(err.Error(), "which agents can write") {
		t.Errorf("a configuration that agents can write: got %v", err)
	}
	c, err := Load(Source{Env: h.getenv, Dir: h.dir})
	if err != nil || c.File != "" || c.Log.Level != "info" {
		t.Errorf("a file in the workspace was found without being named: %+v, %v", c, err)
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

func TestSandboxMergesKeyByKey(t *testing.T) {
	h := newHome(t)
	c, err := h.load("sandbox:\n  deniedPaths: [/srv/secret]\n  limits: {wallSeconds: 7}\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Sandbox.Limits.WallSeconds != 7 || c.Sandbox.Limits.CPUSeconds == 0 {
		t.Errorf("got limits %+v", c.Sandbox.Limits)
	}
	for _, want := range []string{"/srv/secret", "/etc/shadow", filepath.Join(h.env["HOME"], ".ssh"), c.Paths.StateDir, c.File} {
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
	for _, want := range Private(c.Paths, c.File) {
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
	for _, key := range append(slices.Clone(Overrides), "sandbox.limits.wallSeconds", "sandbox.network.allowedDomains", "hooks", "tools.custom", "accounts") {
		if _, ok := got[key]; !ok {
			t.Errorf("%s is not explained", key)
		}
	}
	if v := got["accounts"]; string(v.Value) != `{"1000":"ann"}` || v.From != "sandboxd.yaml:4" {
		t.Errorf("got accounts %s from %s", v.Value, v.From)
	}
	if c.Account(1000) != "ann" || c.Account(1001) != DefaultAccount {
		t.Errorf("got accounts %q, %q", c.Account(1000), c.Account(1001))
	}
}

func FuzzLoad(f *testing.F) {
	for _, s := range []string{"", "log: {level: info}", "sandbox: {deniedPaths: [/x]}", "a: &a [*a]", "hooks: {stop: [{command: x}]}", "? [a]\n: b", "tools: {custom: [{schema: {1: 2}}]}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h := newHome(t)
		c, err := h.load(text)
		if err != nil {
			return
		}
		for _, want := range Private(c.Paths, c.File) {
			if !slices.Contains(c.Sandbox.DeniedPaths, want) {
				t.Errorf("%s can be seen by calls under %q", want, text)
			}
		}
		c.Explain()
	})
}
