package permission

import "github.com/sandboxd/sandboxd/policy/input"

// Index knows the keys of all permission rules, by kind of rule. If a call has none of the keys
// of a kind, the rules of this kind need not be evaluated. For most calls, those are most kinds.
type Index struct {
	allow, tighten map[string]map[string]bool
}

// NewIndex flattens the tables of [Tables].
func NewIndex(tables map[string]any) Index {
	return Index{keysOf(tables["allow"]), keysOf(tables["tighten"])}
}

// keysOf gives the keys of each kind. Rules for paths have the operation in
// between, which becomes a part of the kind.
func keysOf(list any) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	put := func(kind string, m map[string]any) {
		keys := make(map[string]bool, len(m))
		for k := range m {
			keys[k] = true
		}
		out[kind] = keys
	}
	entries, _ := list.(map[string]any)
	for kind, v := range entries {
		m := v.(map[string]any)
		if kind != "paths" && kind != "path_patterns" && kind != "inside" {
			put(kind, m)
			continue
		}
		for op, byPath := range m {
			put(kind+" "+op, byPath.(map[string]any))
		}
	}
	return out
}

// Kinds returns the tables of rego/core/rules.rego that have a rule under anything that the call has. One too many
// costs time; one that is missing would lose a rule, and a property test shows that it does not happen.
func (ix Index) Kinds(in *input.Document) []string {
	out := touched(nil, ix.tighten, in, [...]string{
		"tighten.tools", "tighten.servers", "tighten.params", "tighten.param_patterns", "tighten.lines",
		"tighten.commands",
		"tighten.command_patterns", "tighten.paths", "tighten.path_patterns", "tighten.inside", "tighten.hosts",
		"tighten.subdomains",
	})
	return touched(out, ix.allow, in, [...]string{
		"allow.tools", "allow.servers", "allow.params", "allow.param_patterns", "allow.lines", "allow.commands",
		"allow.command_patterns", "allow.paths", "allow.path_patterns", "allow.inside", "allow.hosts",
		"allow.subdomains",
	})
}

func touched(out []string, list map[string]map[string]bool, in *input.Document, names [12]string) []string {
	add := func(i int, yes bool) {
		if yes {
			out = append(out, names[i])
		}
	}
	add(0, list["tools"][in.Tool.Name])
	add(1, list["servers"][in.Tool.Server])
	add(2, list["params"][in.Tool.Name])
	add(3, list["param_patterns"][in.Tool.Name])
	add(4, anyCommand(list["lines"], in, func(c *input.Command, has map[string]bool) bool { return has[c.Text] }))
	add(5, anyCommand(list["commands"], in, func(c *input.Command, has map[string]bool) bool {
		return anyKey(has, c.Prefixes) || anyKey(has, c.Literal)
	}))
	add(6, anyCommand(list["command_patterns"], in,
		func(c *input.Command, has map[string]bool) bool { return has[c.Name] || has[""] }))
	add(7, anyPath(list, "paths ", in,
		func(p *input.Path, has map[string]bool) bool { return anyKey(has, p.Under) || anyKey(has, p.SpelledIn) }))
	add(8, anyPath(list, "path_patterns ", in,
		func(p *input.Path, has map[string]bool) bool { return anyKey(has, p.Under) || anyKey(has, p.SpelledIn) }))
	add(9, anyPath(list, "inside ", in,
		func(p *input.Path, has map[string]bool) bool { return anyKey(has, p.Forms) || anyKey(has, p.Spelled) }))
	for _, h := range in.Hosts {
		add(10, list["hosts"][h.Name])
		add(11, anyKey(list["subdomains"], h.Suffixes))
	}
	return out
}

func anyCommand(has map[string]bool, in *input.Document, test func(*input.Command, map[string]bool) bool) bool {
	if len(has) == 0 {
		return false
	}
	for i := range in.Commands {
		if test(&in.Commands[i], has) {
			return true
		}
	}
	return false
}

func anyPath(list map[string]map[string]bool, kind string, in *input.Document,
	test func(*input.Path, map[string]bool) bool,
) bool {
	for i := range in.Paths {
		if has := list[kind+in.Paths[i].Op]; len(has) > 0 && test(&in.Paths[i], has) {
			return true
		}
	}
	return false
}

func anyKey(has map[string]bool, keys []string) bool {
	if len(has) == 0 {
		return false
	}
	for _, k := range keys {
		if has[k] {
			return true
		}
	}
	return false
}
