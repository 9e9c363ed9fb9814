package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/open-policy-agent/opa/v1/ast"
)

// value is the input for the engine. It is built by hand since going through
// JSON takes longer than the evaluation.
func (in *Input) value() (ast.Value, error) {
	params, err := decode(in.Params)
	if err != nil {
		return nil, err
	}
	p, err := ast.InterfaceToValue(params)
	if err != nil {
		return nil, err
	}
	return object(
		"version", ast.InternedTerm(in.Version),
		"tool", ast.NewTerm(object(
			"name", text(in.Tool.Name), "class", text(in.Tool.Class),
			"read_only", ast.InternedTerm(in.Tool.ReadOnly), "destructive", ast.InternedTerm(in.Tool.Destructive),
			"open_world", ast.InternedTerm(in.Tool.OpenWorld), "server", text(in.Tool.Server),
		)),
		"mode", text(in.Mode),
		"session", ast.NewTerm(object(
			"id", text(in.Session.ID), "account", text(in.Session.Account), "dir", text(in.Session.Dir),
			"home", text(in.Session.Home), "profile", text(in.Session.Profile),
		)),
		"params", ast.NewTerm(p),
		"paths", array(in.Paths, pathTerm),
		"hosts", array(in.Hosts, hostTerm),
		"commands", array(in.Commands, commandTerm),
		"opaque", array(in.Opaque, opaqueTerm),
		"origins", in.originsTerm(),
		"no_rule_applies", ast.InternedTerm(in.NoRuleApplies),
		"settings", ast.NewTerm(object(
			"allow_nested_sandbox", ast.InternedTerm(in.Settings.AllowNestedSandbox),
			"workspace_roots", texts(in.Settings.WorkspaceRoots),
		)),
	), nil
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

func (in *Input) originsTerm() *ast.Term {
	args := ast.NewObject()
	for k, v := range in.Origins.Args {
		args.Insert(text(k), texts(v))
	}
	return ast.NewTerm(object("args", ast.NewTerm(args), "session", texts(in.Origins.Session)))
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
