package catalog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// stub is a tool with nothing behind it.
type stub struct{ spec tool.Spec }

func (f stub) Spec() tool.Spec { return f.spec }

func (stub) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (stub) Run(context.Context, tool.In, sandbox.Box) (tool.Output, error) {
	return tool.Output{}, nil
}

func named(name string) stub { return stub{tool.Spec{Name: name}} }

func group(name string, tools ...string) catalog.Group {
	g := catalog.Group{Name: name}
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
