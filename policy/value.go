package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/tool"
)

// value is the input for the engine: the fields in reads, nil being all. It is built
// by hand since going through JSON takes longer than the evaluation, and lazily where
// few rules look: what is never read is never converted. Params are valid JSON by
// [NewInput].
func (in *Input) value(reads fieldSet) ast.Value { return ast.LazyObject(in.fields(reads)) }

// whole is a lazy document with everything converted. Rules that replace parts of the
// input need it: the engine cannot copy a lazy one, and would write into it.
func whole(lazy ast.Value) ast.Value {
	out := ast.NewObject()
	lazy.(ast.Object).Foreach(out.Insert)
	return out
}

func (in *Input) fields(reads fieldSet) map[string]any {
	doc := make(map[string]any, len(inputFields))
	for _, f := range inputFields {
		if reads == nil || reads[f.name] {
			doc[f.name] = f.value(in)
		}
	}
	return doc
}

// inputFields make the fields at the top of the document.
var inputFields = []struct {
	name  string
	value func(*Input) any
}{
	{"version", func(in *Input) any { return in.Version }},
	{"tool", func(in *Input) any {
		return map[string]any{
			"name": in.Tool.Name, "class": in.Tool.Class, "server": in.Tool.Server,
			"read_only": in.Tool.ReadOnly, "destructive": in.Tool.Destructive, "open_world": in.Tool.OpenWorld,
		}
	}},
	{"mode", func(in *Input) any { return in.Mode }},
	{"session", func(in *Input) any {
		return map[string]any{
			"id": in.Session.ID, "account": in.Session.Account, "dir": in.Session.Dir,
			"home": in.Session.Home, "profile": in.Session.Profile,
		}
	}},
	{"params", func(in *Input) any { return in.Params }},
	{"paths", func(in *Input) any { return array(in.Paths, pathValue) }},
	{"hosts", func(in *Input) any { return array(in.Hosts, hostValue) }},
	{"commands", func(in *Input) any { return array(in.Commands, commandValue) }},
	{"opaque", func(in *Input) any { return array(in.Opaque, opaqueValue) }},
	{"origins", func(in *Input) any {
		return map[string]any{"args": originLists(in.Origins.Args), "session": words(in.Origins.Session)}
	}},
	{"starts", func(in *Input) any { return texts(in.Starts) }},
	{"authors", func(in *Input) any { return texts(in.Authors) }},
	{"rule_kinds", func(in *Input) any { return texts(in.RuleKinds) }},
	{"settings", func(in *Input) any {
		return map[string]any{
			"allow_nested_sandbox": in.Settings.AllowNestedSandbox, "workspace_roots": words(in.Settings.WorkspaceRoots),
		}
	}},
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

var (
	pathKeys = keys("id", "raw", "path", "op", "recursive", "base", "segments", "ancestors", "forms", "under",
		"spelled", "spelled_in", "in_workspace")
	hostKeys    = keys("id", "name", "suffixes", "private")
	commandKeys = keys("id", "name", "path", "known", "argv", "prefixes", "flags", "operands", "via", "env", "dir", "files", "hosts",
		"text", "literal", "plain", "piped_net")
	fileKeys   = keys("path", "known", "op", "recursive", "base", "ancestors")
	opaqueKeys = keys("id", "code", "command")
)

func pathValue(p PathFacts) ast.Value {
	return object(pathKeys, text(p.ID), text(p.Raw), text(p.Path), text(p.Op), truth(p.Recursive), text(p.Base),
		texts(p.Segments), texts(p.Ancestors), texts(p.Forms), texts(p.Under), texts(p.Spelled), texts(p.SpelledIn), truth(p.InWorkspace))
}

func hostValue(h HostFacts) ast.Value {
	return object(hostKeys, text(h.ID), text(h.Name), texts(h.Suffixes), truth(h.Private))
}

func commandValue(c CommandFacts) ast.Value {
	return object(commandKeys, text(c.ID), text(c.Name), text(c.Path), truth(c.Known), texts(c.Argv), texts(c.Prefixes),
		texts(c.Flags), texts(c.Operands), texts(c.Via), texts(c.Env), text(c.Dir), array(c.Files, fileValue), texts(c.Hosts),
		text(c.Text), texts(c.Literal), truth(c.Plain), truth(c.PipedNet))
}

func fileValue(f FileFacts) ast.Value {
	return object(fileKeys, text(f.Path), truth(f.Known), text(f.Op), truth(f.Recursive), text(f.Base), texts(f.Ancestors))
}

func opaqueValue(o OpaqueFacts) ast.Value {
	return object(opaqueKeys, text(o.ID), text(o.Code), text(o.Command))
}

// keys are the terms of field names; nothing ever writes to them.
func keys(names ...string) []*ast.Term {
	out := make([]*ast.Term, len(names))
	for i, n := range names {
		out[i] = ast.InternedTerm(n)
	}
	return out
}

func object(keys []*ast.Term, values ...ast.Value) ast.Value {
	block := make([]ast.Term, len(keys)) // together: a document has hundreds
	pairs := make([][2]*ast.Term, len(keys))
	for i, k := range keys {
		block[i].Value = values[i]
		pairs[i] = [2]*ast.Term{k, &block[i]}
	}
	return ast.NewObject(pairs...)
}

func text(s string) ast.Value { return ast.String(s) }

func truth(b bool) ast.Value { return ast.Boolean(b) }

func texts[S ~string](list []S) ast.Value {
	return array(list, func(s S) ast.Value { return ast.String(s) })
}

var none = ast.NewArray()

func array[T any](list []T, value func(T) ast.Value) ast.Value {
	if len(list) == 0 {
		return none
	}
	block := make([]ast.Term, len(list))
	out := make([]*ast.Term, len(list))
	for i, v := range list {
		block[i].Value = value(v)
		out[i] = &block[i]
	}
	return ast.NewArray(out...)
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
