package main

import (
	"encoding/json"
	"io"

	"github.com/sandboxd/sandboxd/tool"
)

// writeHookAnswer puts the outcome into the contract of the agent. Where that
// cannot express it, the stricter answer is given; where a yes would loosen what
// the agent does by itself, nothing is said.
func writeHookAnswer(out io.Writer, agent, event string, a hookAnswer) error {
	var body map[string]any
	switch {
	case agent == agentGemini:
		body = geminiAnswer(a)
	case event == "PermissionRequest":
		body = permissionAnswer(agent, a)
	case agent == agentCodex:
		body = codexAnswer(a)
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

func claudeAnswer(a hookAnswer) map[string]any {
	specific := map[string]any{
		"hookEventName":            "PreToolUse",
		"permissionDecision":       a.verdict.String(),
		"permissionDecisionReason": "sandboxd: " + a.reason,
	}
	if a.input != nil && a.verdict != tool.Deny {
		specific["updatedInput"] = a.input
	}
	return map[string]any{"hookSpecificOutput": specific}
}

// codexAnswer only ever denies or leaves the call to Codex and its sandbox.
// Codex treats an answer that it does not support as a hook that failed, and
// then runs the call: so no ask and no rewrite.
func codexAnswer(a hookAnswer) map[string]any {
	switch {
	case a.unknown:
		return map[string]any{"systemMessage": "sandboxd: " + a.reason + "; Codex decides alone"}
	case a.verdict == tool.Allow && (a.input == nil || a.caged):
		return nil
	case a.verdict == tool.Allow:
		rewritten, err := json.Marshal(a.input)
		if err != nil {
			rewritten = nil // then without the example
		}
		a.reason = "a policy allows this only with other arguments: " + string(rewritten)
	case a.verdict == tool.Ask:
		a.reason = "a person must allow this, and Codex cannot ask from a hook: " + a.reason
	}
	a.verdict, a.input = tool.Deny, nil
	return claudeAnswer(a)
}

// permissionAnswer answers the agent's own question to its person. A yes is given
// only where the call is confined anyway: by the cage, or because the agent's
// file tools touch just the file that was judged.
func permissionAnswer(agent string, a hookAnswer) map[string]any {
	decision := map[string]any{"behavior": "deny", "message": "sandboxd: " + a.reason}
	switch {
	case a.verdict == tool.Deny:
	case a.verdict == tool.Allow && agent == agentClaude:
		decision = map[string]any{"behavior": "allow"}
		if a.input != nil {
			decision["updatedInput"] = a.input
		}
	default: // the person answers the agent
		return nil
	}
	return map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": "PermissionRequest", "decision": decision}}
}

func geminiAnswer(a hookAnswer) map[string]any {
	body := map[string]any{"decision": a.verdict.String(), "reason": "sandboxd: " + a.reason}
	if a.input != nil && a.verdict != tool.Deny {
		body["hookSpecificOutput"] = map[string]any{"hookEventName": "BeforeTool", "tool_input": a.input}
	}
	return body
}
