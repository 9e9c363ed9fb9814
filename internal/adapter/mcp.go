package adapter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// serverName is how our server is called in the configuration of a client.
const serverName = "sandboxd"

// mcpFile is where a client of MCP has its servers, and what an entry looks like.
type mcpFile struct {
	settingsFile
	key   string // of the object that has the servers; "" is TOML
	typed bool   // an entry says "type": "stdio"
	unit  time.Duration
	wait  string // the member for how long a call may take, where the client gives up after minutes, in units
	note  string
}

var mcpFiles = map[string]mcpFile{
	clients.ClaudeCode: {
		settingsFile: settingsFile{home: "CLAUDE_CONFIG_DIR", file: ".claude.json", project: ".mcp.json"},
		key:          "mcpServers", typed: true, note: "Claude Code starts it in the next session; /mcp shows it",
	},
	clients.Codex: {
		settingsFile: settingsFile{
			home: "CODEX_HOME", dir: ".codex", file: "config.toml", project: ".codex/config.toml",
		},
		unit: time.Second, wait: "tool_timeout_sec", note: "Codex starts it in the next session; /mcp shows it",
	},
	clients.Gemini: {
		settingsFile: settingsFile{
			dir: ".gemini", file: "settings.json", project: ".gemini/settings.json", comments: true,
		},
		key: "mcpServers", unit: time.Millisecond, wait: "timeout",
		note: "Gemini CLI starts it in the next session; /mcp shows it",
	},
	"cursor": {
		settingsFile: settingsFile{dir: ".cursor", file: "mcp.json", project: ".cursor/mcp.json", comments: true},
		key:          "mcpServers", typed: true, note: "Cursor shows it in its settings, under MCP",
	},
	"vscode": {
		settingsFile: settingsFile{
			home: "XDG_CONFIG_HOME", dir: ".config", file: "Code/User/mcp.json", project: ".vscode/mcp.json",
			comments: true,
		},
		key: "servers", typed: true, note: "VS Code asks once whether you trust it",
	},
}

// MCPClients returns the clients of MCP whose configuration is known.
func MCPClients() []string {
	return []string{clients.ClaudeCode, clients.Codex, clients.Gemini, "cursor", "vscode"}
}

// MCPEntry says which entry a client of MCP gets.
type MCPEntry struct {
	Installation
	Socket string // that the bridge is told; "" lets it look
}

// mcpCommand is what a client starts.
type mcpCommand struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Timeout int      `json:"timeout,omitempty"`
}

func (e MCPEntry) entry(at mcpFile) mcpCommand {
	c := mcpCommand{Command: e.Exe, Args: []string{"mcp"}}
	if e.Socket != "" {
		c.Args = append(c.Args, "--socket", e.Socket)
	}
	if at.typed {
		c.Type = "stdio"
	}
	if at.wait != "" {
		c.Timeout = int((e.giveUp() + agentMargin) / at.unit)
	}
	return c
}

// Print writes the entry as it stands in the file of the client, and returns which file that is.
func (e MCPEntry) Print(out io.Writer) (file string, err error) {
	at, err := e.at()
	if err != nil {
		return "", err
	}
	if file, err = e.path(at.settingsFile); err != nil {
		return "", err
	}
	text := e.table(at)
	if at.key != "" {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		err = enc.Encode(map[string]any{at.key: map[string]any{serverName: e.entry(at)}})
		text = b.String()
	}
	if err == nil {
		_, err = io.WriteString(out, text)
	}
	return file, err
}

func (e MCPEntry) at() (mcpFile, error) {
	at, ok := mcpFiles[e.Agents[0]]
	if !ok {
		return at, &tool.Error{
			Code: "unknown_agent", Msg: fmt.Sprintf("unknown client %q", e.Agents[0]),
			Hint: "known are " + strings.Join(MCPClients(), ", "),
		}
	}
	return at, nil
}

// Install puts the entry into the configuration of the client, as [Install] does with the hook.
func (e MCPEntry) Install(out io.Writer) error { return e.change(out, true) }

// Uninstall takes it out.
func (e MCPEntry) Uninstall(out io.Writer) error { return e.change(out, false) }

func (e MCPEntry) change(out io.Writer, install bool) error {
	at, err := e.at()
	if err != nil {
		return err
	}
	c := change{note: at.note}
	if c.file, err = e.path(at.settingsFile); err != nil {
		return err
	}
	if c.old, err = os.ReadFile(c.file); errors.Is(err, fs.ErrNotExist) {
		c.absent = true
	} else if err != nil {
		return err
	}
	if c.mode, err = writable(c.file, c.absent); err != nil {
		return err
	}
	if at.key == "" {
		c.new, err = e.editTable(c.old, at, install)
	} else {
		c.new, err = e.editObject(c.old, at, install)
	}
	if err != nil {
		return &tool.Error{
			Code: "settings_invalid", Msg: fmt.Sprintf("%s cannot be changed: %v", c.file, err),
			Hint: "repair the file first, or remove its entry " + serverName + "; nothing was changed",
		}
	}
	same := "does not have the entry"
	if install {
		same = "has the entry already"
	}
	return e.finish(out, []change{c}, install, same)
}

var errOthers = errors.New("it has a server " + serverName + " that is not this program")

// editObject returns a JSON file with the entry, or without.
func (e MCPEntry) editObject(old []byte, at mcpFile, install bool) ([]byte, error) {
	s, err := readSettings(old, at.comments)
	if err != nil {
		return nil, err
	}
	root := s.root.Value.(*hujson.Object)
	if !install && memberOf(root, at.key) == nil {
		return old, nil
	}
	servers, err := s.object(&s.root, at.key, 1)
	if err != nil {
		return nil, err
	}
	o := servers.Value.(*hujson.Object)
	i := slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == serverName })
	if i >= 0 {
		have, isObject := o.Members[i].Value.Value.(*hujson.Object)
		if !isObject || !e.isOurs(textIn(have, "command")) {
			return nil, errOthers
		}
	}
	switch {
	case install && i >= 0:
		err = s.renewEntry(&o.Members[i].Value, e.entry(at))
	case install:
		_, err = s.member(servers, serverName, 2, e.entry(at))
	case i < 0:
		return old, nil
	default:
		removeMember(o, i)
		at := slices.IndexFunc(root.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == at.key })
		if empty(root.Members[at]) {
			removeMember(root, at)
		}
	}
	return s.text(), err
}

// renewEntry gives an entry our members, and leaves those that a person has added.
func (s *settings) renewEntry(have *hujson.Value, entry mcpCommand) error {
	wanted, err := s.value(entry, 2)
	if err != nil {
		return err
	}
	for _, m := range wanted.Value.(*hujson.Object).Members {
		v := memberOf(have.Value.(*hujson.Object), nameOf(m))
		if v == nil {
			if _, err := s.member(have, nameOf(m), 3, json.RawMessage(m.Value.Pack())); err != nil {
				return err
			}
			continue
		}
		if !sameValue(v.Value, m.Value.Value) {
			v.Value = m.Value.Value
		}
	}
	return nil
}

// sameValue reports whether two values differ in space and comments alone.
func sameValue(a, b hujson.ValueTrimmed) bool {
	x, y := hujson.Value{Value: a}.Clone(), hujson.Value{Value: b}.Clone()
	x.Minimize()
	y.Minimize()
	return bytes.Equal(x.Pack(), y.Pack())
}

func (e MCPEntry) isOurs(command string) bool {
	base := filepath.Base(command)
	return base == "sandboxd" || command != "" && base == filepath.Base(e.Exe)
}
