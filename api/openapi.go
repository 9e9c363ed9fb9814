package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
	"github.com/sandboxd/sandboxd/vars"
)

// OpenAPI is the OpenAPI 3.1 document of the routes, made from their table and
// from the Go types on the wire. It is committed as docs/openapi.json.
func OpenAPI() ([]byte, error) {
	paths := map[string]map[string]any{}
	for _, rt := range (&Server{}).routes() {
		method, path, _ := strings.Cut(rt.pattern, " ")
		op, err := operation(rt, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rt.pattern, err)
		}
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(method)] = op
	}
	fault, err := schemaOf(struct {
		Error tool.Error `json:"error"`
	}{}, written)
	if err != nil {
		return nil, err
	}
	components, err := schemas()
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "sandboxd", "version": "1",
			"description": "JSON over two Unix sockets; see docs/http.md. x-role says which socket serves a route: agent routes are on both.",
		},
		"servers":    []any{map[string]any{"url": "http://sandboxd/v1"}},
		"paths":      paths,
		"components": map[string]any{"schemas": components, "responses": map[string]any{"Error": content("application/json", "A failure with a stable code", fault)}},
	}, "", "  ")
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

func operation(rt route, path string) (map[string]any, error) {
	d := specs[rt.pattern]
	op := map[string]any{"summary": d.summary, "x-role": rt.role}
	params := []any{}
	for _, m := range pathParam.FindAllStringSubmatch(path, -1) {
		params = append(params, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, name := range d.query {
		params = append(params, map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": "string"}})
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if d.in != nil {
		in, err := schemaOf(d.in, references(""))
		if err != nil {
			return nil, err
		}
		in.Required = nil // absent is the zero value, and each route says what it misses
		op["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": in}}}
	}
	ok, err := d.answer()
	if err != nil {
		return nil, err
	}
	answers := map[string]any{"200": ok, "default": map[string]any{"$ref": "#/components/responses/Error"}}
	if d.created {
		answers["201"] = ok
	}
	op["responses"] = answers
	return op, nil
}

func (d spec) answer() (map[string]any, error) {
	if d.events {
		one, err := schemaOf(d.out, references(""))
		return content("text/event-stream", "data of each event", one), err
	}
	s, err := d.schema(references(""))
	return content("application/json", d.summary, s), err
}

// schema is that of a whole successful answer.
func (d spec) schema(types map[reflect.Type]*jsonschema.Schema) (*jsonschema.Schema, error) {
	data, err := schemaOf(d.out, types)
	if err != nil {
		return nil, err
	}
	whole := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"data": data}, Required: []string{"data"}}
	if d.paged {
		m, err := schemaOf(meta{}, types)
		if err != nil {
			return nil, err
		}
		whole.Properties["meta"], whole.Required = m, append(whole.Required, "meta")
	}
	whole.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}} // nothing else
	return whole, nil
}

func content(kind, what string, s *jsonschema.Schema) map[string]any {
	return map[string]any{"description": what, "content": map[string]any{kind: map[string]any{"schema": s}}}
}

// written are the types that write themselves.
var written = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[policy.Input]():    {Type: "object"},
	reflect.TypeFor[tool.Verdict]():    {Type: "string", Enum: []any{"allow", "ask", "deny"}},
}

// shared are the types that the document holds once.
var shared = map[string]reflect.Type{
	"Result": reflect.TypeFor[tool.Result](), "Decision": reflect.TypeFor[tool.Decision](), "Settings": reflect.TypeFor[sandbox.Settings](),
	"Report": reflect.TypeFor[sandbox.Report](), "Session": reflect.TypeFor[session](), "Question": reflect.TypeFor[approvals.Item](),
	"Variable": reflect.TypeFor[vars.Var](),
}

// schemas are the shared types, each with references to the others.
func schemas() (map[string]*jsonschema.Schema, error) {
	out := map[string]*jsonschema.Schema{}
	for name, t := range shared {
		s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: references(name)})
		if err != nil {
			return nil, err
		}
		out[name] = s
		nullable(s)
	}
	return out, nil
}

// nullable mends pointers to types that are referred to: inference says that they
// are null and a reference, of which no value is both.
func nullable(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Ref != "" && len(s.Types) > 0 {
		s.AnyOf = []*jsonschema.Schema{{Type: "null"}, {Ref: s.Ref}}
		s.Ref, s.Types = "", nil
	}
	for _, p := range s.Properties {
		nullable(p)
	}
	for _, p := range s.AnyOf {
		nullable(p)
	}
	nullable(s.Items)
	nullable(s.AdditionalProperties)
}

// references stand for the shared types, but for one.
func references(but string) map[reflect.Type]*jsonschema.Schema {
	out := maps.Clone(written)
	for name, t := range shared {
		if name != but {
			out[t] = &jsonschema.Schema{Ref: "#/components/schemas/" + name}
		}
	}
	return out
}

// schemaOf is the schema of a value's type; types says what stands for some types.
func schemaOf(v any, types map[reflect.Type]*jsonschema.Schema) (*jsonschema.Schema, error) {
	if v == nil {
		return &jsonschema.Schema{}, nil
	}
	if several, ok := v.(oneOf); ok {
		any := &jsonschema.Schema{}
		for _, one := range several {
			s, err := schemaOf(one, types)
			if err != nil {
				return nil, err
			}
			any.AnyOf = append(any.AnyOf, s)
		}
		return any, nil
	}
	s, err := jsonschema.ForType(reflect.TypeOf(v), &jsonschema.ForOptions{TypeSchemas: types})
	if err == nil && s.Type == "" && slices.Contains(s.Types, "null") {
		s.Type, s.Types = "array", nil // no route answers null for a list
	}
	nullable(s)
	return s, err
}
