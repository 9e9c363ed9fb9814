package catalog

import (
	"encoding/json"
	"fmt"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// The shapes that model APIs expect. Schemas are passed on byte for byte.
type (
	openAIDefinition struct {
		Type     string         `json:"type"`
		Function openAIFunction `json:"function"`
	}
	openAIFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	anthropicDefinition struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	mcpDefinition struct {
		Name        string            `json:"name"`
		Description string            `json:"description"`
		InputSchema json.RawMessage   `json:"inputSchema"`
		Annotations *tool.Annotations `json:"annotations,omitempty"`
	}
)

// Definitions describes tools to a model in the form of an API: "openai" (the
// function form of chat completions), "anthropic" (also for "") or "mcp". Hints
// are emitted only in the form that has a place for them, and only when the tool
// sets them (T-36).
func Definitions(tools []tool.Tool, format string) ([]any, error) {
	switch format {
	case "":
		format = "anthropic"
	case "openai", "anthropic", "mcp":
	default:
		return nil, &tool.Error{
			Code: "unknown_format", Msg: fmt.Sprintf("unknown definition format %q", format),
			Hint: "use openai, anthropic or mcp",
		}
	}
	list := make([]any, 0, len(tools))
	for _, t := range tools {
		s := t.Spec()
		schema := s.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		desc := s.Description + returnsNote(s.Returns)
		switch format {
		case "openai":
			list = append(list, openAIDefinition{"function", openAIFunction{s.Name, desc, schema}})
		case "anthropic":
			list = append(list, anthropicDefinition{s.Name, desc, schema})
		case "mcp":
			list = append(list, mcpDefinition{s.Name, desc, schema, s.Annotations})
		}
	}
	return list, nil
}

// returnsNote publishes the declared return type where every API shows it: the
// definitions of the APIs have no field for it (T-33).
func returnsNote(r *tool.Returns) string {
	if r == nil {
		return ""
	}
	if r.Note == "" {
		return "\n\nReturns: " + r.Type
	}
	return "\n\nReturns: " + r.Type + " (" + r.Note + ")"
}
