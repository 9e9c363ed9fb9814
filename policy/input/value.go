package input

import (
	"encoding/json"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Fields are names of fields at the top of the input; nil is all of them.
type Fields map[string]bool

// Value returns the document for the engine: the fields in reads, nil being all. It is built by hand since going
// through JSON takes longer than the evaluation, and lazily where few rules look: what is never read is never
// converted. Params are valid JSON by [New].
func (in *Document) Value(reads Fields) ast.Value { return ast.LazyObject(in.Fields(reads)) }

// Whole returns a lazy document with everything converted. Rules that replace parts of the input need it: the engine
// cannot copy a lazy one, and would write into it.
func Whole(lazy ast.Value) ast.Value {
	out := ast.NewObject()
	lazy.(ast.Object).Foreach(out.Insert)
	return out
}

// Fields returns the fields in reads with their values, nil being all.
func (in *Document) Fields(reads Fields) map[string]any {
	doc := make(map[string]any, len(inputFields))
	for _, f := range inputFields {
		if reads == nil || reads[f.name] {
			doc[f.name] = f.value(in)
		}
	}
	if in.MCP != nil && (reads == nil || reads["mcp"]) {
		doc["mcp"] = mcpValue(in.MCP)
	}
	if in.Recent != nil && (reads == nil || reads["recent"]) {
		doc["recent"] = recentValue(in.Recent)
	}
	if in.Connection != nil && (reads == nil || reads["connection"]) {
		doc["connection"] = connectionValue(in.Connection)
	}
	if in.Changes != nil && (reads == nil || reads["changes"]) {
		doc["changes"] = array(in.Changes, changeValue)
	}
	return doc
}

// mcpValue leaves out what the server did not claim.
func mcpValue(m *tool.MCP) map[string]any {
	claimed := map[string]any{}
	for name, said := range map[string]*bool{
		"readOnlyHint": m.Claimed.ReadOnly, "destructiveHint": m.Claimed.Destructive,
		"idempotentHint": m.Claimed.Idempotent, "openWorldHint": m.Claimed.OpenWorld,
	} {
		if said != nil {
			claimed[name] = *said
		}
	}
	return map[string]any{"server": m.Server, "tool": m.Tool, "pin": m.Pin, "annotations_claimed": claimed}
}

// inputFields make the fields at the top of the document.
var inputFields = []struct {
	name  string
	value func(*Document) any
}{
	{"version", func(in *Document) any { return in.Version }},
	{"tool", func(in *Document) any {
		return map[string]any{
			"name": in.Tool.Name, "class": in.Tool.Class, "server": in.Tool.Server,
			"read_only": in.Tool.ReadOnly, "destructive": in.Tool.Destructive, "open_world": in.Tool.OpenWorld,
		}
	}},
	{"mode", func(in *Document) any { return string(in.Mode) }},
	{"session", func(in *Document) any {
		return map[string]any{
			"id": in.Session.ID, "account": in.Session.Account, "dir": in.Session.Dir,
			"base": in.Session.Base, "home": in.Session.Home, "profile": in.Session.Profile,
		}
	}},
	{"params", func(in *Document) any { return in.Params }},
	{"paths", func(in *Document) any { return array(in.Paths, pathValue) }},
	{"hosts", func(in *Document) any { return array(in.Hosts, hostValue) }},
	{"commands", func(in *Document) any { return array(in.Commands, commandValue) }},
	{"opaque", func(in *Document) any { return array(in.Opaque, opaqueValue) }},
	{"origins", func(in *Document) any {
		return map[string]any{
			"args": originLists(in.Origins.Args), "session": words(in.Origins.Session),
			"hosts": texts(in.Origins.Hosts),
		}
	}},
	{"starts", func(in *Document) any { return texts(in.Starts) }},
	{"elsewhere", func(in *Document) any { return in.Elsewhere }},
	{"effects", func(in *Document) any { return texts(in.Effects) }},
	{"plants", func(in *Document) any { return array(in.Plants, plantValue) }},
	{"authors", func(in *Document) any { return texts(in.Authors) }},
	{"rule_kinds", func(in *Document) any { return texts(in.RuleKinds) }},
	{"settings", func(in *Document) any {
		return map[string]any{
			"allow_nested_sandbox": in.Settings.AllowNestedSandbox,
			"workspace_roots":      words(in.Settings.WorkspaceRoots),
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

// words returns a list that is never null.
func words[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

var (
	pathKeys = keys("id", "raw", "path", "op", "recursive", "base", "segments", "ancestors", "forms", "under",
		"spelled", "spelled_in", "in_workspace", "looks", "runs_later", "loses")
	lossKeys    = keys("path", "below", "in_workspace")
	hostKeys    = keys("id", "name", "suffixes", "private", "listed")
	commandKeys = keys("id", "name", "path", "known", "argv", "prefixes", "flags", "operands", "via", "env", "dir",
		"files", "hosts",
		"text", "literal", "plain", "piped_net", "deletes", "discards", "publishes", "remote", "runs_text")
	deleteKeys = keys("raw", "path", "tree", "many", "names", "below", "in_workspace", "to", "was", "outside",
		"tracked", "unsaved")
	remoteKeys = keys("program", "verb", "target", "does")
	runKeys    = keys("from", "does", "part")
	plantKeys  = keys("subject", "raw", "path", "program", "from")
	fileKeys   = keys("path", "known", "op", "recursive", "base", "ancestors")
	opaqueKeys = keys("id", "code", "command")
)

func pathValue(p Path) ast.Value {
	return object(pathKeys, text(p.ID), text(p.Raw), text(p.Path), text(p.Op), truth(p.Recursive), text(p.Base),
		texts(p.Segments), texts(p.Ancestors), texts(p.Forms), texts(p.Under), texts(p.Spelled), texts(p.SpelledIn),
		truth(p.InWorkspace), truth(p.Looks), text(p.RunsLater), array(p.Loses, lossValue))
}

func lossValue(l Loss) ast.Value {
	return object(lossKeys, text(l.Path), texts(l.Below), truth(l.InWorkspace))
}

func hostValue(h Host) ast.Value {
	return object(hostKeys, text(h.ID), text(h.Name), texts(h.Suffixes), truth(h.Private), truth(h.Listed))
}

func commandValue(c Command) ast.Value {
	return object(commandKeys, text(c.ID), text(c.Name), text(c.Path), truth(c.Known), texts(c.Argv),
		texts(c.Prefixes),
		texts(c.Flags), texts(c.Operands), texts(c.Via), texts(c.Env), text(c.Dir),
		array(c.Files, fileValue), texts(c.Hosts), text(c.Text), texts(c.Literal), truth(c.Plain), truth(c.PipedNet),
		array(c.Deletes, deleteValue), texts(c.Discards), texts(c.Publishes), array(c.Remote, remoteValue),
		array(c.RunsText, runValue))
}

func deleteValue(d Delete) ast.Value {
	return object(deleteKeys, text(d.Raw), text(d.Path), truth(d.Tree), truth(d.Many), texts(d.Names), texts(d.Below),
		truth(d.InWorkspace), texts(d.To), texts(d.Was), truth(d.Outside), truth(d.Tracked), truth(d.Unsaved))
}

func remoteValue(r Remote) ast.Value {
	return object(remoteKeys, text(r.Program), text(r.Verb), text(r.Target), text(r.Does))
}

func runValue(r Run) ast.Value { return object(runKeys, text(r.From), text(r.Does), text(r.Part)) }

func plantValue(p Plant) ast.Value {
	return object(plantKeys, text(p.Subject), text(p.Raw), text(p.Path), text(p.Program), text(p.From))
}

func fileValue(f File) ast.Value {
	return object(fileKeys, text(f.Path), truth(f.Known), text(f.Op), truth(f.Recursive), text(f.Base),
		texts(f.Ancestors))
}

func opaqueValue(o Opaque) ast.Value {
	return object(opaqueKeys, text(o.ID), text(o.Code), text(o.Command))
}

// keys returns the terms of field names; nothing ever writes to them.
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

// JSON returns the document as the rules see it.
func (in *Document) JSON() (json.RawMessage, error) {
	plain, err := ast.JSON(Whole(in.Value(nil)))
	if err != nil {
		return nil, err
	}
	return json.Marshal(plain)
}

// MarshalJSON is JSON, so that a list without elements is [] everywhere.
func (in *Document) MarshalJSON() ([]byte, error) { return in.JSON() }

// List returns a list of the document, by name: its length, and what is in it where that is text.
func (in *Document) List(name string) (texts []string, length int) {
	switch name {
	case "paths":
		return nil, len(in.Paths)
	case "hosts":
		return nil, len(in.Hosts)
	case "commands":
		return nil, len(in.Commands)
	case "opaque":
		return nil, len(in.Opaque)
	case "paths.op":
		for _, p := range in.Paths {
			texts = append(texts, p.Op)
		}
	case "paths.outside":
		for _, p := range in.Paths {
			if !p.InWorkspace {
				length++
			}
		}
		return nil, length
	case "paths.runs_later":
		for _, p := range in.Paths {
			if p.RunsLater != "" {
				length++
			}
		}
		return nil, length
	case "paths.segments":
		for _, p := range in.Paths {
			texts = append(texts, p.Segments...)
		}
	case "starts":
		texts = in.Starts
	case "effects":
		texts = in.Effects
	case "authors":
		texts = words(in.Authors)
	case "origins.session":
		texts = words(in.Origins.Session)
	case "rule_kinds":
		texts = in.RuleKinds
	case "changes":
		return nil, len(in.Changes)
	}
	return texts, len(texts)
}
