package adapter

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxToldOutput bounds the result that hooks are told; the daemon bounds requests.
const maxToldOutput = 1 << 20

// ended tells that the agent has made the call.
func (i hookEvent) ended() bool {
	return i.Event == "PostToolUse" || i.Event == "PostToolUseFailure" || i.Event == "AfterTool"
}

// after tells the hooks of the daemon about a call that the agent has made, and passes
// their messages to the model. It skips a command that ran through this daemon, whose
// hooks have seen it. A hook that blocks cannot undo the call, but the agent is told.
func (h hook) after(ctx context.Context, i hookEvent, out io.Writer) error {
	if _, ok := uncage(h.Exe, textOf(i.Input["command"])); ok {
		return nil
	}
	name, args := i.Tool, i.Input
	if calls, err := translate(h.client, i); err == nil && len(calls) == 1 {
		name, args = calls[0].tool, calls[0].args
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	event := "postToolUse"
	if i.Event == "PostToolUseFailure" {
		event = "postToolUseFailure"
	}
	body := map[string]any{"event": event, "input": map[string]any{
		"toolName": name, "toolInput": json.RawMessage(raw), "toolUseId": i.UseID, "toolOutput": resultText(i.Response),
		"error": i.Error,
	}}
	var said struct {
		Block          bool     `json:"block"`
		Reason         string   `json:"reason"`
		SystemMessages []string `json:"system_messages"`
	}
	err = h.inSession(ctx, i, func() error {
		return h.api.Do(ctx, http.MethodPost, "/sessions/"+sessionOf(h.Agent, i.Session)+"/hook-events", body, &said)
	})
	if err != nil || !said.Block && len(said.SystemMessages) == 0 {
		return err
	}
	answer := map[string]any{}
	if said.Block {
		answer["decision"], answer["reason"] = "block", "sandboxd: "+said.Reason
	}
	if len(said.SystemMessages) > 0 {
		answer["hookSpecificOutput"] = map[string]any{
			"hookEventName": i.Event, "additionalContext": strings.Join(said.SystemMessages, "\n"),
		}
	}
	return json.NewEncoder(out).Encode(answer)
}

// resultText returns a result as text: a string as it is, anything else as JSON.
func resultText(response json.RawMessage) string {
	text := textOf(response)
	if text == "" {
		text = string(response)
	}
	if len(text) > maxToldOutput {
		n := maxToldOutput
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return text
}
