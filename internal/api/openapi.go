package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/sandbox"
)

// OpenAPI returns the OpenAPI 3.1 document of the routes, made from their table and from the Go types on the wire.
// It is committed as docs/openapi.json.
func OpenAPI(parts ...part.Part) ([]byte, error) {
	doc := newDocument(parts)
	paths := map[string]map[string]any{}
	for _, rt := range (&Server{Options: Options{Parts: parts}}).routes() {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		op, err := doc.operation(rt, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rt.Pattern, err)
		}
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(method)] = op
	}
	// This is the only route whose answer is not JSON. The server adds it to the others.
	paths["/metrics"] = map[string]any{"get": map[string]any{
		"operationId": "getMetrics", "summary": "Metrics for Prometheus", "security": securityOf(tool.RoleOperator),
		"responses": map[string]any{
			"200": map[string]any{
				"description": "Metrics in the text format of Prometheus",
				"content":     map[string]any{"text/plain": map[string]any{"schema": map[string]any{"type": "string"}}},
			},
			"403": reference("403"),
		},
	}}
	fault, err := schemaOf(struct {
		Error tool.Error `json:"error"`
	}{}, written)
	if err != nil {
		return nil, err
	}
	failures := map[string]any{"Error": content("application/json", "Another failure, with a stable code", fault)}
	for status, what := range failureOf {
		failures[status] = content("application/json", what, fault)
	}
	components, err := doc.schemas()
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "sandboxd", "version": "1",
			"license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "JSON over two Unix sockets; see docs/http.md. The operator socket serves every route, " +
				"the agent socket those of agents.",
		},
		"servers": []any{map[string]any{"url": "http://sandboxd/v1"}},
		"paths":   paths,
		"components": map[string]any{
			"schemas": components, "responses": failures,
			"securitySchemes": map[string]any{
				string(tool.RoleAgent): peerOf("the agent socket; the account is that of the uid"),
				string(tool.RoleOperator): peerOf("the operator socket; the uid is that of the daemon, " +
					"root, or one of operators. The header X-Account-Id acts for another account"),
			},
		},
	}, "", "  ")
}

// peerOf returns the security scheme of a socket. OpenAPI has none for Unix sockets. mutualTLS comes closest: there
// too the connection itself names the caller.
func peerOf(where string) map[string]any {
	return map[string]any{
		"type": "mutualTLS",
		"description": "No TLS and no header: the kernel names the process that connected (SO_PEERCRED) to " + where +
			".",
	}
}

// securityOf lists the sockets that serve a role.
func securityOf(role tool.Role) []any {
	out := []any{map[string]any{string(tool.RoleOperator): []any{}}}
	if role == tool.RoleAgent {
		out = append(out, map[string]any{string(tool.RoleAgent): []any{}})
	}
	return out
}

func reference(response string) map[string]any {
	return map[string]any{"$ref": "#/components/responses/" + response}
}

// failureOf says what each status means.
var failureOf = map[string]string{
	"400": "The request is malformed, or asks for what cannot be (validation_error and others)",
	"403": "Not for this caller (operator_only, not_an_operator, account_refused, called_by_hook)",
	"404": "There is no such thing, or it is another account's",
	"408": "The body did not arrive in time (request_timeout)",
	"409": "It is there already, decided already, or protected",
	"413": "The body is too large (too_large)",
	"422": "The transcript of the session cannot be read (transcript_corrupt)",
	"429": "Too many requests (rate_limited, too_many_requests); Retry-After says when to try again",
	"503": "No room for now: memory (agents_busy), or the disk of the daemon (disk_reserve)",
	"507": "The account keeps too much on the disk of the daemon (account_disk)",
}

// failures returns the statuses other than success that an operation may answer.
func failures(rt route.Route, path string) []string {
	out := []string{"403", "429"}
	if rt.Spec.In != nil || rt.Spec.Query != nil || strings.Contains(path, "{") {
		out = append(out, "400")
	}
	if rt.Spec.In != nil {
		out = append(out, "408", "413")
	}
	if strings.Contains(path, "{") {
		out = append(out, "404")
	}
	if rt.Keeps {
		out = append(out, "503", "507")
	}
	for _, status := range rt.Spec.Errors {
		out = append(out, strconv.Itoa(status))
	}
	return out
}

var pathParam = lazyregexp.New(`\{(\w+)\}`)

func (doc document) operation(rt route.Route, path string) (map[string]any, error) {
	d := rt.Spec
	op := map[string]any{"operationId": d.ID, "summary": d.Summary, "security": securityOf(rt.Role)}
	params := []any{}
	for _, m := range pathParam().FindAllStringSubmatch(path, -1) {
		params = append(params, map[string]any{
			"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"},
		})
	}
	for _, q := range d.Query {
		s := &jsonschema.Schema{Type: cmp.Or(q.Type, "string")}
		for _, v := range q.Enum {
			s.Enum = append(s.Enum, v)
		}
		if q.Repeats {
			s = &jsonschema.Schema{Type: "array", Items: s}
		}
		params = append(params, map[string]any{"name": q.Name, "in": "query", "schema": s})
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if d.In != nil {
		in, err := schemaOf(d.In, doc.references(""))
		if err != nil {
			return nil, err
		}
		requireOwn(in, true)
		op["requestBody"] = map[string]any{
			"required": len(in.Required) > 0 || len(in.AnyOf) > 0,
			"content":  map[string]any{"application/json": map[string]any{"schema": in}},
		}
	}
	ok, err := doc.responseOf(d)
	if err != nil {
		return nil, err
	}
	answers := map[string]any{"200": ok, "default": reference("Error")}
	if d.Created {
		answers["201"] = ok
	}
	for _, status := range failures(rt, path) {
		answers[status] = reference(status)
	}
	op["responses"] = answers
	return op, nil
}

// requireOwn keeps as required only the fields that [route.Read] insists on: those of the request itself and of the
// elements of its lists.
func requireOwn(s *jsonschema.Schema, own bool) {
	if s == nil {
		return
	}
	if !own {
		s.Required = nil
	}
	for _, p := range s.Properties {
		requireOwn(p, false)
		requireOwn(p.Items, own)
	}
	for _, p := range s.AnyOf {
		requireOwn(p, own)
	}
}

func (doc document) responseOf(d route.Spec) (map[string]any, error) {
	answers, what := map[string]any{}, d.Summary
	if _, is := d.Out.(route.Raw); is {
		return map[string]any{"description": what, "content": map[string]any{octets: map[string]any{
			"schema": map[string]any{"type": "string", "format": "binary"},
		}}}, nil
	}
	if d.Events != nil {
		one, err := schemaOf(d.Events, doc.references(""))
		if err != nil {
			return nil, err
		}
		answers["text/event-stream"], what = map[string]any{"schema": one}, "data of each event"
	}
	if d.Events == nil || d.Out != nil {
		s, err := answerSchema(d, doc.references(""))
		if err != nil {
			return nil, err
		}
		answers["application/json"], what = map[string]any{"schema": s}, d.Summary
	}
	return map[string]any{"description": what, "content": answers}, nil
}

// answerSchema returns the schema of a whole successful answer.
func answerSchema(d route.Spec, types map[reflect.Type]*jsonschema.Schema) (*jsonschema.Schema, error) {
	data, err := schemaOf(d.Out, types)
	if err != nil {
		return nil, err
	}
	whole := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{"data": data}, Required: []string{"data"},
	}
	if d.Paged {
		m, err := schemaOf(route.Meta{}, types)
		if err != nil {
			return nil, err
		}
		whole.Properties["meta"], whole.Required = m, append(whole.Required, "meta")
	}
	whole.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}} // no other field
	return whole, nil
}

func content(kind, what string, s *jsonschema.Schema) map[string]any {
	return map[string]any{"description": what, "content": map[string]any{kind: map[string]any{"schema": s}}}
}

// written are the types that encode themselves.
var written = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
	reflect.TypeFor[input.Document]():  {Type: "object"},
	reflect.TypeFor[tool.Verdict]():    {Type: "string", Enum: []any{"allow", "ask", "deny"}},
}

// document holds by name the types whose schemas the document has once.
type document map[string]reflect.Type

func newDocument(parts []part.Part) document {
	doc := document{
		"Result": reflect.TypeFor[tool.Result](), "Decision": reflect.TypeFor[tool.Decision](),
		"Settings": reflect.TypeFor[guard.Settings](), "Report": reflect.TypeFor[sandbox.Report](),
		"Session": reflect.TypeFor[session](),
	}
	for _, p := range parts {
		for name, v := range p.Shared {
			doc[name] = reflect.TypeOf(v)
		}
	}
	return doc
}

// schemas returns the schemas of the shared types, with references to each other.
func (doc document) schemas() (map[string]*jsonschema.Schema, error) {
	out := map[string]*jsonschema.Schema{}
	for name, t := range doc {
		s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: doc.references(name)})
		if err != nil {
			return nil, err
		}
		out[name] = s
		nullable(s)
	}
	return out, nil
}

// nullable repairs the schemas of pointers to shared types. The inferred schema asks a value to be null and to match
// the reference at once, which no value does.
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

// references returns references in place of the shared types, except one.
func (doc document) references(but string) map[reflect.Type]*jsonschema.Schema {
	out := maps.Clone(written)
	for name, t := range doc {
		if name != but {
			out[t] = &jsonschema.Schema{Ref: "#/components/schemas/" + name}
		}
	}
	return out
}

// schemaOf returns the schema of the type of v. types replaces the schemas of some types.
func schemaOf(v any, types map[reflect.Type]*jsonschema.Schema) (*jsonschema.Schema, error) {
	if v == nil {
		return &jsonschema.Schema{}, nil
	}
	if several, ok := v.(route.OneOf); ok {
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
		s.Type, s.Types = "array", nil // no route answers null in place of a list
	}
	nullable(s)
	return s, err
}
