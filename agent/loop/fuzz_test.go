package loop

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/agent/provider"
)

// FuzzLine: a line is a prompt, or a control that is done or refused; a refused one changes
// nothing.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		"a text", `{"type": "user", "text": "x"}`, `{"type": "user"}`, `{"type": "control", "set_model": "m"}`,
		`{"type": "control", "set_model": " "}`, `{"type": "control", "set_max_thinking_tokens": null}`,
		`{"type": "control", "set_max_thinking_tokens": -1}`, `{"type": "control", "set_max_thinking_tokens": 7e3}`,
		`{"type": "control", "set_model": "m", "set_max_thinking_tokens": 7}`, `{"type": null}`, `[`, `{"type": "what"}`,
	} {
		f.Add(line, true)
		f.Add(line, false)
	}
	f.Fuzz(func(t *testing.T, line string, budgets bool) {
		if strings.TrimSpace(line) == "" {
			return // terminal.Input leaves these out
		}
		a, err := New(nil, Session{}, Options{Model: "before", Budgets: budgets})
		if err != nil {
			t.Fatal(err)
		}
		var said []Message
		prompt := a.Line(line, func(m Message) { said = append(said, m) })
		done := len(said) == 1 && said[0] == System{Subtype: "control", Text: "done"}
		changed := a.options.Model != "before" || a.options.Thinking != provider.Thinking{}
		if (prompt == "") != (len(said) == 1) || changed && !done || a.options.Model == "" || a.options.Thinking.Budget < 0 || !budgets && a.options.Thinking.Type != "" {
			t.Errorf("%q: prompt %q, %+v, %+v", line, prompt, said, a.options)
		}
	})
}

// FuzzConversation: whatever somebody saved as a conversation, the model reads turns that
// alternate, and every call has a result.
func FuzzConversation(f *testing.F) {
	f.Add(`[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"T","input":{}}]}]`)
	f.Add(`[{"role":"assistant","content":[{"type":"tool_use","id":"a"},{"type":"tool_use","id":"b"}]},{"role":"system","content":"s"},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"x"}]},{"role":"assistant","content":""},{"role":"user"}]`)
	f.Add(`[{"role":"user","content":"old"},{"role":"user","content":"sum","compact":true},{"role":"assistant","content":[{"type":"x"}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var saved []stored
		if json.Unmarshal([]byte(text), &saved) != nil {
			return
		}
		all := (&transcript{messages: saved}).request()
		for i, m := range all {
			if m.Role != "user" && m.Role != "assistant" || i > 0 && all[i-1].Role == m.Role || len(m.Content) == 0 {
				t.Errorf("message %d of %+v", i, all)
			}
			for _, c := range m.Content.Calls() {
				if m.Role == "assistant" && (i+1 == len(all) || !slices.ContainsFunc(all[i+1].Content, func(b provider.Block) bool {
					return b.ToolUseID == c.ID
				})) {
					t.Errorf("the call %q of message %d has no result in %+v", c.ID, i, all)
				}
			}
		}
	})
}
