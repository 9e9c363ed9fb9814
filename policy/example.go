package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
)

// Example is a call in the metadata of a rule, under custom.match or
// custom.not_match. A plain text is a command line of Bash.
type Example struct {
	Command string          `json:"command,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Class   tool.Class      `json:"class,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Mode    string          `json:"mode,omitempty"`
	Reads   []string        `json:"reads,omitempty"`
	Writes  []string        `json:"writes,omitempty"`
	Hosts   []string        `json:"hosts,omitempty"`
	Session []tool.Origin   `json:"origins,omitempty"` // of the session
}

// exampleDeadline is for loading, where nobody waits for one evaluation: a busy
// machine must not turn a good policy into a load error.
const exampleDeadline = 5 * time.Second

// Examples run in this session.
const (
	exampleDir  = "/src"
	exampleHome = "/home/u"
)

// NewExample reads one example; text that is no object is a command line.
func NewExample(v any) (Example, error) {
	if s, ok := v.(string); ok {
		return Example{Command: s}, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return Example{}, err
	}
	var x Example
	if err := strictJSON(b, &x); err != nil {
		return Example{}, fmt.Errorf("example %s: %w", b, err)
	}
	return x, nil
}

// Call is the call that the example describes, in /src of a user with the home
// directory /home/u.
func (x Example) Call() (*tool.Call, error) {
	if x.Command != "" {
		return CommandCall(x.Command, exampleDir, exampleHome, x.Mode)
	}
	if x.Tool == "" {
		return nil, fmt.Errorf("example %+v names neither a command nor a tool", x)
	}
	c := exampleCall(tool.Spec{
		Name: x.Tool, Class: x.Class, ReadOnly: x.Class == tool.ClassRead, Annotations: &tool.Annotations{},
	}, exampleDir, exampleHome, x.Mode)
	c.In.Args = x.Args
	for _, p := range x.Reads {
		c.Facts.Uses.Paths = append(c.Facts.Uses.Paths, sandbox.PathUse{Raw: p, Path: p, Op: sandbox.Read})
	}
	for _, p := range x.Writes {
		c.Facts.Uses.Paths = append(c.Facts.Uses.Paths, sandbox.PathUse{Raw: p, Path: p, Op: sandbox.Write})
	}
	c.Facts.Uses.Hosts = x.Hosts
	c.Facts.Origins.Session = x.Session
	return c, nil
}

// CommandCall is a call of Bash with the facts of its text, for judging a command
// line without a daemon. Symlinks are not resolved and nothing is looked up.
func CommandCall(line, dir, home, mode string) (*tool.Call, error) {
	s, err := shellparse.Parse(line, shellparse.Options{Dir: dir, Home: home})
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", line, err)
	}
	c := exampleCall(tool.Spec{
		Name: "Bash", Class: tool.ClassExec, Annotations: &tool.Annotations{Destructive: true, OpenWorld: true},
	}, dir, home, mode)
	if c.In.Args, err = json.Marshal(map[string]string{"command": line}); err != nil {
		return nil, err
	}
	c.Facts.Uses.Script = s
	for _, cmd := range s.Commands {
		for _, f := range cmd.Files {
			use := sandbox.PathUse{Raw: f.Path, Op: f.Access, Recursive: f.Recursive, At: f.At}
			if f.Known {
				use.Path = f.Path
			}
			c.Facts.Uses.Paths = append(c.Facts.Uses.Paths, use)
		}
		c.Facts.Uses.Hosts = append(c.Facts.Uses.Hosts, cmd.Hosts...)
	}
	return c, nil
}

func exampleCall(spec tool.Spec, dir, home, mode string) *tool.Call {
	if mode == "" {
		mode = ModeDefault
	}
	return &tool.Call{
		Spec:     spec,
		Session:  tool.Session{ID: "example", Account: "example", Dir: dir, Home: home, Mode: mode},
		In:       tool.In{Session: "example", Dir: dir, Home: home},
		Facts:    tool.Facts{Class: spec.Class, Mode: mode},
		Settings: sandbox.Settings{AllowedWritePaths: []string{dir}, AutoAllowBashIfSandboxed: true},
	}
}

// checkExamples runs the examples of all rules in the files that want chooses,
// and joins what does not hold.
func (r *revision) checkExamples(ctx context.Context, modules map[string]*ast.Module, want func(file string) bool) error {
	var errs []error
	for _, file := range sortedKeys(modules) {
		pkg := strings.TrimPrefix(modules[file].Package.Path.String(), "data.")
		if !want(file) || !slices.ContainsFunc(r.packages, func(p judgedPackage) bool { return p.name == pkg }) {
			continue
		}
		for _, rule := range modules[file].Rules {
			for _, a := range rule.Annotations {
				for _, err := range r.checkRule(ctx, rule, a.Custom) {
					errs = append(errs, fmt.Errorf("%s:%d: %w", file, rule.Location.Row, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (r *revision) checkRule(ctx context.Context, rule *ast.Rule, custom map[string]any) (errs []error) {
	for _, key := range []string{"match", "not_match"} {
		if custom[key] == nil {
			continue
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
			found, err := r.finds(ctx, id, v)
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
func (r *revision) finds(ctx context.Context, id string, example any) (bool, error) {
	x, err := NewExample(example)
	if err != nil {
		return false, err
	}
	c, err := x.Call()
	if err != nil {
		return false, err
	}
	in, err := NewInput(c)
	if err != nil {
		return false, err
	}
	fs, err := r.evaluate(ctx, in, exampleDeadline)
	if err != nil {
		return false, fmt.Errorf("example %v: %w", example, err)
	}
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.ID == id }), nil
}

func operatorFile(file string) bool { return !strings.HasPrefix(file, libraryPrefix) }
