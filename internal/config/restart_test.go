package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatNeedsARestart(t *testing.T) {
	h := newHome(t)
	other := filepath.Join(filepath.Dir(h.dir), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, before, after, want string }{
		{"nothing changed", "log: {level: debug}", "log: {level: debug}", ""},
		{
			"rules, limits and levels are read again", "",
			"log: {level: debug}\npolicy: {rules: {deny: [Bash]}}\nsandbox: {limits: {wallSeconds: 5}}\napi: " +
				"{perSecond: 3}\noperators: {uids: [5]}", "",
		},
		{"a default that is written down is no change", "", "store: {sync: normal}", ""},
		{"the workspace", "", "workspace: {roots: [" + other + "]}", "workspace.roots"},
		{"how people are asked", "", "approvals: {timeout: 9s}", "approvals.timeout"},
		{"how the record is kept", "audit: {sync: always}", "", "audit.sync"},
		{"how many variables a session has", "", "vars: {capacity: 9}", "vars.capacity"},
		{"where the state is", "", "store: {maxConns: 9}", "store.maxConns"},
		{"what agents take together", "", "limits: {diskReserve: 1048576}", "limits.diskReserve"},
		{"where the metrics are", "metrics: {listen: '127.0.0.1:9090'}", "", "metrics.listen"},
		{"how many sessions an account has", "", "sessions: {perAccount: 9}", "sessions.perAccount"},
		{"the rest of that section is read again", "", "sessions: {keepDays: 9, mode: plan, maxMode: plan}", ""},
		{"who may connect", "", "api: {group: 0}", "api.group"},
		{"who operates", "api: {operatorGroup: 0}", "", "api.operatorGroup"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, err := h.load(tt.before)
			if err != nil {
				t.Fatal(err)
			}
			after, err := h.load(tt.after)
			if err != nil {
				t.Fatal(err)
			}
			if got := before.NeedsRestart(after); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	env := h.env["SANDBOXD_STATE_DIR"]
	before, err := h.load("")
	if err != nil {
		t.Fatal(err)
	}
	h.env["SANDBOXD_STATE_DIR"] = env + "2"
	after, err := h.load("")
	if err != nil {
		t.Fatal(err)
	}
	if got := before.NeedsRestart(after); got == "" {
		t.Error("another state directory is taken for the same")
	}
}

func TestWebhook(t *testing.T) {
	h := newHome(t)
	secret := func(dir, name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := secret(h.away, "secret", "0123456789abcdef\n", 0o600)
	c, err := h.load("approvals: {webhook: {url: 'https://example.com/hook', secretFile: " + good + "}}")
	if err != nil {
		t.Fatal(err)
	}
	if c.Approvals.Webhook.Secret != "0123456789abcdef" {
		t.Errorf("got %q", c.Approvals.Webhook.Secret)
	}
	if !inside(good, c.Sandbox.DeniedPaths) {
		t.Error("calls can read the secret")
	}
	for _, v := range c.Explain() {
		if strings.Contains(string(v.Value), "0123456789abcdef") {
			t.Errorf("%s shows the secret", v.Key)
		}
	}
	for _, tt := range []struct{ name, url, file, want string }{
		{"no file", "https://example.com", "", "or neither"},
		{"no url", "", good, "or neither"},
		{"another scheme", "ftp://example.com", good, "want http"},
		{"a relative file", "https://example.com", "secret", "is relative"},
		{"where agents write", "https://example.com", secret(h.dir, "s", "0123456789abcdef", 0o600), "agents can write"},
		{"too short", "https://example.com", secret(h.away, "short", "0123456789abcde", 0o600), "at least 16"},
		{"open to others", "https://example.com", secret(h.away, "open", "0123456789abcdef", 0o644), "chmod 600"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := h.load("approvals: {webhook: {url: '" + tt.url + "', secretFile: '" + tt.file + "'}}")
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "approvals.webhook") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
