package policy

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A guard says what the rules of one package need of a call before any of them can
// hold, so that packages with nothing to say about it are not evaluated: for most
// calls, most packages. It reads conditions of four kinds:
//
//	input.hosts[0]                              # or: some host in input.hosts
//	"git push" in input.starts
//	some name in input.starts; name in {"rm"}   # or a constant set of another package
//	some path in input.paths; path.op == "write"
//
// A rule with none of them can always hold. What a guard gets wrong on the safe side
// costs time; a property test shows that it loses no finding.
type guard []need

// need is what one rule needs: all of its conditions.
type need []condition

// condition is a list of the input that must hold one of words, or anything.
type condition struct {
	list  string
	words []string // nil: anything
}

// admits reports whether any rule can hold for in.
func (g guard) admits(in *Input) bool {
	return slices.ContainsFunc(g, func(n need) bool {
		return !slices.ContainsFunc(n, func(c condition) bool { return !c.holds(in) })
	})
}

func (c condition) holds(in *Input) bool {
	texts, length := in.list(c.list)
	if c.words == nil {
		return length > 0
	}
	return slices.ContainsFunc(texts, func(s string) bool { return slices.Contains(c.words, s) })
}

// list is a list of the document, by name: its length, and what is in it where that
// is text.
func (in *Input) list(name string) (texts []string, length int) {
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
	case "starts":
		texts = in.Starts
	case "authors":
		texts = words(in.Authors)
	case "origins.session":
		texts = words(in.Origins.Session)
	case "rule_kinds":
		texts = in.RuleKinds
	}
	return texts, len(texts)
}

// guarded are the lists that conditions may name, and whether they hold text.
var guarded = map[string]bool{
	"paths": false, "hosts": false, "commands": false, "opaque": false,
	"starts": true, "authors": true, "origins.session": true, "rule_kinds": true,
}

// newGuard reads the rules named findings of a package.
func newGuard(modules map[string]*ast.Module, pkg string) guard {
	var g guard
	for _, m := range modules {
		if packageName(m) != pkg {
			continue
		}
		for _, r := range m.Rules {
			if r.Head.Ref()[0].Value.Compare(ast.Var("findings")) == 0 {
				g = append(g, reader{modules, m}.need(r.Body))
			}
		}
	}
	return g
}

func packageName(m *ast.Module) string { return strings.TrimPrefix(m.Package.Path.String(), "data.") }

// reader reads the conditions of one module.
type reader struct {
	modules map[string]*ast.Module
	module  *ast.Module
}

func (r reader) need(body ast.Body) need {
	var n need
	elements := map[ast.Var]int{} // variables that stand for an element of a list, and its condition
	for _, e := range body {
		if e.Negated || len(e.With) > 0 {
			continue
		}
		switch terms := e.Terms.(type) {
		case *ast.Term: // input.hosts[0]
			if ref, ok := terms.Value.(ast.Ref); ok && len(ref) > 2 && ref[len(ref)-1].Equal(ast.InternedTerm(0)) {
				if list, ok := listName(ref[:len(ref)-1]); ok {
					n = append(n, condition{list: list})
				}
			}
		case *ast.SomeDecl: // some host in input.hosts
			element, list, ok := someIn(terms)
			if !ok {
				continue
			}
			if v, ok := element.Value.(ast.Var); ok {
				elements[v] = len(n)
			}
			n = append(n, condition{list: list})
		case []*ast.Term: // "git push" in input.starts, name in {"rm"}, path.op == "write"
			switch {
			case len(terms) != 3:
			case e.Operator().Equal(ast.Member.Ref()):
				n = r.member(n, elements, terms[1], terms[2])
			case e.Operator().Equal(ast.Equal.Ref()):
				n = opOf(n, elements, terms[1], terms[2])
			}
		}
	}
	return n
}

func (r reader) member(n need, elements map[ast.Var]int, element, collection *ast.Term) need {
	switch v := element.Value.(type) {
	case ast.String:
		if ref, ok := collection.Value.(ast.Ref); ok {
			if list, ok := listName(ref); ok && guarded[list] {
				return append(n, condition{list, []string{string(v)}})
			}
		}
	case ast.Var:
		if i, ok := elements[v]; ok && guarded[n[i].list] && n[i].words == nil {
			n[i].words = r.constants(collection)
		}
	}
	return n
}

// opOf reads path.op == "write".
func opOf(n need, elements map[ast.Var]int, field, value *ast.Term) need {
	ref, isRef := field.Value.(ast.Ref)
	op, isText := value.Value.(ast.String)
	if !isRef || !isText || len(ref) != 2 || !ref[1].Equal(ast.InternedTerm("op")) {
		return n
	}
	v, _ := ref[0].Value.(ast.Var)
	if i, ok := elements[v]; ok && n[i].list == "paths" {
		n = append(n, condition{"paths.op", []string{string(op)}})
	}
	return n
}

// someIn reads "some element in list".
func someIn(d *ast.SomeDecl) (element *ast.Term, list string, ok bool) {
	if len(d.Symbols) != 1 {
		return nil, "", false
	}
	call, isCall := d.Symbols[0].Value.(ast.Call)
	if !isCall || len(call) != 3 || !call[0].Equal(ast.NewTerm(ast.Member.Ref())) {
		return nil, "", false
	}
	ref, isRef := call[2].Value.(ast.Ref)
	if !isRef {
		return nil, "", false
	}
	list, ok = listName(ref)
	return call[1], list, ok
}

// listName is the name of a list of the input: "origins.session" of
// input.origins.session.
func listName(ref ast.Ref) (string, bool) {
	if len(ref) < 2 || !ref[0].Equal(ast.InputRootDocument) || !ref.IsGround() {
		return "", false
	}
	parts := make([]string, 0, 2)
	for _, t := range ref[1:] {
		s, ok := t.Value.(ast.String)
		if !ok {
			return "", false
		}
		parts = append(parts, string(s))
	}
	name := strings.Join(parts, ".")
	_, ok := guarded[name]
	return name, ok
}

// constants are the texts of a set: a literal, or a rule of an imported package that
// is one. Nil is a set that cannot be read here.
func (r reader) constants(t *ast.Term) []string {
	switch v := t.Value.(type) {
	case ast.Set:
		out := make([]string, 0, v.Len())
		for _, e := range v.Slice() {
			s, ok := e.Value.(ast.String)
			if !ok {
				return nil
			}
			out = append(out, string(s))
		}
		return out
	case ast.Var:
		return r.constantRule(packageName(r.module), string(v))
	case ast.Ref:
		if len(v) != 2 {
			return nil
		}
		name, _ := v[1].Value.(ast.String)
		for _, i := range r.module.Imports {
			if path, ok := i.Path.Value.(ast.Ref); ok && i.Name().Compare(v[0].Value) == 0 {
				return r.constantRule(strings.TrimPrefix(path.String(), "data."), string(name))
			}
		}
	}
	return nil
}

// constantRule are the texts of "name := {…}", the only rule of that name.
func (r reader) constantRule(pkg, name string) []string {
	var found []*ast.Rule
	for _, m := range r.modules {
		if packageName(m) == pkg {
			for _, rule := range m.Rules {
				if string(rule.Head.Name) == name {
					found = append(found, rule)
				}
			}
		}
	}
	if len(found) != 1 || found[0].Head.Value == nil || len(found[0].Head.Args) > 0 || !found[0].Body.Equal(ast.NewBody(ast.NewExpr(ast.InternedTerm(true)))) {
		return nil
	}
	if set, ok := found[0].Head.Value.Value.(ast.Set); ok {
		return r.constants(ast.NewTerm(set))
	}
	return nil
}
