package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Config reads and changes those settings of a session that grant no rights.
type Config struct{ sessions Sessions }

type configArgs struct {
	Action string          `json:"action"`
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`
}

// configKeys lists every key. No key may be settable that grants a right.
var configKeys = []struct {
	name string
	get  func(tool.Session) any
	set  func(*tool.Session, json.RawMessage) error // nil: only a person may change it
}{
	{
		"title", func(s tool.Session) any { return s.Title },
		func(s *tool.Session, v json.RawMessage) error { return setText(&s.Title, v) },
	},
	{
		"tag", func(s tool.Session) any { return s.Tag },
		func(s *tool.Session, v json.RawMessage) error { return setText(&s.Tag, v) },
	},
	{"metadata", func(s tool.Session) any { return s.Metadata }, setMetadata},
	{"mode", func(s tool.Session) any { return string(s.Mode) }, nil},
	{"profile", func(s tool.Session) any { return string(s.Profile) }, nil},
	{"cwd", func(s tool.Session) any { return s.Dir }, nil},
}

// Spec implements [tool.Tool].
func (Config) Spec() tool.Spec {
	var names []string
	for _, k := range configKeys {
		names = append(names, `"`+k.name+`"`)
	}
	return tool.Spec{
		Name: "Config",
		Description: "Reads and changes settings of this session: " +
			"title, tag and metadata can be set; mode, profile and cwd only be read.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"action":{"type":"string","enum":["get","set","list"]},
"key":{"type":"string","enum":[` + strings.Join(names, ",") + `],"description":"which setting (get, set)"},
"value":{"description":"the new value (set): text for title and tag, an object for metadata"}},
"required":["action"],"additionalProperties":false}`),
		Class:       tool.ClassState,
		Annotations: &tool.Annotations{Idempotent: true},
	}
}

// Uses implements [tool.Tool].
func (Config) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Run implements [tool.Tool].
func (c Config) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[configArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	if args.Action == "list" {
		s, err := c.sessions.Session(ctx, in.Account, in.Session)
		if err != nil {
			return tool.Output{}, err
		}
		all := map[string]any{}
		for _, k := range configKeys {
			all[k.name] = k.get(s)
		}
		return tool.Output{Data: all}, nil
	}
	for _, k := range configKeys {
		if k.name != args.Key {
			continue
		}
		if args.Action == "get" {
			s, err := c.sessions.Session(ctx, in.Account, in.Session)
			return tool.Output{Data: map[string]any{k.name: k.get(s)}}, err
		}
		if k.set == nil {
			return tool.Output{}, &tool.Error{
				Code: "config_read_only", Msg: fmt.Sprintf("%s can only be read", k.name),
				Hint: "an operator can change it",
			}
		}
		if len(args.Value) == 0 {
			return tool.Output{}, &tool.Error{
				Code: "invalid_arguments", Msg: `field "value" is missing`, Hint: "give the new value",
			}
		}
		s, err := c.sessions.Patch(ctx, in.Account, in.Session,
			func(s *tool.Session) error { return k.set(s, args.Value) })
		if err != nil {
			return tool.Output{}, err
		}
		return tool.Output{Data: map[string]any{k.name: k.get(s)}}, nil
	}
	return tool.Output{}, &tool.Error{
		Code: "invalid_arguments", Msg: `field "key" is missing`,
		Hint: "use one of title, tag, metadata, mode, profile, cwd",
	}
}

func setText(to *string, v json.RawMessage) error {
	var text string
	if json.Unmarshal(v, &text) != nil || string(v) == "null" {
		return &tool.Error{Code: "invalid_arguments", Msg: "the value is not text", Hint: "send a string in quotes"}
	}
	if len([]rune(text)) > 200 {
		return &tool.Error{
			Code: "invalid_arguments", Msg: "the value is longer than 200 characters", Hint: "shorten it",
		}
	}
	*to = text
	return nil
}

func setMetadata(s *tool.Session, v json.RawMessage) error {
	var object map[string]json.RawMessage
	if json.Unmarshal(v, &object) != nil || object == nil {
		return &tool.Error{Code: "invalid_arguments", Msg: "metadata is not an object", Hint: `send {"name": value, …}`}
	}
	if len(v) > 64<<10 {
		return &tool.Error{
			Code: "invalid_arguments", Msg: "metadata is larger than 64 kB",
			Hint: "keep large texts as variables",
		}
	}
	s.Metadata = v
	return nil
}
