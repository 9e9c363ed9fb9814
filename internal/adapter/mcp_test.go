package adapter

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func entryFor(client, file string) MCPEntry {
	return MCPEntry{Installation: Installation{
		Agents: []string{client}, Exe: "/opt/sandboxd", File: file, Question: 5 * time.Minute, Write: true,
	}}
}

// What others wrote stays; what is ours is put in once, renewed, and taken out again.
func TestM24_TheEntryOfAnMCPClient(t *testing.T) {
	const (
		others = "{\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"git\": {\"command\": \"mcp-server-git\"}\n  }\n}\n"
		git    = "[mcp_servers.git]\ncommand = \"mcp-server-git\"\n"
		toml   = "model = \"o\" # mine\n\n" + git
	)
	for _, tt := range []struct {
		name, client, old string
		want              []string // parts of the new file
		back              string   // after the removal
	}{
		{"of Claude Code", "claude-code", others, []string{`"theme": "dark"`, `"git"`, `"type": "stdio"`, `"/opt/sandboxd"`}, others},
		{"of Gemini, which gives up after ten minutes", "gemini", others, []string{`"timeout": 330000`}, others},
		{"of Cursor, a new file", "cursor", "", []string{`"mcpServers"`, `"args"`}, "{}\n"},
		{"of VS Code, beside a comment", "vscode", "{\n  // mine\n  \"servers\": {}\n}\n", []string{"// mine", `"servers"`}, ""},
		{
			"an older one, with what a person added", "cursor",
			`{"mcpServers": {"sandboxd": {"command": "/old/sandboxd", "args": [], "env": {"A": "b"}}}}`,
			[]string{`"/opt/sandboxd"`, `"env": {"A": "b"}`},
			"{}",
		},
		{
			"of Codex, behind a line that does not end", "codex", strings.TrimSuffix(toml, "\n"),
			[]string{toml + "\n[mcp_servers.sandboxd]\n"},
			"",
		},
		{"of Codex", "codex", toml, []string{toml, "[mcp_servers.sandboxd]\n", "tool_timeout_sec = 330\n"}, toml},
		{"of Codex, a new file", "codex", "", []string{"command = \"/opt/sandboxd\"\nargs = [\"mcp\"]\n"}, ""},
		{
			"of Codex, an older one in the middle", "codex",
			"[mcp_servers.sandboxd]\ncommand = \"/old/sandboxd\"\nenabled = true\n\n" + git,
			[]string{"enabled = true", "command = \"/opt/sandboxd\"", "tool_timeout_sec = 330", git},
			git,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "settings")
			if tt.old != "" {
				if err := os.WriteFile(file, []byte(tt.old), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			e := entryFor(tt.client, file)
			var told strings.Builder
			if err := e.Install(&told); err != nil || !strings.Contains(told.String(), mcpFiles[tt.client].note) {
				t.Fatalf("what the person does next is missing: %v\n%s", err, told.String())
			}
			got := read(t, file)
			for _, part := range tt.want {
				if !strings.Contains(got, part) {
					t.Errorf("no %q in\n%s", part, got)
				}
			}
			var said strings.Builder
			if err := e.Install(&said); err != nil || !strings.Contains(said.String(), "has the entry already") {
				t.Errorf("again: %v\n%s", err, said.String())
			}
			if err := e.Uninstall(io.Discard); err != nil {
				t.Fatal(err)
			}
			if got := read(t, file); strings.Contains(got, "sandboxd") || tt.back != "" && got != tt.back {
				t.Errorf("without the entry the file is\n%s\nwant\n%s", got, tt.back)
			}
		})
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// A file that cannot be understood, or an entry of somebody else, is not changed.
func TestM24_AnEntryOfOthersIsNotChanged(t *testing.T) {
	for _, tt := range []struct{ name, client, old string }{
		{"another program by our name", "cursor", `{"mcpServers": {"sandboxd": {"command": "evil"}}}`},
		{"no JSON", "cursor", `{`},
		{"servers that are no object", "vscode", `{"servers": []}`},
		{"comments that the client does not read", "claude-code", "{} // mine\n"},
		{"another program by our name in TOML", "codex", "[mcp_servers.sandboxd]\ncommand = \"evil\"\n"},
		{"a table without a command", "codex", "[mcp_servers.sandboxd]\nurl = \"http://x\"\n"},
		{"an inline table", "codex", "mcp_servers = { sandboxd = { command = \"x\" } }\n"},
		{"a dotted key", "codex", "mcp_servers.sandboxd.command = \"x\"\n"},
		{"a quoted table", "codex", "[mcp_servers.\"sandboxd\"]\ncommand = \"x\"\n"},
		{"a table of tables", "codex", "[mcp_servers]\nsandboxd = { command = \"x\" }\n"},
		{"a text of several lines", "codex", "a = \"\"\"\n[mcp_servers.sandboxd]\n\"\"\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "settings")
			if err := os.WriteFile(file, []byte(tt.old), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := entryFor(tt.client, file).Install(io.Discard); err == nil {
				t.Error("it was changed")
			}
			if got := read(t, file); got != tt.old {
				t.Errorf("the file is now\n%s", got)
			}
		})
	}
}

// An entry that is not there is no change, and a client that nobody knows is an error with those that are known.
func TestM24_WhatIsNotThereIsNotRemoved(t *testing.T) {
	for _, tt := range []struct{ name, client, old string }{
		{"no servers", "cursor", "{\"a\":  1}"},
		{"servers of others", "cursor", `{"mcpServers":  {"git": {"command": "x"}}}`},
		{"no servers in TOML", "codex", "model = \"o\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "settings")
			if err := os.WriteFile(file, []byte(tt.old), 0o600); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			err := entryFor(tt.client, file).Uninstall(&said)
			if got := read(t, file); err != nil || got != tt.old || !strings.Contains(said.String(), "does not have the entry") {
				t.Errorf("%v, it says %q, and the file is\n%s", err, said.String(), got)
			}
		})
	}
	e, ok := errors.AsType[*tool.Error](entryFor("emacs", "x").Install(io.Discard))
	if !ok || e.Code != "unknown_agent" || !strings.Contains(e.Hint, "codex") {
		t.Errorf("got %+v", e)
	}
}
