package vars

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Group returns the group vars: all four tools (V-19).
func (s *System) Group() catalog.Group {
	return catalog.Group{Name: "vars", Tools: []tool.Tool{
		readVar{state{s}}, listVars{state{s}}, writeVar{state{s}}, removeVars{state{s}},
	}}
}

// Injected returns the tools that come with any other (V-18).
func (s *System) Injected() []tool.Tool {
	return []tool.Tool{readVar{state{s}}, listVars{state{s}}}
}

// state is common to the four tools: they use no file and no host, only the daemon's own state.
type state struct{ s *System }

func (state) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func spec(name, description, schema string, readOnly, destructive bool) tool.Spec {
	return tool.Spec{
		Name: name, Description: description, Schema: json.RawMessage(schema),
		Class: tool.ClassState, ReadOnly: readOnly,
		Annotations: &tool.Annotations{ReadOnly: readOnly, Destructive: destructive, Idempotent: true},
		NoCache:     true, // a variable of a variable only pushes others out
	}
}

// decode reads arguments that passed the schema.
func decode(args json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(args))
	if err := d.Decode(into); err != nil {
		return &tool.Error{
			Code: "validation_error", Stage: "run", Msg: "arguments: " + err.Error(),
			Hint: "see the schema of the tool",
		}
	}
	return nil
}

type readVar struct{ state }

func (readVar) Spec() tool.Spec {
	sp := spec("ReadVar", "Read a variable of this session, whole or in parts.", `{
	"type": "object", "required": ["name"], "additionalProperties": false,
	"properties": {
		"name":   {"type": "string", "description": "name of the variable"},
		"start":  {"type": "integer", "minimum": 0, "description": "first character, from 0"},
		"length": {"type": "integer", "minimum": 0, "description": "number of characters; left out: to the end"}
	}}`, true, false)
	return sp
}

func (t readVar) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	var a struct {
		Name   string
		Start  int
		Length *int
	}
	if err := decode(in.Args, &a); err != nil {
		return tool.Output{}, err
	}
	r, err := t.s.whole(ctx, in.Session, a.Name)
	if errors.Is(err, sql.ErrNoRows) {
		return tool.Output{}, &tool.Error{
			Code: "variable_not_found", Stage: "run", Msg: fmt.Sprintf("Variable '%s' not found.", a.Name),
			Hint: "ListVars shows all names",
		}
	}
	if err != nil {
		return tool.Output{}, err
	}
	length := -1
	if a.Length != nil {
		length = max(*a.Length, 0)
	}
	part := (&text{s: r.value, length: r.length}).slice(max(a.Start, 0), length)
	return tool.Output{Data: part, Text: part, Origin: r.authored.Worst()}, nil
}

type listVars struct{ state }

func (listVars) Spec() tool.Spec {
	return spec("ListVars",
		"List the variables of this session: names, lengths, descriptions, types and tags, never values.", `{
	"type": "object", "additionalProperties": false,
	"properties": {
		"filter": {"type": "object", "additionalProperties": false, "properties": {
			"type":   {"enum": ["RULE", "ToolCallResult", "ToolCallArgs", "MessageCache", "LLMAdd", "USER_ADD"]},
			"tag":    {"type": "string"},
			"search": {"type": "string", "description": "part of name or description, in any case"}
		}},
		"page":     {"type": "integer", "minimum": 1, "description": "from 1"},
		"pageSize": {"type": "integer", "minimum": 1, "maximum": 200, "description": "25 unless given"}
	}}`, true, false)
}

// entry is a variable as ListVars shows it (V-15).
type entry struct {
	Name    string   `json:"name"`
	Length  int      `json:"length"`
	Desc    string   `json:"desc,omitempty"`
	Type    Type     `json:"type"`
	Tags    []string `json:"tags,omitempty"`
	Created string   `json:"created"`
	Keep    bool     `json:"keep,omitempty"`
}

type listing struct {
	Variables []entry `json:"variables"`
	Page      int     `json:"page"`
	PageSize  int     `json:"pageSize"`
	Total     int     `json:"total"`
	TotalPage int     `json:"totalPage"`
}

func (t listVars) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	a := struct {
		Filter         struct{ Type, Tag, Search string }
		Page, PageSize int
	}{Page: 1, PageSize: 25}
	if err := decode(in.Args, &a); err != nil {
		return tool.Output{}, err
	}
	a.Page, a.PageSize = max(a.Page, 1), min(max(a.PageSize, 1), 200)
	page, err := t.s.List(ctx, in.Session, Filter{
		Type: Type(a.Filter.Type), Tag: a.Filter.Tag, Search: a.Filter.Search,
		Limit: a.PageSize, Offset: (min(a.Page, 1<<30) - 1) * a.PageSize,
	})
	if err != nil {
		return tool.Output{}, err
	}
	l := listing{
		Variables: []entry{}, Page: a.Page, PageSize: a.PageSize, Total: page.Total,
		TotalPage: max(1, (page.Total+a.PageSize-1)/a.PageSize),
	}
	for v, err := range page.Rows(ctx) {
		if err != nil {
			return tool.Output{}, err
		}
		l.Variables = append(l.Variables, entry{
			v.Name, v.Length, v.Desc, v.Type, v.Tags, v.Created.Format("2006-01-02T15:04:05Z07:00"), v.Keep,
		})
	}
	return tool.Output{Data: l, Text: l.text()}, nil
}

func (l listing) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d variables, page %d/%d\n", l.Total, l.Page, l.TotalPage)
	for _, v := range l.Variables {
		fmt.Fprintf(&b, "- %s (%s, %d characters", v.Name, v.Type, v.Length)
		if v.Keep {
			b.WriteString(", kept")
		}
		b.WriteString(")")
		if len(v.Tags) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(v.Tags, ", "))
		}
		if v.Desc != "" {
			b.WriteString(": " + strings.Join(strings.Fields(v.Desc), " "))
		}
		b.WriteByte('\n')
	}
	if l.Page < l.TotalPage {
		fmt.Fprintf(&b, "Next page: ListVars with \"page\": %d\n", l.Page+1)
	}
	return b.String()
}

type writeVar struct{ state }

func (writeVar) Spec() tool.Spec {
	return spec("WriteVar", "Write a variable of this session, or change the given parts of one.", `{
	"type": "object", "required": ["name"], "additionalProperties": false,
	"properties": {
		"name":  {"type": "string", "description": "any name without }}"},
		"value": {"description": "text; anything else is stored as JSON text. Needed for a new variable"},
		"desc":  {"type": "string", "description": "one line for ListVars"},
		"tags":  {"type": "array", "items": {"type": "string"}, "description": "replaces the tags"}
	}}`, false, false)
}

func (t writeVar) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	var a struct {
		Name  string
		Value json.RawMessage
		Desc  *string
		Tags  *[]string
	}
	if err := decode(in.Args, &a); err != nil {
		return tool.Output{}, err
	}
	c := Change{Desc: a.Desc, Tags: a.Tags}
	if len(a.Value) > 0 {
		text, err := Text(a.Value)
		if err != nil {
			return tool.Output{}, err
		}
		c.Value = &text
	}
	change := func(old *record) (record, error) {
		var r record
		if old != nil {
			r = *old
		} else if c.Value == nil {
			return r, &tool.Error{
				Code: "value_required", Stage: "run",
				Msg:  fmt.Sprintf("Cannot create new variable '%s' without a value.", a.Name),
				Hint: "give a value, \"\" if it is to be empty",
			}
		}
		if c.Value != nil {
			r.typ = TypeModel // whatever it was: the model wrote what it holds now (V-03)
		}
		err := c.apply(&r)
		return r, err
	}
	v, created, err := t.s.edit(ctx, in.Session, a.Name, tool.OriginModel, in.Origins, change)
	if err != nil {
		return tool.Output{}, err
	}
	done := "updated"
	if created {
		done = "created"
	}
	return tool.Output{
		Data: map[string]any{"name": v.Name, "length": v.Length, "created": created},
		Text: fmt.Sprintf("Variable '%s' %s (%d characters).", v.Name, done, v.Length),
	}, nil
}

// Text returns a JSON value as a variable holds it: strings as they are, anything else as its JSON text (V-04).
func Text(raw json.RawMessage) (string, error) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return "", &tool.Error{
			Code: "validation_error", Msg: "the value is not valid JSON in UTF-8",
			Hint: "send text as a JSON string",
		}
	}
	if raw = bytes.TrimSpace(raw); raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.String(), err
}

type removeVars struct{ state }

func (removeVars) Spec() tool.Spec {
	return spec("RemoveVars", "Delete variables of this session. Rules stay.", `{
	"type": "object", "required": ["names"], "additionalProperties": false,
	"properties": {"names": {"type": "array", "items": {"type": "string"}, "minItems": 1}}}`, false, true)
}

func (t removeVars) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	var a struct{ Names []string }
	if err := decode(in.Args, &a); err != nil {
		return tool.Output{}, err
	}
	removed, failed, err := t.s.Remove(ctx, in.Session, a.Names)
	if err != nil {
		return tool.Output{}, err
	}
	text := fmt.Sprintf("Removed %d: %s.", len(removed), strings.Join(removed, ", "))
	if len(failed) > 0 {
		text += fmt.Sprintf(" Not removed, because missing or a rule: %s.", strings.Join(failed, ", "))
	}
	return tool.Output{Data: map[string]any{"removed": removed, "failed": failed}, Text: text}, nil
}
