package adapter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

// ourCall is a call of another agent in our terms.
type ourCall struct {
	tool    string
	args    map[string]json.RawMessage
	dir     string
	noCage  bool // the agent wants to run it outside of its own sandbox
	outside bool // no tool of the daemon does this; rules by the name decide
}

// plainID is the name of something that a client made. It is never a path.
var plainID = lazyregexp.New(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// translate puts a call into our terms. No call at all means that the agent may go on by its
// own rules. The error says what nobody can judge.
func translate(c clients.Client, i hookEvent) ([]ourCall, error) {
	if name, ok := mcpName(c.Name, i); ok {
		return []ourCall{{tool: name, args: i.Input, dir: i.Dir, outside: true}}, nil
	}
	t := c.Tool(i.Tool)
	if t.Act == clients.ByName || t.Act == clients.Server {
		return []ourCall{{tool: outsideName(t, i.Input), args: i.Input, dir: i.Dir, outside: true}}, nil
	}
	call := ourCall{
		tool: t.Ours, args: map[string]json.RawMessage{}, dir: i.Dir, outside: t.Act == clients.Outside,
	}
	patch := ""
	for name, value := range i.Input {
		f, ok := t.Field(name)
		if !ok {
			return nil, fmt.Errorf("the argument %s of %s is unknown here", name, t.Name)
		}
		if f.Asks {
			return nil, fmt.Errorf("the argument %s of %s needs a person", name, t.Name)
		}
		if err := understood(f, value); err != nil {
			return nil, fmt.Errorf("the argument %s of %s is not understood: %w", name, t.Name, err)
		}
		switch {
		case f.Ours != "":
			call.args[f.Ours] = value
		case f.Dir && string(value) != "null":
			if err := call.enter(textOf(value)); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", name, t.Name, err)
			}
		case f.Uncage:
			call.noCage = string(value) != "false" && string(value) != "null"
		case f.Patch:
			patch = textOf(value)
		}
	}
	if t.Act == clients.Pass {
		return nil, nil
	}
	if slices.ContainsFunc(t.Fields, func(f clients.Field) bool { return f.Patch }) {
		return patched(patch, i.Dir)
	}
	for ours, value := range t.Fixed {
		call.args[ours] = jsonText(value)
	}
	if c.Name == clients.Codex && bytes.Contains(call.args["command"], []byte("*** Begin Patch")) {
		return nil, errors.New("the command holds a patch, which Codex takes out of it and makes itself; " +
			"the tool apply_patch can be judged")
	}
	if err := call.plainPaths(c.Name); err != nil {
		return nil, err
	}
	return []ourCall{call}, call.joinWords()
}

// enter changes the directory of the call.
func (c *ourCall) enter(dir string) error {
	if dir == "" {
		return errors.New("the directory is not text")
	}
	if err := plainPath("directory", dir); err != nil {
		return err
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.dir, dir)
	}
	c.dir = dir
	return nil
}

// understood reports why a value is none of those that the table has.
func understood(f clients.Field, value json.RawMessage) error {
	text := textOf(value)
	if text == "" {
		text = string(value)
	}
	if f.Only != nil && text != "null" && !slices.Contains(f.Only, text) {
		return fmt.Errorf("want %s", strings.Join(f.Only, " or "))
	}
	if !f.ID || text == "null" {
		return nil
	}
	ids := []string{text}
	if strings.HasPrefix(text, "[") {
		if err := json.Unmarshal(value, &ids); err != nil {
			return errors.New("want a list of ids")
		}
	}
	for _, id := range ids {
		if !plainID().MatchString(id) {
			return fmt.Errorf("%.40q is no id", id)
		}
	}
	return nil
}

// mcpName returns the name of an MCP tool as rules have it: mcp__server__tool. Gemini writes one underscore, so that
// only what it says beside the name tells where the server ends.
func mcpName(client string, i hookEvent) (string, bool) {
	switch {
	case client != clients.Gemini:
		return i.Tool, strings.HasPrefix(i.Tool, "mcp__")
	case i.MCP.Server == "" || i.MCP.Tool == "" || strings.Contains(i.MCP.Server, "__"):
		return "", false
	}
	return "mcp__" + i.MCP.Server + "__" + i.MCP.Tool, true
}

// outsideName returns the name by which rules know a call that reads from an MCP server.
func outsideName(t clients.Tool, input map[string]json.RawMessage) string {
	if t.Act == clients.Server {
		if server := textOf(input[t.Fields[0].Name]); server != "" && !strings.Contains(server, "__") {
			return "mcp__" + server + "__" + t.Name
		}
	}
	return t.Name
}

// patchLine begins a part of a patch of Codex and names a file.
var patchLine = lazyregexp.New(`^\*\*\* (Add File|Update File|Delete File|Move to): (.+)$`)

// patchMarks are the lines of a patch that begin like one that names a file, and name none.
var patchMarks = map[string]bool{"*** Begin Patch": true, "*** End Patch": true, "*** End of File": true}

// patched returns the calls that a patch makes: it writes a file anew, edits one, removes one as rm does, or moves
// the one named before as mv does. What is written has all of the patch for its content: what rules say of content
// holds for every part of it. A line that only looks like the name of a file costs a question; a name that is missed
// would cost more.
func patched(patch, dir string) ([]ourCall, error) {
	var out []ourCall
	add := func(tool string, args ...string) {
		call := ourCall{tool: tool, dir: dir, args: map[string]json.RawMessage{}}
		for i := 0; i < len(args); i += 2 {
			call.args[args[i]] = jsonText(args[i+1])
		}
		out = append(out, call)
	}
	last := "" // the file of the part
	for line := range strings.Lines(patch) {
		m := patchLine().FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			if strings.HasPrefix(line, "*** ") && !patchMarks[strings.TrimSpace(line)] {
				return nil, fmt.Errorf("the line %.60q of the patch cannot be read: "+
					"want Add File, Update File, Delete File or Move to, a colon, and a path", strings.TrimSpace(line))
			}
			continue
		}
		part, path := m[1], m[2]
		if err := plainPath("the file of the patch", path); err != nil {
			return nil, err
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		switch part {
		case "Update File":
			add("Edit", "file_path", path, "old_string", "", "new_string", patch)
		case "Delete File":
			add("Bash", "command", "rm -- "+shellQuote(path))
		case "Move to":
			if last == "" {
				return nil, errors.New("the patch moves a file that it does not name")
			}
			add("Bash", "command", "mv -T -- "+shellQuote(last)+" "+shellQuote(path))
			fallthrough
		default:
			add("Write", "file_path", path, "content", patch)
		}
		last = path
	}
	if len(out) == 0 {
		return nil, errors.New("the patch names no file")
	}
	return out, nil
}

// joinWords makes one command line of a command that is a list of words.
func (c ourCall) joinWords() error {
	raw, ok := c.args["command"]
	if !ok || len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	var words []string
	if err := json.Unmarshal(raw, &words); err != nil {
		return errors.New("command is neither text nor a list of words")
	}
	for i, w := range words {
		words[i] = shellQuote(w)
	}
	c.args["command"] = jsonText(strings.Join(words, " "))
	return nil
}

// back puts rewritten arguments into the terms of the agent.
func (c ourCall) back(t clients.Tool, input, ours map[string]json.RawMessage) map[string]json.RawMessage {
	if c.outside && t.Act != clients.Outside {
		return ours
	}
	out := map[string]json.RawMessage{}
	for field, value := range input {
		out[field] = value
	}
	for _, f := range t.Fields {
		if value, ok := ours[f.Ours]; ok && f.Ours != "" {
			out[f.Name] = value
		}
	}
	return out
}

// cage returns a command line that runs a judged call, once, in the cage.
func cage(exe, id string) string { return shellQuote(exe) + " exec --call " + id }

// callID is what the daemon calls a call; nothing in it means something to a shell.
var callID = lazyregexp.New(`^call_[A-Z2-7]+$`)

// uncage returns the call of a line that cage made, and of nothing else.
func uncage(exe, line string) (id string, ok bool) {
	id, ok = strings.CutPrefix(line, cage(exe, ""))
	return id, ok && callID().MatchString(id)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func jsonText(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic("encode text: " + err.Error()) // cannot happen: text is always valid
	}
	return b
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
