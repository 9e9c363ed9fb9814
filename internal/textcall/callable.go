package textcall

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Callable is what a model can call by text.
type Callable struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Enabled     bool              `json:"enabled"`
	Type        string            `json:"type"`           // tool, static, http, or none: it answers with an error
	Tool        string            `json:"tool,omitempty"` // of the session
	Text        string            `json:"text,omitempty"` // a template
	URL         string            `json:"url,omitempty"`  // a template
	Method      string            `json:"method,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"` // templates
	Body        string            `json:"body,omitempty"`    // a template
	Response    string            `json:"response,omitempty"`
	TimeoutMS   int               `json:"timeout_ms,omitempty"`
}

// The types of callables.
const (
	typeTool   = "tool"
	typeStatic = "static"
	typeHTTP   = "http"
	typeNone   = "none"
)

// callableRequest is a callable as it is registered. What may have a wrong type becomes its
// default, with a warning.
type callableRequest struct {
	Name        any               `json:"name,omitempty"`
	Description any               `json:"description,omitempty"`
	Enabled     any               `json:"enabled,omitempty"`
	Type        string            `json:"type,omitempty"`
	Tool        string            `json:"tool,omitempty"`
	Text        *string           `json:"text,omitempty"`
	URL         string            `json:"url,omitempty"`
	Method      string            `json:"method,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        string            `json:"body,omitempty"`
	Response    string            `json:"response,omitempty"`
	TimeoutMS   int               `json:"timeout_ms,omitempty"`
}

var nameForm = lazyregexp.New(`^[A-Za-z0-9_.-]{1,64}$`)

const (
	noDescription = "(no description)"
	maxSpec       = 64 << 10
	maxCallables  = 256 // of a session
)

// callable reads a request. isTool reports whether the session has a tool of a name.
func (in callableRequest) callable(name string, isTool func(string) bool) (c Callable, warnings []string, err error) {
	warnings = []string{}
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	c = Callable{
		Name: name, Enabled: true, Description: noDescription, Type: in.Type, Tool: in.Tool, URL: in.URL,
		Method: in.Method, Headers: in.Headers, Body: in.Body, Response: in.Response, TimeoutMS: in.TimeoutMS,
	}
	switch v := in.Name.(type) {
	case nil:
	case string:
		c.Name = v
	default:
		c.Name = fmt.Sprint(v)
		warn("name is no string: it is %q", c.Name)
	}
	switch v := in.Description.(type) {
	case string:
		if v = oneLine(v, 1000); v != "" {
			c.Description = v
		}
	case nil:
		if in.Name != nil || name == "" {
			warn("description is missing: it is %q", noDescription)
		}
	default:
		warn("description is no string: it is %q", noDescription)
	}
	switch v := in.Enabled.(type) {
	case nil:
	case bool:
		c.Enabled = v
	default:
		warn("enabled is no boolean: it is true")
	}
	if in.Text != nil {
		c.Text = *in.Text
	}
	if c.Type == "" {
		switch {
		case in.Tool != "":
			c.Type = typeTool
		case in.URL != "":
			c.Type = typeHTTP
		case in.Text != nil:
			c.Type = typeStatic
		case isTool(c.Name):
			c.Type, c.Tool = typeTool, c.Name
		default:
			c.Type = typeNone
		}
	}
	if c.Type == typeTool && c.Tool != "" && !isTool(c.Tool) {
		warn("tool %q is none of the session: a call of this is NOT_FOUND", c.Tool)
	}
	return c, warnings, c.check()
}

func (c *Callable) check() error {
	if c.Name != "" && !nameForm().MatchString(c.Name) {
		return fmt.Errorf("name %.100q: want 1 to 64 letters, digits, _, . and -", c.Name)
	}
	switch c.Type {
	case typeTool:
		if c.Tool == "" {
			return errors.New("tool is missing: name a tool of the session")
		}
	case typeStatic, typeNone:
	case typeHTTP:
		return c.checkHTTP()
	default:
		return fmt.Errorf("type %.50q is none of tool, static, http and none", c.Type)
	}
	if c.URL != "" || c.Method != "" || c.Headers != nil || c.Body != "" || c.Response != "" || c.TimeoutMS != 0 {
		return fmt.Errorf("url, method, headers, body, response and timeout_ms are of the type http, not %s", c.Type)
	}
	return nil
}

// mark is a place in a template.
var mark = lazyregexp.New(`\{\{\s*(json\s+)?([^\s{}]+)\s*\}\}`)

// render fills a template from arguments: {{key}}, {{json key}}, {{a.b}}. What is not there is
// empty. escape changes what is filled in. A text of more than maxAnswer bytes is an error: the
// template and the arguments are an agent's, and many marks may name one long argument.
func render(template string, args json.RawMessage, escape func(string) string) (string, error) {
	var b strings.Builder
	values := reader{}
	from := 0
	for _, m := range mark().FindAllStringSubmatchIndex(template, -1) {
		b.WriteString(template[from:m[0]])
		from = m[1]
		value, text := values.at(args, template[m[4]:m[5]]), ""
		switch {
		case m[2] >= 0 && value == nil:
			text = "null"
		case m[2] >= 0:
			text = string(value)
		case string(value) == "null":
		case json.Unmarshal(value, &text) != nil:
			text = string(value)
		}
		text = escape(text)
		if b.Len()+len(text) > maxAnswer {
			return "", &tool.Error{
				Code: "callable_too_large",
				Msg:  fmt.Sprintf("its template has more than %d bytes with these arguments", maxAnswer),
				Hint: "give shorter arguments",
			}
		}
		b.WriteString(text)
	}
	b.WriteString(template[from:])
	return b.String(), nil
}

// reader finds values in arguments. It reads each of them once, for there may be thousands of marks.
type reader map[string]members

type members struct {
	object map[string]json.RawMessage
	list   []json.RawMessage
}

// maxPath is how many keys a path may have.
const maxPath = 32

// at returns the value at a path of keys; nil if there is none.
func (r reader) at(value json.RawMessage, path string) json.RawMessage {
	keys := strings.Split(path, ".")
	if len(keys) > maxPath {
		return nil
	}
	end := 0
	for _, key := range keys {
		in, known := r[path[:end]]
		if !known {
			if json.Unmarshal(value, &in.object) != nil {
				_ = json.Unmarshal(value, &in.list) // what is neither has no members
			}
			r[path[:end]] = in
		}
		if i, err := strconv.ParseUint(key, 10, 32); in.object != nil {
			value = in.object[key]
		} else if err == nil && i < uint64(len(in.list)) {
			value = in.list[i]
		} else {
			return nil
		}
		end = min(end+len(key)+1, len(path)) // the dot is of the path, so that no two paths look alike
	}
	return value
}

// given are the arguments of the tool that performs a callable: what was called, and the callable
// itself, so that policies, people and the record see what is done.
type given struct {
	Name    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
	RawArgs string          `json:"raw_args"`

	Text      string            `json:"text,omitempty"`
	URL       string            `json:"url,omitempty"`
	Method    string            `json:"method,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Body      string            `json:"body,omitempty"`
	Response  string            `json:"response,omitempty"`
	TimeoutMS int               `json:"timeout_ms,omitempty"`
}

// request returns a call of the callable for the request path. One that has the name of a tool is judged by another:
// an agent gave it, and what policies, people and skills say of the tool is not said of it.
func (c Callable) request(call Call, isTool func(string) bool) (name string, args json.RawMessage, own tool.Tool) {
	if c.Type == typeTool {
		return c.Tool, toolArgs(call), nil
	}
	if name = c.Name; isTool(name) || strings.HasPrefix(strings.ToLower(name), "mcp__") {
		name = "callable." + name
	}
	return name, encode(given{
		Name: c.Name, Args: call.Args, RawArgs: call.RawArgs, Text: c.Text, URL: c.URL, Method: c.Method,
		Headers: c.Headers, Body: c.Body, Response: c.Response, TimeoutMS: c.TimeoutMS,
	}), performer{c, name}
}

// toolArgs are arguments of a tool, which are an object.
func toolArgs(call Call) json.RawMessage {
	if call.Args[0] != '{' {
		return encode(map[string]any{"_raw": call.RawArgs})
	}
	return call.Args
}

// callables returns those that were registered in a session.
func (f *feature) callables(ctx context.Context, session string) (map[string]Callable, error) {
	var all map[string]Callable
	err := f.host.DB.Read(ctx, func(tx *sql.Tx) (err error) {
		all, err = kept(tx, session)
		return err
	})
	return all, err
}

func kept(tx *sql.Tx, session string) (map[string]Callable, error) {
	rows, err := tx.Query(`SELECT spec FROM callables WHERE session = $1`, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]Callable{}
	for rows.Next() {
		var text string
		var c Callable
		if err := errors.Join(rows.Scan(&text), json.Unmarshal([]byte(text), &c)); err != nil {
			return nil, err
		}
		all[c.Name] = c
	}
	return all, rows.Err()
}

// keep keeps a callable in place of the one of its name. Without a name it gets one.
func (c *Callable) keep(tx *sql.Tx, session string) error {
	have, err := kept(tx, session)
	if err != nil {
		return err
	}
	if c.Name == "" {
		base := fmt.Sprintf("unnamed_%d", time.Now().Unix())
		c.Name = base
		for n := 2; ; n++ {
			if _, taken := have[c.Name]; !taken {
				break
			}
			c.Name = fmt.Sprintf("%s_%d", base, n)
		}
	}
	spec := encode(c)
	if _, there := have[c.Name]; !there && len(have) >= maxCallables {
		return &tool.Error{
			Code: "too_many_callables", Msg: fmt.Sprintf("the session has %d callables, which is the most", len(have)),
			Hint: "delete some",
		}
	}
	if len(spec) > maxSpec {
		return &tool.Error{
			Code: "callable_too_large", Msg: fmt.Sprintf("it has %d bytes, %d at most", len(spec), maxSpec),
			Hint: "keep long texts in variables or files",
		}
	}
	_, err = tx.Exec(`INSERT INTO callables (session, name, spec) VALUES ($1, $2, $3)
		ON CONFLICT (session, name) DO UPDATE SET spec = excluded.spec`, session, c.Name, string(spec))
	return err
}

// offered returns the callables of a session by name, its tools included, those that are off too.
func (f *feature) offered(ctx context.Context, s tool.Session) ([]Callable, error) {
	all, err := f.callables(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range f.host.Tools(s) {
		spec := t.Spec()
		if c, taken := all[spec.Name]; taken {
			if c.Type == typeTool && c.Description == noDescription && c.Tool == spec.Name {
				c.Description = describe(spec)
				all[spec.Name] = c
			}
			continue
		}
		all[spec.Name] = Callable{
			Name: spec.Name, Description: describe(spec), Enabled: true, Type: typeTool, Tool: spec.Name,
		}
	}
	list := make([]Callable, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list, nil
}

// describe returns a tool in one line, with its arguments.
func describe(s tool.Spec) string {
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	text := oneLine(s.Description, 300)
	if json.Unmarshal(s.Schema, &schema) != nil || len(schema.Properties) == 0 {
		return text
	}
	var args []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if slices.Contains(schema.Required, name) {
			args = append(args, fmt.Sprintf("%q: %s", name, typeName(schema.Properties[name].Type)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !slices.Contains(schema.Required, name) {
			args = append(args, fmt.Sprintf("%q?: %s", name, typeName(schema.Properties[name].Type)))
		}
	}
	return text + " Arguments: {" + strings.Join(args, ", ") + "}"
}

// none is what a callable without an action answers (C-02).
type none struct {
	OK    bool   `json:"ok"`
	Error string `json:"error"`
}

var noAction = none{Error: "No action() provided for this skill."}

// typeName returns the type of an argument in a schema, which may be a list of types, or none.
func typeName(t any) string {
	switch t := t.(type) {
	case string:
		return t
	case []any:
		var names []string
		for _, one := range t {
			names = append(names, typeName(one))
		}
		return strings.Join(names, " or ")
	}
	return "any"
}
