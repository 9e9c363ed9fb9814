package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/tool"
)

// value is the input for the engine. It is built by hand since going through
// JSON takes longer than the evaluation, and lazily where few rules look: what is
// never read is never converted.
func (in *Input) value() (ast.Value, error) {
	params, err := in.params()
	if err != nil {
		return nil, err
	}
	return ast.LazyObject(map[string]any{
		"version": in.Version,
		"tool": object(
			"name", text(in.Tool.Name), "class", text(in.Tool.Class),
			"read_only", ast.InternedTerm(in.Tool.ReadOnly), "destructive", ast.InternedTerm(in.Tool.Destructive),
			"open_world", ast.InternedTerm(in.Tool.OpenWorld), "server", text(in.Tool.Server),
		),
		"mode": in.Mode,
		"session": map[string]any{
			"id": in.Session.ID, "account": in.Session.Account, "dir": in.Session.Dir,
			"home": in.Session.Home, "profile": in.Session.Profile,
		},
		"params":          params,
		"paths":           array(in.Paths, pathTerm).Value,
		"hosts":           array(in.Hosts, hostTerm).Value,
		"commands":        array(in.Commands, commandTerm).Value,
		"opaque":          array(in.Opaque, opaqueTerm).Value,
		"origins":         map[string]any{"args": originLists(in.Origins.Args), "session": words(in.Origins.Session)},
		"no_rule_applies": in.NoRuleApplies,
		"settings": map[string]any{
			"allow_nested_sandbox": in.Settings.AllowNestedSandbox,
			"workspace_roots":      words(in.Settings.WorkspaceRoots),
		},
	}), nil
}

// params are the arguments, decoded once per call.
func (in *Input) params() (any, error) {
	if in.decoded != nil {
		return in.decoded, nil
	}
	return decode(in.Params)
}

func originLists(args map[string][]tool.Origin) map[string]any {
	out := make(map[string]any, len(args))
	for k, v := range args {
		out[k] = words(v)
	}
	return out
}

// words is a list that is never null.
func words[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

func pathTerm(p PathFacts) *ast.Term {
	return ast.NewTerm(object(
		"id", text(p.ID), "raw", text(p.Raw), "path", text(p.Path), "op", text(p.Op),
		"recursive", ast.InternedTerm(p.Recursive), "base", text(p.Base), "segments", texts(p.Segments),
		"ancestors", texts(p.Ancestors), "forms", texts(p.Forms), "under", texts(p.Under), "in_workspace", ast.InternedTerm(p.InWorkspace),
	))
}

func hostTerm(h HostFacts) *ast.Term {
	return ast.NewTerm(object(
		"id", text(h.ID), "name", text(h.Name), "suffixes", texts(h.Suffixes), "private", ast.InternedTerm(h.Private),
	))
}

func commandTerm(c CommandFacts) *ast.Term {
	return ast.NewTerm(object(
		"id", text(c.ID), "name", text(c.Name), "path", text(c.Path), "known", ast.InternedTerm(c.Known),
		"argv", texts(c.Argv), "prefixes", texts(c.Prefixes), "flags", texts(c.Flags), "operands", texts(c.Operands),
		"via", texts(c.Via), "env", texts(c.Env), "dir", text(c.Dir), "files", array(c.Files, fileTerm),
		"hosts", texts(c.Hosts), "text", text(c.Text), "literal", texts(c.Literal), "plain", ast.InternedTerm(c.Plain), "piped_net", ast.InternedTerm(c.PipedNet),
	))
}

func fileTerm(f FileFacts) *ast.Term {
	return ast.NewTerm(object(
		"path", text(f.Path), "known", ast.InternedTerm(f.Known), "op", text(f.Op),
		"recursive", ast.InternedTerm(f.Recursive), "base", text(f.Base), "ancestors", texts(f.Ancestors),
	))
}

func opaqueTerm(o OpaqueFacts) *ast.Term {
	return ast.NewTerm(object("id", text(o.ID), "code", text(o.Code), "command", text(o.Command)))
}

// object takes keys and terms in turn.
func object(pairs ...any) ast.Object {
	terms := make([][2]*ast.Term, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		terms = append(terms, [2]*ast.Term{ast.InternedTerm(pairs[i].(string)), pairs[i+1].(*ast.Term)})
	}
	return ast.NewObject(terms...)
}

func text(s string) *ast.Term { return ast.NewTerm(ast.String(s)) }

func texts[S ~string](list []S) *ast.Term {
	terms := make([]*ast.Term, len(list))
	for i, s := range list {
		terms[i] = text(string(s))
	}
	return ast.ArrayTerm(terms...)
}

func array[T any](list []T, term func(T) *ast.Term) *ast.Term {
	terms := make([]*ast.Term, len(list))
	for i, v := range list {
		terms[i] = term(v)
	}
	return ast.ArrayTerm(terms...)
}

func strictJSON(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}
