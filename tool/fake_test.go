package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// fake is a tool with nothing behind it.
type fake struct{ spec tool.Spec }

func (f fake) Spec() tool.Spec { return f.spec }

func (fake) Uses(context.Context, tool.In) (sandbox.Uses, error) { return sandbox.Uses{}, nil }

func (fake) Run(context.Context, tool.In, sandbox.Box) (tool.Output, error) {
	return tool.Output{}, nil
}

func named(name string) fake { return fake{tool.Spec{Name: name}} }

func group(name string, tools ...string) tool.Group {
	g := tool.Group{Name: name}
	for _, t := range tools {
		g.Tools = append(g.Tools, named(t))
	}
	return g
}

func names(tools []tool.Tool) []string {
	list := []string{}
	for _, t := range tools {
		list = append(list, t.Spec().Name)
	}
	return list
}

func wantCode(t *testing.T, err error, code string) *tool.Error {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an error with code %s", err, code)
	}
	if e.Code != code {
		t.Fatalf("got code %s (%s), want %s", e.Code, e.Msg, code)
	}
	return e
}

// shaped is a tool with its own text and cut.
type shaped struct {
	fake
	format   func(any, json.RawMessage) (string, error)
	truncate func(string, json.RawMessage) string
}

func (s shaped) Format(data any, args json.RawMessage) (string, error) { return s.format(data, args) }

func (s shaped) Truncate(text string, args json.RawMessage) string { return s.truncate(text, args) }
