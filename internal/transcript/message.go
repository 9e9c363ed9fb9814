package transcript

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// roles are who may say something.
var roles = []string{"user", "assistant", "system"}

// Check refuses what is no message: an object with a role and a content. What else it has is
// its client's.
func Check(messages []json.RawMessage) error {
	for i, m := range messages {
		var said map[string]json.RawMessage
		if err := json.Unmarshal(m, &said); err != nil || said == nil {
			return bad("messages[%d] is no object", i)
		}
		var role string
		if json.Unmarshal(said["role"], &role) != nil || !slices.Contains(roles, role) {
			return bad("messages[%d].role is not one of %s", i, strings.Join(roles, ", "))
		}
		if said["content"] == nil {
			return bad("messages[%d].content is missing", i)
		}
	}
	return nil
}

func bad(format string, args ...any) error {
	return &tool.Error{
		Code: "validation_error", Msg: fmt.Sprintf(format, args...),
		Hint: `a message is {"role": "user", "content": …}; other fields are kept`,
	}
}

// What the texts of About may have, in bytes.
const (
	maxName    = 256
	maxSummary = 4 << 10
	maxPrompt  = 1 << 10
)

// Check refuses texts that are too long.
func (a About) Check() error {
	for _, f := range []struct {
		name, text string
		most       int
	}{
		{"model", a.Model, maxName},
		{"git_branch", a.GitBranch, maxName},
		{"summary", a.Summary, maxSummary},
		{"first_prompt", a.FirstPrompt, maxPrompt},
	} {
		if len(f.text) > f.most {
			return &tool.Error{
				Code: "validation_error",
				Msg:  fmt.Sprintf("metadata.%s has %d bytes, %d at most", f.name, len(f.text), f.most),
				Hint: "keep longer text in a message or in a variable",
			}
		}
	}
	return nil
}

// FirstPrompt returns the start of the first text of a user, "" without one.
func FirstPrompt(messages []json.RawMessage) string {
	for _, m := range messages {
		var said struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(m, &said) != nil || said.Role != "user" {
			continue
		}
		if text := textOf(said.Content); text != "" {
			return begin(text)
		}
	}
	return ""
}

// textOf returns a content, or the first text of its blocks.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return ""
	}
	for _, b := range blocks {
		if b.Type == "text" && b.Text != "" {
			return b.Text
		}
	}
	return ""
}

// begin is as much of a text as may be kept of a prompt, in whole characters.
func begin(text string) string {
	if len(text) <= maxPrompt {
		return text
	}
	n := maxPrompt
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
