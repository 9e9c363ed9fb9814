package catalog

import (
	"encoding/json"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Validator checks arguments against the schemas of tools. Each schema is
// compiled once. The zero value is ready; it is safe for concurrent use.
type Validator struct {
	mu       sync.Mutex // guards compiled
	compiled map[string]*jsonschema.Resolved
}

// maxSchemas bounds the cache: a gateway's upstream may change its schemas as
// often as it likes.
const maxSchemas = 4096

// Validate checks the arguments of a call (T-08). The error is an [*tool.Error] with
// code invalid_arguments that names the place and what to change, or invalid_schema if the schema
// itself is wrong.
func (r *Registry) Validate(spec tool.Spec, args json.RawMessage) error {
	return r.validator.Validate(spec, args)
}

// Validate is what [Registry.Validate] does. Fields that the schema does not
// know are refused unless it says that it takes them; the hidden arguments
// limit and _limit are permitted (CX-20).
func (v *Validator) Validate(spec tool.Spec, args json.RawMessage) error {
	if !utf8.Valid(args) {
		return invalid(spec, "the arguments are not valid UTF-8", "send JSON text in UTF-8")
	}
	if err := strictjson.Check(args); err != nil {
		return invalid(spec, err.Error(), "send one JSON object, each field once")
	}
	var value any
	if err := json.Unmarshal(args, &value); err != nil {
		return invalid(spec, "the arguments are not JSON: "+err.Error(), "send one JSON object")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return invalid(spec, "the arguments are "+kind(value)+", want an object", `send {"name": value, …}`)
	}
	resolved, err := v.schema(spec)
	if err != nil {
		return &tool.Error{
			Code: "invalid_schema", Stage: "judge", Msg: fmt.Sprintf("schema of tool %s: %v", spec.Name, err),
		}
	}
	schema := resolved.Schema()
	if err := takeHidden(spec, schema, object); err != nil {
		return err
	}
	if msg, hint := explain(schema, object, ""); msg != "" {
		return invalid(spec, msg, hint)
	}
	if err := resolved.Validate(object); err != nil {
		return invalid(spec, err.Error(), "see the schema of the tool")
	}
	return nil
}

func (v *Validator) schema(spec tool.Spec) (*jsonschema.Resolved, error) {
	text := string(spec.Schema)
	if text == "" {
		text = `{"type":"object"}`
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if r, ok := v.compiled[text]; ok {
		return r, nil
	}
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, err
	}
	r, err := s.Resolve(nil) // no loader: a reference to another document is an error
	if err != nil {
		return nil, err
	}
	if v.compiled == nil || len(v.compiled) >= maxSchemas {
		v.compiled = map[string]*jsonschema.Resolved{}
	}
	v.compiled[text] = r
	return r, nil
}

// takeHidden removes the hidden arguments, so that the schema need not know them.
func takeHidden(spec tool.Spec, schema *jsonschema.Schema, object map[string]any) error {
	for _, name := range []string{"limit", "_limit"} {
		if _, declared := schema.Properties[name]; declared {
			continue
		}
		value, given := object[name]
		if !given {
			continue
		}
		if n, ok := value.(float64); !ok || n != float64(int64(n)) {
			return invalid(spec, fmt.Sprintf("%s is %s, want an integer", name, kind(value)),
				"characters of the result to show; 0 or -1 shows all")
		}
		delete(object, name)
	}
	return nil
}

func invalid(spec tool.Spec, msg, hint string) *tool.Error {
	return &tool.Error{
		Code: "invalid_arguments", Stage: "judge",
		Msg: fmt.Sprintf("invalid arguments for %s: %s", spec.Name, msg), Hint: hint,
	}
}
