package adapter

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// writeOutcome puts the outcome into the contract of the agent. If the contract cannot
// express it, the stricter answer is written. If a yes would allow more than the agent
// allows by itself, nothing is written.
func writeOutcome(out io.Writer, agent, event string, a outcome) error {
	var body map[string]any
	switch {
	case a.passes:
		return nil
	case agent == clients.Gemini:
		body = geminiAnswer(a)
	case event == "PermissionRequest":
		body = permissionAnswer(agent, a)
	case agent == clients.Codex:
		body = codexAnswer(a)
	case agent == clients.OpenCode && a.verdict == tool.Ask:
		body = claudeAnswer(unasked("OpenCode", a))
	default:
		body = claudeAnswer(a)
	}
	if body == nil {
		return nil
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(body)
}

// goOn is what a model can do about a call that it may not make.
const goOn = "go on without this call, or ask your person for another way"

// sentences returns the answer for the model: what became of its call, why, and what to do.
func (a outcome) sentences() string {
	todo := a.todo
	begin := "sandboxd allowed this call"
	switch a.verdict {
	case tool.Ask:
		begin = "sandboxd asks a person before this call"
	case tool.Deny:
		begin = "sandboxd denied this call"
		if todo == "" {
			todo = goOn
		}
	}
	text := begin + ": " + stop(a.reason)
	if todo != "" && a.verdict != tool.Allow {
		text += " What to do: " + stop(todo)
	}
	return text
}

// stop ends a sentence.
func stop(s string) string {
	s = strings.TrimSpace(s)
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "!") {
		return s
	}
	return s + "."
}

func claudeAnswer(a outcome) map[string]any {
	specific := map[string]any{
		"hookEventName":            "PreToolUse",
		"permissionDecision":       a.verdict.String(),
		"permissionDecisionReason": a.sentences(),
	}
	if a.input != nil && a.verdict != tool.Deny {
		specific["updatedInput"] = a.input
	}
	return map[string]any{"hookSpecificOutput": specific}
}

// codexAnswer only ever denies or leaves the call to Codex and its sandbox.
// Codex treats an answer that it does not support as a hook that failed, and
// then runs the call: so no ask and no rewrite.
func codexAnswer(a outcome) map[string]any {
	switch {
	case a.verdict == tool.Allow && (a.input == nil || a.caged):
		return nil
	case a.verdict == tool.Allow:
		a.reason, a.todo = "a rule allows it only with other arguments", goOn
		if rewritten, err := json.Marshal(a.input); err == nil {
			a.todo = "send it again with these arguments: " + string(rewritten)
		}
	case a.verdict == tool.Ask:
		a = unasked("Codex", a)
	}
	a.verdict, a.input = tool.Deny, nil
	return claudeAnswer(a)
}

// unasked returns the denial of a call about which the agent cannot ask its person.
func unasked(agent string, a outcome) outcome {
	todo := "ask your person to run it, or to allow it with a rule of sandboxd"
	if a.todo != "" {
		todo += "; or " + a.todo
	}
	return outcome{
		verdict: tool.Deny, reason: "a person must allow it, and " + agent + " cannot ask from a hook: " + a.reason,
		todo: todo,
	}
}

// permissionAnswer answers the question of the agent to its user. It says yes only when
// the call is confined anyway: by the cage, or because a file tool of the agent
// touches only the file that was judged.
func permissionAnswer(agent string, a outcome) map[string]any {
	decision := map[string]any{"behavior": "deny", "message": a.sentences()}
	switch {
	case a.verdict == tool.Deny:
	case a.verdict == tool.Allow && agent == clients.ClaudeCode:
		decision = map[string]any{"behavior": "allow"}
		if a.input != nil {
			decision["updatedInput"] = a.input
		}
	default: // the person answers the agent
		return nil
	}
	return map[string]any{
		"hookSpecificOutput": map[string]any{"hookEventName": "PermissionRequest", "decision": decision},
	}
}

func geminiAnswer(a outcome) map[string]any {
	body := map[string]any{"decision": a.verdict.String(), "reason": a.sentences()}
	if a.input != nil && a.verdict != tool.Deny {
		body["hookSpecificOutput"] = map[string]any{"hookEventName": "BeforeTool", "tool_input": a.input}
	}
	return body
}
