package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// toolMap says how a tool of another agent is judged: as which of ours, with
// which fields. A field in neither list is one whose meaning nobody looked at, so
// the call is not allowed on our word.
type toolMap struct {
	ours     string
	fields   map[string]string // theirs to ours
	harmless []string          // fields that change nothing about what is touched
	dir      string            // their field that changes the directory
}

// same is for fields that have the same name on both sides.
func same(names ...string) map[string]string {
	m := map[string]string{}
	for _, n := range names {
		m[n] = n
	}
	return m
}

// agentTools lists, by agent and its name for a tool, what can be judged.
var agentTools = map[string]map[string]toolMap{
	agentClaude: {
		"Bash":     {ours: "Bash", fields: same("command"), harmless: []string{"description", "timeout", "run_in_background", "dangerouslyDisableSandbox"}},
		"Read":     {ours: "Read", fields: same("file_path"), harmless: []string{"offset", "limit", "pages"}},
		"Write":    {ours: "Write", fields: same("file_path", "content")},
		"Edit":     {ours: "Edit", fields: same("file_path", "old_string", "new_string", "replace_all")},
		"Glob":     {ours: "Glob", fields: same("pattern", "path")},
		"Grep":     {ours: "Grep", fields: same("pattern", "path", "glob"), harmless: []string{"output_mode", "-A", "-B", "-C", "-n", "-i", "-o", "type", "head_limit", "offset", "multiline", "context"}},
		"WebFetch": {ours: "WebFetch", fields: same("url", "prompt")},
	},
	agentCodex: {
		"Bash":          {ours: "Bash", fields: same("command"), harmless: []string{"description"}},
		"shell":         {ours: "Bash", fields: same("command"), harmless: []string{"timeout_ms", "justification"}, dir: "workdir"},
		"shell_command": {ours: "Bash", fields: same("command"), harmless: []string{"timeout_ms", "justification"}, dir: "workdir"},
		"exec_command":  {ours: "Bash", fields: map[string]string{"cmd": "command"}, harmless: []string{"login", "yield_time_ms", "max_output_tokens", "justification", "tty"}, dir: "workdir"},
	},
	agentGemini: {
		"run_shell_command": {ours: "Bash", fields: same("command"), harmless: []string{"description", "is_background"}, dir: "dir_path"},
		"read_file":         {ours: "Read", fields: same("file_path"), harmless: []string{"start_line", "end_line"}},
		"write_file":        {ours: "Write", fields: same("file_path", "content")},
		"replace":           {ours: "Edit", fields: map[string]string{"file_path": "file_path", "old_string": "old_string", "new_string": "new_string", "allow_multiple": "replace_all"}, harmless: []string{"instruction"}},
		"glob":              {ours: "Glob", fields: map[string]string{"pattern": "pattern", "dir_path": "path"}, harmless: []string{"case_sensitive", "respect_git_ignore"}},
		"grep_search":       {ours: "Grep", fields: map[string]string{"pattern": "pattern", "dir_path": "path", "include_pattern": "glob"}, harmless: []string{"exclude_pattern", "names_only"}},
	},
}

// hookCall is a call of another agent in our terms.
type hookCall struct {
	tool   string
	args   map[string]json.RawMessage
	dir    string
	noCage bool // the agent wants to run it outside of its own sandbox
}

// translate puts a call into our terms. The error says what nobody can judge.
func translate(agent, name string, input map[string]json.RawMessage, dir string) (hookCall, error) {
	m, ok := agentTools[agent][name]
	if !ok {
		return hookCall{}, fmt.Errorf("the tool %s of %s is unknown here", name, agent)
	}
	c := hookCall{tool: m.ours, args: map[string]json.RawMessage{}, dir: dir}
	for field, value := range input {
		switch ours := m.fields[field]; {
		case ours != "":
			c.args[ours] = value
		case field == m.dir && m.dir != "":
			var sub string
			if err := json.Unmarshal(value, &sub); err != nil {
				return hookCall{}, fmt.Errorf("%s of %s is not text", field, name)
			}
			if c.dir = sub; !filepath.IsAbs(sub) {
				c.dir = filepath.Join(dir, sub)
			}
		case !slices.Contains(m.harmless, field):
			return hookCall{}, fmt.Errorf("the argument %s of %s is unknown here", field, name)
		}
	}
	if v, ok := input["dangerouslyDisableSandbox"]; ok && string(v) != "false" && string(v) != "null" {
		c.noCage = true
	}
	return c, c.joinWords()
}

// joinWords makes one command line of a command that is a list of words.
func (c hookCall) joinWords() error {
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
func (c hookCall) back(agent, name string, input, ours map[string]json.RawMessage) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for field, value := range input {
		out[field] = value
	}
	for theirs, our := range agentTools[agent][name].fields {
		if value, ok := ours[our]; ok {
			out[theirs] = value
		}
	}
	return out
}

// cage is a command line that runs a judged call, once, in the cage.
func cage(exe, id string) string { return shellQuote(exe) + " exec --call " + id }

// callID is what the daemon calls a call; nothing in it means something to a shell.
var callID = regexp.MustCompile(`^call_[A-Z2-7]+$`)

// uncage is the call of a line that cage made, and of nothing else.
func uncage(exe, line string) (id string, ok bool) {
	id, ok = strings.CutPrefix(line, cage(exe, ""))
	return id, ok && callID.MatchString(id)
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
