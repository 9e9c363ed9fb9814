package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// Example is a call that is described: in the metadata of a rule, under custom.match or
// custom.not_match, or to a command that judges without a daemon. Text alone is a command
// line of Bash. What the call would touch is not said but found, as for any call.
type Example struct {
	Command string          `json:"command,omitempty"` // short for a call of Bash
	Tool    string          `json:"tool,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Mode    tool.Mode       `json:"mode,omitempty"`
	Origins []tool.Origin   `json:"origins,omitempty"` // who wrote what the model of the session has read
	Recent  *input.Recent   `json:"recent,omitempty"`  // what was counted before; absent is nothing

	Connection *input.Connection `json:"connection,omitempty"` // that the call makes; absent: it has not begun
	Changes    []tool.Changed    `json:"changes,omitempty"`    // that the call made; absent: it has not ended
}

// exampleDeadline is for loading, where nobody waits for one evaluation: a busy
// machine must not turn a good policy into a load error.
const exampleDeadline = 5 * time.Second

// Examples in the metadata of rules run in this session.
const (
	exampleDir  = "/src"
	exampleHome = "/home/u"
)

// NewExample reads one example; text that is no object is a command line.
func NewExample(v any) (Example, error) {
	if s, ok := v.(string); ok {
		v = map[string]any{"command": s}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return Example{}, err
	}
	var x Example
	if err := strictjson.Decode(b, &x); err != nil {
		return Example{}, fmt.Errorf("example %s: %w", b, err)
	}
	if (x.Command == "") == (x.Tool == "") {
		return Example{}, fmt.Errorf("example %s: name either a command or a tool", b)
	}
	if x.Command == "" {
		return x, nil
	}
	if x.Args != nil {
		return Example{}, fmt.Errorf("example %s: a command has no args", b)
	}
	x.Tool = "Bash"
	x.Args, err = json.Marshal(map[string]string{"command": x.Command})
	return x, err
}

// call returns the call of an example in the metadata of a rule, in /src of a user with the home directory /home/u,
// with the facts of a real call.
func (x Example) call(ctx context.Context, facts Facts) (*tool.Call, error) {
	if facts == nil {
		return nil, fmt.Errorf("example of %s: examples need Options.Facts", x.Tool)
	}
	dir, err := guard.Resolve(exampleDir, "/", exampleHome)
	if err != nil {
		return nil, err
	}
	c := tool.NewCall(tool.Request{
		Account: "example", Role: tool.RoleAgent, Session: "example", Tool: x.Tool, Args: x.Args,
	})
	c.Session = tool.Session{
		ID: "example", Account: "example", Dir: dir, Home: exampleHome, Mode: cmp.Or(x.Mode, tool.ModeDefault),
		Sandbox: &guard.Settings{AllowedWritePaths: []string{dir}, AutoAllowBashIfSandboxed: true},
	}
	c.Origins.Session = x.Origins
	if err := facts(ctx, c); err != nil {
		return nil, fmt.Errorf("example %s %s: %w", x.Tool, x.Args, err)
	}
	return c, nil
}

// checkExamples runs the examples of all rules in the files that want chooses,
// and joins what does not hold.
func (r *revision) checkExamples(ctx context.Context, facts Facts, modules map[string]*ast.Module,
	want func(file string) bool,
) error {
	var errs []error
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		pkg := strings.TrimPrefix(modules[file].Package.Path.String(), "data.")
		if !want(file) || !slices.ContainsFunc(r.packages, func(p judgedPackage) bool { return p.name == pkg }) {
			continue
		}
		for _, rule := range modules[file].Rules {
			for _, a := range rule.Annotations {
				for _, err := range r.checkRule(ctx, facts, rule, a.Custom) {
					errs = append(errs, fmt.Errorf("%s:%d: %w", file, rule.Location.Row, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (r *revision) checkRule(ctx context.Context, facts Facts, rule *ast.Rule, custom map[string]any) (errs []error) {
	for _, key := range slices.Sorted(maps.Keys(custom)) {
		if key != "match" && key != "not_match" {
			if strings.Contains(strings.ToLower(key), "match") { // its examples would never be run
				errs = append(errs, fmt.Errorf("custom.%s is unknown; want match or not_match", key))
			}
			continue // custom metadata is for whatever its author likes
		}
		list, ok := custom[key].([]any)
		if !ok {
			return append(errs, fmt.Errorf("%s is not a list", key))
		}
		var id string
		if obj, ok := rule.Head.Key.Value.(ast.Object); ok {
			id = literal(obj, "id")
		}
		if id == "" {
			return append(errs, errors.New("examples need a rule with a literal id"))
		}
		for _, v := range list {
			found, err := r.finds(ctx, facts, id, v)
			if err != nil {
				errs = append(errs, err)
			} else if want := key == "match"; found != want {
				errs = append(errs, fmt.Errorf("rule %s: example %v: matches is %v, want %v", id, v, found, want))
			}
		}
	}
	return errs
}

// finds reports whether the rule with this id has a finding for an example.
func (r *revision) finds(ctx context.Context, facts Facts, id string, example any) (bool, error) {
	x, err := NewExample(example)
	if err != nil {
		return false, err
	}
	c, err := x.call(ctx, facts)
	if err != nil {
		return false, err
	}
	in, err := x.document(c)
	if err != nil {
		return false, err
	}
	in.Recent = cmp.Or(x.Recent, new(input.Recent))
	fs, err := r.evaluate(ctx, in, exampleDeadline)
	if err != nil {
		return false, fmt.Errorf("example %v: %w", example, err)
	}
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.ID == id }), nil
}

// document returns what rules see of the example.
func (x Example) document(c *tool.Call) (*input.Document, error) {
	conn := x.Connection
	if x.Changes != nil {
		return input.NewChanged(c, x.Changes)
	}
	if conn == nil {
		return input.New(c)
	}
	return input.NewConnecting(c, egress.Connection{
		Host: conn.Host, Port: conn.Port, Protocol: cmp.Or(conn.Protocol, egress.ProtocolTLS),
		Method: conn.Method, Path: conn.Path, Via: cmp.Or(conn.Via, egress.ViaTransparent),
	})
}

func operatorFile(file string) bool { return !strings.HasPrefix(file, libraryPrefix) }
