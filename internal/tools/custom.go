package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Custom is a tool from the configuration: a program whose words are filled in
// from the arguments. There is no shell, so that an argument is never more than a
// part of one word.
//
//	name: Lint
//	description: Runs the linter on a package.
//	schema: {type: object, properties: {package: {type: string}}, required: [package]}
//	argv: [golangci-lint, run, --, "{{package}}"]
//	readOnly: true
//
// A word that is exactly {{name}} becomes one word per item of a list, and none
// when the argument is absent. A value that begins with a dash is refused where
// the program would read it as an option: write --flag={{name}}, or put it behind
// a -- word.
type Custom struct {
	Name        string          `json:"name" yaml:"name"`
	Description string          `json:"description" yaml:"description"`
	Schema      json.RawMessage `json:"schema" yaml:"-"`
	Argv        []string        `json:"argv" yaml:"argv"`
	ReadOnly    bool            `json:"readOnly" yaml:"readOnly"`
	// Origin is the author of the output: web for a program that fetches pages. "" means tool.
	Origin    tool.Origin  `json:"origin" yaml:"origin"`
	TimeoutMS int64        `json:"timeoutMs" yaml:"timeoutMs"` // 0 means the timeout of Bash
	Limits    guard.Limits `json:"limits" yaml:"limits"`
}

type customTool struct {
	c    Custom
	spec tool.Spec
}

var (
	customName  = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
	placeholder = lazyregexp.New(`\{\{([A-Za-z0-9_]+)\}\}`)
)

// NewCustom checks a tool of the configuration and returns it ready to register.
func NewCustom(c Custom) (tool.Tool, error) {
	if !customName().MatchString(c.Name) {
		return nil, fmt.Errorf("custom tool %q: a name is a letter and up to 63 letters, digits, _ or -", c.Name)
	}
	if c.Description == "" {
		return nil, fmt.Errorf("custom tool %s has no description", c.Name)
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" || strings.Contains(c.Argv[0], "{{") {
		return nil, fmt.Errorf("custom tool %s: argv begins with the program, which cannot come from an argument",
			c.Name)
	}
	if len(c.Schema) == 0 {
		c.Schema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	if !slices.Contains([]tool.Origin{"", tool.OriginRepository, tool.OriginWeb, tool.OriginMCP, tool.OriginTool},
		c.Origin) {
		return nil, fmt.Errorf("custom tool %s: origin %q is none of repository, web, mcp, tool", c.Name, c.Origin)
	}
	var schema struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(c.Schema, &schema); err != nil {
		return nil, fmt.Errorf("custom tool %s: schema: %w", c.Name, err)
	}
	for _, word := range c.Argv {
		for _, p := range placeholder().FindAllStringSubmatch(word, -1) {
			if _, known := schema.Properties[p[1]]; !known {
				return nil, fmt.Errorf("custom tool %s: argv names {{%s}}, which the schema does not have", c.Name,
					p[1])
			}
		}
	}
	spec := tool.Spec{
		Name: c.Name, Description: c.Description, Schema: c.Schema, Class: tool.ClassExec, ReadOnly: c.ReadOnly,
		Annotations: &tool.Annotations{ReadOnly: c.ReadOnly, Destructive: !c.ReadOnly, OpenWorld: true},
		OutputLimit: 30_000, Origin: c.Origin,
	}
	var v catalog.Validator
	if err := v.Validate(spec, json.RawMessage(`{}`)); err != nil && strings.Contains(err.Error(), "schema of tool") {
		return nil, fmt.Errorf("custom tool %s: %w", c.Name, err)
	}
	return customTool{c, spec}, nil
}

// Spec implements [tool.Tool].
func (t customTool) Spec() tool.Spec { return t.spec }

// Uses implements [tool.Tool]: it returns what the program and its arguments name.
func (t customTool) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	argv, err := t.argv(in)
	if err != nil {
		return guard.Uses{}, err
	}
	script, err := shellparse.Argv(argv, shellparse.Options{Dir: in.Dir, Home: in.Home})
	if err != nil {
		return guard.Uses{}, shellError(err)
	}
	return in.Rules.ScriptUses(script, in.Dir), nil
}

// Run implements [tool.Tool].
func (t customTool) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	argv, err := t.argv(in)
	if err != nil {
		return tool.Output{}, err
	}
	timeout := defaultTimeout
	if t.c.TimeoutMS > 0 {
		timeout = min(time.Duration(t.c.TimeoutMS)*time.Millisecond, maxTimeout)
	}
	return runProgram(ctx, in, box, sandbox.Spec{Argv: argv, Dir: in.Dir, Limits: t.c.Limits}, timeout, nil)
}

// Format implements [tool.Formatter].
func (customTool) Format(data any, args json.RawMessage) (string, error) {
	return Bash{}.Format(data, args)
}

// argv returns the words of the program with the arguments of the call filled in.
func (t customTool) argv(in tool.In) ([]string, error) {
	dec := json.NewDecoder(strings.NewReader(string(in.Args)))
	dec.UseNumber()
	var args map[string]any
	if err := dec.Decode(&args); err != nil {
		return nil, &tool.Error{Code: "invalid_arguments", Msg: "the arguments cannot be read: " + err.Error()}
	}
	argv := []string{t.c.Argv[0]}
	operands := false // behind a -- word
	for _, word := range t.c.Argv[1:] {
		names := placeholder().FindAllStringSubmatch(word, -1)
		if len(names) == 1 && names[0][0] == word {
			values, err := words(names[0][1], args[names[0][1]])
			if err != nil {
				return nil, err
			}
			for _, v := range values {
				if strings.HasPrefix(v, "-") && !operands {
					return nil, optionLike(names[0][1], v)
				}
			}
			argv = append(argv, values...)
			continue
		}
		filled, err := fill(word, args)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(filled, "-") && !strings.HasPrefix(word, "-") && !operands {
			return nil, optionLike(names[0][1], filled)
		}
		operands = operands || word == "--"
		argv = append(argv, filled)
	}
	return argv, nil
}

func fill(word string, args map[string]any) (string, error) {
	var failed error
	filled := placeholder().ReplaceAllStringFunc(word, func(p string) string {
		name := p[2 : len(p)-2]
		values, err := words(name, args[name])
		if err == nil && len(values) > 1 {
			err = &tool.Error{
				Code: "invalid_arguments",
				Msg:  fmt.Sprintf("field %q is a list where one value is needed", name),
			}
		}
		if err != nil {
			failed = err
		}
		return strings.Join(values, "")
	})
	return filled, failed
}

// words returns the values of one argument as text. It returns none if the argument is absent.
func words(name string, value any) ([]string, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		if strings.ContainsRune(v, 0) {
			return nil, &tool.Error{Code: "invalid_arguments", Msg: fmt.Sprintf("field %q holds a NUL character", name)}
		}
		return []string{v}, nil
	case bool, json.Number:
		return []string{fmt.Sprint(v)}, nil
	case []any:
		var all []string
		for _, item := range v {
			if _, nested := item.([]any); nested {
				break
			}
			w, err := words(name, item)
			if err != nil {
				return nil, err
			}
			all = append(all, w...)
		}
		if len(all) == len(v) {
			return all, nil
		}
	}
	return nil, &tool.Error{
		Code: "invalid_arguments",
		Msg:  fmt.Sprintf("field %q is neither a plain value nor a list of them", name),
	}
}

func optionLike(name, value string) error {
	return &tool.Error{
		Code: "option_like_argument", Stage: "judge", Msg: fmt.Sprintf(
			"field %q begins with a dash (%.40q): the program would read it as an option", name, value,
		),
		Hint: "give a value without a leading dash; for a file, ./-name",
	}
}
