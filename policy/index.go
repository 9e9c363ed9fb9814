package policy

// index holds every key that some permission rule is stored under. A call that has
// none of them is touched by no rule, and the rules need not be evaluated: most
// calls, whatever the number of rules.
type index map[string]bool

// newIndex flattens the tables of translate.
func newIndex(tables map[string]any) index {
	ix := index{}
	for _, list := range []string{"allow", "tighten"} {
		entries, _ := tables[list].(map[string]any)
		for kind, v := range entries {
			ix.add(kind, v.(map[string]any), kind == "paths" || kind == "path_patterns" || kind == "inside")
		}
	}
	return ix
}

// add takes the keys of one kind; for paths there is the operation in between.
func (ix index) add(prefix string, m map[string]any, nested bool) {
	for k, v := range m {
		if nested {
			ix.add(prefix+" "+k, v.(map[string]any), false)
		} else {
			ix[prefix+" "+k] = true
		}
	}
}

func (ix index) any(key string, kinds ...string) bool {
	for _, kind := range kinds {
		if ix[kind+" "+key] {
			return true
		}
	}
	return false
}

// touches reports whether a rule is stored under anything that the call has. It
// may say so when no rule holds; the reverse would lose a rule, and a property
// test shows that it does not happen.
func (ix index) touches(in *Input) bool {
	if ix.any(in.Tool.Name, "tools", "params", "param_patterns") || ix.any(in.Tool.Server, "servers") {
		return true
	}
	for _, c := range in.Commands {
		if ix.any(c.Text, "lines") || ix.any(c.Name, "command_patterns") || ix.any("", "command_patterns") {
			return true
		}
		for _, p := range c.Prefixes {
			if ix.any(p, "commands") {
				return true
			}
		}
		for _, p := range c.Literal {
			if ix.any(p, "commands") {
				return true
			}
		}
	}
	for _, p := range in.Paths {
		for _, dir := range p.Under {
			if ix.any(dir, "paths "+p.Op, "path_patterns "+p.Op) {
				return true
			}
		}
		for _, form := range p.Forms {
			if ix.any(form, "inside "+p.Op) {
				return true
			}
		}
	}
	for _, h := range in.Hosts {
		if ix.any(h.Name, "hosts") {
			return true
		}
		for _, s := range h.Suffixes {
			if ix.any(s, "subdomains") {
				return true
			}
		}
	}
	return false
}
