package servers_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

type named string

func (n named) Spec() tool.Spec                                 { return tool.Spec{Name: string(n)} }
func (named) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }
func (named) Run(context.Context, tool.In, sandbox.Box) (tool.Output, error) {
	return tool.Output{}, nil
}

func TestM01_M07_M13_M26_WhatAServerMayBe(t *testing.T) {
	for _, tt := range []struct{ name, server, want string }{
		{"stdio is the type that is left out", `{"command":"x"}`, ""},
		{"stdio with everything", `{"type":"stdio","command":"/bin/x","args":["a"],"env":{"A":"b"},"envFiles":{"T":"/etc/t"},
			"tools":{"allow":["a"],"deny":["b"]},"callTimeout":"60s","sandbox":{"allowedWritePaths":["/repo"],
			"network":{"allowedDomains":["example.com"]}},"limits":{"memoryBytes":536870912,"processes":64,
			"concurrentCalls":8,"callsPerMinute":120,"lineBytes":16777216}}`, ""},
		{"sse", `{"type":"sse","url":"https://example.com/sse","headers":{"A":"b"}}`, ""},
		{"http", `{"type":"http","url":"http://127.0.0.1:8080/","headerFiles":{"Authorization":"/etc/t"}}`, ""},
		{"claudeAIProxy", `{"type":"claudeAIProxy","url":"https://example.com/","id":"s"}`, ""},
		{"a proxy without an id", `{"type":"claudeAIProxy","url":"https://example.com/"}`, "id is missing"},
		{"sdk cannot be described", `{"type":"sdk"}`, "only Go code"},
		{"an unknown type", `{"type":"smoke","url":"x"}`, `unknown type "smoke"`},
		{"no command", `{}`, "command is missing"},
		{"no address", `{"type":"http"}`, "url: it is missing"},
		{"what is no address", `{"type":"http","url":"https://a.test/%zz"}`, "url: it is no address"},
		{"another scheme", `{"type":"http","url":"ftp://example.com"}`, "neither http nor https"},
		{"a user in the address", `{"type":"http","url":"https://a:b@example.com"}`, "without a user"},
		{
			"a network that a remote server has not",
			`{"type":"http","url":"http://a.example","sandbox":{"network":{"allowedDomains":["b.example"],
				"hosts":{"b.example":"10.0.0.1"},"allowLocalBinding":true,"deniedDomains":["c.example"]}}}`,
			"sandbox.network.allowedDomains, sandbox.network.hosts, sandbox.network.allowLocalBinding does nothing",
		},
		{"keys of another type", `{"type":"http","url":"http://a.example","command":"x"}`, "command does nothing"},
		{"an unknown key", `{"command":"x","cmd":"y"}`, `unknown field "cmd"`},
		{"a key given twice", `{"command":"x","command":"y"}`, "given twice"},
		{"a limit that is none", `{"command":"x","limits":{"processes":-1}}`, "limits.processes"},
		{"a relative path", `{"command":"x","sandbox":{"allowedWritePaths":["a"]}}`, "relative"},
		{"a question that nobody can be asked", `{"command":"x","sandbox":{"network":{"allowedDomains":[],"unlisted":"ask"}}}`, "nobody is asked"},
		{"a variable that is none", `{"command":"x","env":{"A=B":"c"}}`, "env:"},
		{"a variable twice", `{"command":"x","env":{"A":"c"},"envFiles":{"A":"/f"}}`, "both"},
		{"a header that is none", `{"type":"http","url":"http://a.example","headers":{"A B":"c"}}`, "cannot be sent"},
		{"a header twice", `{"type":"http","url":"http://a.test","headers":{"A":"c"},"headerFiles":{"A":"/f"}}`, "both"},
		{"a header twice, in other letters", `{"type":"http","url":"http://a.test","headers":{"a-b":"c"},"headerFiles":{"A-B":"/f"}}`, "both"},
		{"a relative file of a header", `{"type":"http","url":"http://a.test","headerFiles":{"A":"f"}}`, "headerFiles:"},
		{"a relative file of a variable", `{"command":"x","envFiles":{"A":"f"}}`, "envFiles:"},
		{"a time before now", `{"command":"x","callTimeout":"-1s"}`, "callTimeout:"},
		{"a time that is too long", `{"command":"x","callTimeout":"1000h"}`, "callTimeout:"},
		{"no object", `[]`, "cannot unmarshal"},
	} {
		good, errs := servers.Parse(map[string]json.RawMessage{"s": json.RawMessage(tt.server)})
		if _, ok := good["s"]; tt.want == "" && (!ok || errs["s"] != nil) {
			t.Errorf("%s: %v", tt.name, errs["s"])
		} else if tt.want != "" && (ok || errs["s"] == nil || !strings.Contains(errs["s"].Error(), tt.want)) {
			t.Errorf("%s: %v, want %s", tt.name, errs["s"], tt.want)
		}
	}
	for _, name := range []string{"a__b", "", "a b", "ä", "_a", "a_", strings.Repeat("x", 33), "a\nb"} {
		if err := (servers.Server{Command: "x"}).Check(name); err == nil {
			t.Errorf("M-13: %q is the name of a server", name)
		}
	}
	for _, s := range []servers.Server{
		{Headers: map[string]string{"a-b": "c", "A-B": "d"}}, {HeaderFiles: map[string]string{"a-b": "/f", "A-B": "/g"}},
	} {
		s.Type, s.URL = servers.TypeHTTP, "http://a.test"
		if err := s.Check("s"); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("one header in two spellings: %v", err)
		}
	}
	own := servers.Server{Type: servers.TypeSDK, SDK: &servers.InProcess{Name: "own", Version: "1", Tools: []tool.Tool{named("a"), named("b")}}}
	if err := own.Check("own"); err != nil {
		t.Error(err)
	}
	own.SDK.Tools = append(own.SDK.Tools, named("a"))
	if err := own.Check("own"); err == nil || !strings.Contains(err.Error(), "two tools") {
		t.Errorf("M-26: two tools of one name: %v", err)
	}
}

func TestASectionThatIsWrongSaysWhere(t *testing.T) {
	c := servers.Defaults()
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	c.FirstSight, c.PathArguments = "guess", "maybe"
	c.Servers = map[string]servers.Server{"a": {Command: "./x"}, "b": {}, "ok": {Command: "x"}}
	err := c.Check()
	for _, want := range []string{"mcp.firstSight", "mcp.pathArguments", "mcp.servers.a: command", "mcp.servers.b: command is missing"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	c.Servers = map[string]servers.Server{"a": {Command: "/opt/x", EnvFiles: map[string]string{"T": "/opt/t"}}}
	if got := c.Trusts()["servers"]; !slices.Equal(got, []string{"/opt/t", "/opt/x"}) {
		t.Errorf("it trusts %q", got)
	}
	c.TokenFile = "/opt/token"
	c.Servers["b"] = servers.Server{HeaderFiles: map[string]string{"Authorization": "/opt/h"}}
	if got := c.Hides(); !slices.Equal(got, []string{"/opt/h", "/opt/t", "/opt/token"}) {
		t.Errorf("calls do not see %q", got)
	}
}

// What a server has in its own sandbox.network is kept from agents as what is in that of the daemon.
func TestSecretsOfTheNetworkOfAServerAreKeptFromAgents(t *testing.T) {
	c := servers.Defaults()
	c.Servers = map[string]servers.Server{"a": {Command: "x", Sandbox: servers.Sandbox{Network: guard.Network{
		AllowedDomains: []string{"api.test", "own.test"}, Intercept: []string{"api.test", "own.test"}, CAFile: "/opt/ca.pem",
		Secrets: []guard.Secret{{Host: "api.test", File: "/opt/s"}, {Host: "own.test", Command: []string{"/opt/print", "own"}}},
	}}}}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if got := c.Hides(); !slices.Equal(got, []string{"/opt/s"}) {
		t.Errorf("calls do not see %q", got)
	}
	if got := c.Trusts()["servers"]; !slices.Equal(got, []string{"/opt/ca.pem", "/opt/s"}) {
		t.Errorf("it trusts %q", got)
	}
	if got := c.Programs()["servers.a.sandbox.network.secrets.1"]; !slices.Equal(got, []string{"/opt/print", "own"}) {
		t.Errorf("it runs %q", c.Programs())
	}
}

// The numbers are those of the table in docs/mcp.md.
func TestWhatAServerHasWithoutLimitsOfItsOwn(t *testing.T) {
	want := servers.Limits{
		MemoryBytes: 512 << 20, Processes: 64, ConcurrentCalls: 8, CallsPerMinute: 120, LineBytes: 16<<20 - 1,
	}
	if got := (servers.Limits{}).WithDefaults(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestM10_ListsOfTools(t *testing.T) {
	for _, tt := range []struct {
		name        string
		allow, deny []string
		want        bool // whether read is there
	}{
		{"no list", nil, nil, true},
		{"it is allowed", []string{"write", "read"}, nil, true},
		{"others are allowed", []string{"write"}, nil, false},
		{"it is denied", nil, []string{"read"}, false},
		{"others are denied", nil, []string{"write"}, true},
		{"it is allowed and denied", []string{"read"}, []string{"read"}, false},
	} {
		if got := (servers.Lists{Allow: tt.allow, Deny: tt.deny}).Has("read"); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestM05_M09_SecretsComeFromFilesOfTheOwner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("s3cret-value\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := servers.Server{Command: "x", Env: map[string]string{"A": "b"}, EnvFiles: map[string]string{"T": file}}
	env, err := s.Environ()
	if err != nil || !slices.Equal(env, []string{"A=b", "T=s3cret-value"}) {
		t.Errorf("got %q, %v", env, err)
	}
	p := servers.Server{Type: servers.TypeClaudeAIProxy, ID: "server-abc", HeaderFiles: map[string]string{"Authorization": file}}
	h, err := p.Header()
	if err != nil || h.Get("Authorization") != "s3cret-value" || h.Get("X-ClaudeAI-Server-ID") != "server-abc" {
		t.Errorf("got %v, %v", h, err)
	}
	if err := os.WriteFile(file, []byte("renewed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if env, err = s.Environ(); err != nil || !slices.Contains(env, "T=renewed") {
		t.Errorf("a secret that was renewed: %q, %v", env, err)
	}
	if h, err = p.Header(); err != nil || h.Get("Authorization") != "renewed" {
		t.Errorf("a header that was renewed: %v, %v", h, err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Environ(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others read: %v", err)
	}
}

// A secret is a short file of its owner, and one that cannot be sent in a header is said.
func TestWhatASecretMayBe(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		dir: "is not a regular file", file("long", strings.Repeat("x", 8<<10+1)): "has more than 8192 bytes",
		file("most", strings.Repeat("x", 8<<10)): "",
		file("lines", "a\nb"):                    "has control characters", file("end", "a\r\n"): "",
	} {
		s := servers.Server{Type: servers.TypeHTTP, URL: "http://a.test", HeaderFiles: map[string]string{"Token": path}}
		h, err := s.Header()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
		if filepath.Base(path) == "end" && h.Get("Token") != "a" {
			t.Errorf("the end of the line is part of it: %q", h.Get("Token"))
		}
	}
}
