package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sandboxd/sandboxd/sandbox"
)

// The four forms of a tool that is a function (T-54). Each gives a [Tool] that
// touches nothing beside its arguments; a tool with files, programs or hosts
// implements the interface itself. The schema is made from the Go type unless the
// spec has one; fields are named by their json tags, in snake_case by custom.
// Whatever fails, a panic included, is an error result.

// DefineText is a tool with typed arguments that answers with text.
func DefineText[A any](spec Spec, run func(context.Context, In, A) (string, error)) (Tool, error) {
	return DefineOutput(spec, func(ctx context.Context, in In, args A) (Output, error) {
		text, err := run(ctx, in, args)
		return Output{Data: text}, err
	})
}

// DefineOutput is a tool with typed arguments and a structured result.
func DefineOutput[A any](spec Spec, run func(context.Context, In, A) (Output, error)) (Tool, error) {
	if len(spec.Schema) == 0 {
		schema, err := jsonschema.For[A](nil)
		if err != nil {
			return nil, fmt.Errorf("schema of tool %s: %w", spec.Name, err)
		}
		if spec.Schema, err = json.Marshal(schema); err != nil {
			return nil, fmt.Errorf("schema of tool %s: %w", spec.Name, err)
		}
	}
	return function{spec, func(ctx context.Context, in In) (Output, error) {
		var args A
		if err := decodeArgs(in.Args, &args); err != nil {
			return Output{}, err
		}
		return run(ctx, in, args)
	}}, nil
}

// DefineNoInput is a tool without arguments.
func DefineNoInput(spec Spec, run func(context.Context, In) (string, error)) (Tool, error) {
	return DefineText(spec, func(ctx context.Context, in In, _ struct{}) (string, error) { return run(ctx, in) })
}

// DefineRaw is a tool that takes any object.
func DefineRaw(spec Spec, run func(context.Context, In, map[string]any) (string, error)) (Tool, error) {
	if len(spec.Schema) == 0 {
		spec.Schema = json.RawMessage(`{"type":"object","additionalProperties":true}`)
	}
	return DefineText(spec, run)
}

type function struct {
	spec Spec
	run  func(context.Context, In) (Output, error)
}

func (f function) Spec() Spec { return f.spec }

func (function) Uses(context.Context, In) (sandbox.Uses, error) { return sandbox.Uses{}, nil }

func (f function) Run(ctx context.Context, in In, _ sandbox.Box) (out Output, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = Output{}, &Error{Code: "tool_panic", Msg: fmt.Sprintf("tool %s failed: %v", f.spec.Name, p)}
		}
	}()
	return f.run(ctx, in)
}

func decodeArgs(raw json.RawMessage, into any) error {
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return &Error{Code: "invalid_arguments", Msg: "the arguments are not an object", Hint: "send {\"name\": value, …}"}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return &Error{Code: "invalid_arguments", Msg: "the arguments cannot be read: " + err.Error(), Hint: "see the schema of the tool"}
	}
	return nil
}
