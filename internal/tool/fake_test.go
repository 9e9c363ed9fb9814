package tool_test

import (
	"context"
	"encoding/json"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// fake is a tool with nothing behind it.
type fake struct{ spec tool.Spec }

func (f fake) Spec() tool.Spec { return f.spec }

func (fake) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (fake) Run(context.Context, tool.In, sandbox.Box) (tool.Output, error) {
	return tool.Output{}, nil
}

// shaped is a tool with its own text and cut.
type shaped struct {
	fake
	format   func(any, json.RawMessage) (string, error)
	truncate func(string, json.RawMessage) string
}

func (s shaped) Format(data any, args json.RawMessage) (string, error) { return s.format(data, args) }

func (s shaped) Truncate(text string, args json.RawMessage) string { return s.truncate(text, args) }
