package tool

import (
	"encoding/base64"
	"strings"
)

// The shapes in which model APIs take a result back (CX-25). There is one record,
// [Result]; these are views of it.
type (
	anthropicResult struct {
		Type      string           `json:"type"` // "tool_result"
		ToolUseID string           `json:"tool_use_id"`
		Content   []anthropicBlock `json:"content"`
		IsError   bool             `json:"is_error,omitempty"`
	}
	anthropicBlock struct {
		Type   string           `json:"type"`
		Text   string           `json:"text,omitempty"`
		Source *anthropicSource `json:"source,omitempty"`
	}
	anthropicSource struct {
		Type      string `json:"type"` // "base64"
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	}
	openAIResult struct {
		Role       string `json:"role"` // "tool"
		ToolCallID string `json:"tool_call_id"`
		Content    string `json:"content"`
	}
)

// Failed reports whether a model should see the result as an error.
func (r Result) Failed() bool { return r.Status != StatusSuccess }

// Anthropic returns the result as a tool_result block: the text, then images and PDFs.
func (r Result) Anthropic() any {
	v := anthropicResult{Type: "tool_result", ToolUseID: r.ToolUseID, IsError: r.Failed(), Content: []anthropicBlock{}}
	if r.FinalText != "" {
		v.Content = append(v.Content, anthropicBlock{Type: "text", Text: r.FinalText})
	}
	for _, c := range r.Content {
		kind := "image"
		switch {
		case len(c.Data) == 0:
			continue
		case c.MIMEType == "application/pdf":
			kind = "document"
		case c.Type != "image":
			continue
		}
		v.Content = append(v.Content, anthropicBlock{
			Type:   kind,
			Source: &anthropicSource{"base64", c.MIMEType, base64.StdEncoding.EncodeToString(c.Data)},
		})
	}
	return v
}

// OpenAI returns the result as a message of role tool; it has room for text only.
func (r Result) OpenAI() any {
	return openAIResult{"tool", r.ToolUseID, r.FinalText}
}

// UnmarshalText implements [encoding.TextUnmarshaler]: stored data may have the
// older spelling in lower case (CX-24).
func (s *Status) UnmarshalText(b []byte) error {
	*s = Status(strings.ToUpper(string(b)))
	return nil
}
