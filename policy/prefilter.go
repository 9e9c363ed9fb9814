package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/policy/input"
)

// A prefilter says what the rules of one package need of a call before any of them can
// hold, so that packages with nothing to say about it are not evaluated: for most
// calls, most packages. It reads conditions of seven kinds:
//
//	input.hosts[0]                              # or: some host in input.hosts
//	"git push" in input.starts
//	some name in input.starts; name in {"rm"}   # or a constant set of another package
//	some path in input.paths; path.op == "write"
//	some path in input.paths; path.in_workspace == false
//	some path in input.paths; path.runs_later != ""
//	some path in input.paths; ".git" in path.segments
//
// A rule with none of them can always hold. What a prefilter gets wrong on the safe side
// costs time; a property test shows that it loses no finding.
type prefilter []need

// need is what one rule needs: all of its conditions.
type need []condition

// condition is a list of the input that must hold one of words, or anything.
type condition struct {
	list  string
	words []string // nil: anything
}

// admits reports whether any rule can hold for in.
func (g prefilter) admits(in *input.Document) bool {
	return slices.ContainsFunc(g, func(n need) bool {
		return !slices.ContainsFunc(n, func(c condition) bool { return !c.holds(in) })
	})
}

func (c condition) holds(in *input.Document) bool {
	texts, length := in.List(c.list)
	if c.words == nil {
		return length > 0
	}
	return slices.ContainsFunc(texts, func(s string) bool { return slices.Contains(c.words, s) })
}

// prefiltered are the lists that conditions may name, and whether they hold text.
var prefiltered = map[string]bool{
	"paths": false, "hosts": false, "commands": false, "opaque": false, "changes": false,
	"starts": true, "effects": true, "authors": true, "origins.session": true, "rule_kinds": true,
}

// newPrefilter reads the rules of a package's findings as the compiler left them: there,
// every name is resolved, so that nothing is taken for another thing of that name.
func newPrefilter(c *ast.Compiler, findings string) (prefilter, error) {
	ref, err := ast.ParseRef(findings)
	if err != nil {
		return nil, err
	}
	var g prefilter
	for _, r := range c.GetRules(ref) {
		g = append(g, newReader(c).need(r.Body))
	}
	if g == nil {
		return nil, fmt.Errorf("%s has no rules", findings)
	}
	return g, nil
}

// reader reads the body of one rule. The compiler gives each reference a variable:
//
//	"git push" in input.starts     a = input.starts; internal.member_2("git push", a)
//	some name in input.starts      a = input.starts[b]
//	path.op == "write"             a.op = "write"
type reader struct {
	compiler *ast.Compiler
	refs     map[ast.Var]ast.Ref // what variables stand for
	elements map[ast.Var]int     // conditions of variables that stand for an element of a list
}

func newReader(c *ast.Compiler) reader {
	return reader{c, map[ast.Var]ast.Ref{}, map[ast.Var]int{}}
}

func (r reader) need(body ast.Body) need {
	var n need
	for _, e := range body {
		if e.Negated || len(e.With) > 0 {
			continue
		}
		switch terms := e.Terms.(type) {
		case *ast.Term: // input.hosts[0]
			if list, ok := elementOf(terms); ok {
				n = append(n, condition{list: list})
			}
		case []*ast.Term:
			switch {
			case len(terms) != 3:
			case e.IsEquality():
				n = r.equal(n, terms[1], terms[2])
			case e.Operator().Equal(ast.NotEqual.Ref()):
				n = r.unequal(n, terms[1], terms[2])
			case e.Operator().Equal(ast.Member.Ref()):
				n = r.member(n, terms[1], terms[2])
			}
		}
	}
	return n
}

// equal reads a = input.starts, a = input.starts[b], a.op = "write" and a.in_workspace = false.
func (r reader) equal(n need, left, right *ast.Term) need {
	switch v := left.Value.(type) {
	case ast.Var:
		if list, ok := elementOf(right); ok {
			r.elements[v] = len(n)
			return append(n, condition{list: list})
		}
		if ref, ok := right.Value.(ast.Ref); ok {
			r.refs[v] = ref
		}
	case ast.Ref:
		op, isText := right.Value.(ast.String)
		switch field := r.pathField(n, v); {
		case field == "op" && isText:
			return append(n, condition{"paths.op", []string{string(op)}})
		case field == "in_workspace" && right.Equal(ast.InternedTerm(false)):
			return append(n, condition{list: "paths.outside"})
		}
	}
	return n
}

// unequal reads a.runs_later != "".
func (r reader) unequal(n need, left, right *ast.Term) need {
	if r.pathField(n, r.ref(left)) == "runs_later" && right.Equal(ast.InternedTerm("")) {
		return append(n, condition{list: "paths.runs_later"})
	}
	return n
}

// pathField returns the field of a path of the input that ref is, "" if it is none.
func (r reader) pathField(n need, ref ast.Ref) string {
	if len(ref) != 2 {
		return ""
	}
	element, _ := ref[0].Value.(ast.Var)
	if i, ok := r.elements[element]; !ok || n[i].list != "paths" {
		return ""
	}
	field, _ := ref[1].Value.(ast.String)
	return string(field)
}

func (r reader) member(n need, element, collection *ast.Term) need {
	switch v := element.Value.(type) {
	case ast.String:
		ref := r.ref(collection)
		if list, ok := listName(ref); ok && prefiltered[list] {
			return append(n, condition{list, []string{string(v)}})
		}
		if r.pathField(n, ref) == "segments" {
			return append(n, condition{"paths.segments", []string{string(v)}})
		}
	case ast.Var:
		if i, ok := r.elements[v]; ok && prefiltered[n[i].list] && n[i].words == nil {
			n[i].words = r.constants(collection)
		}
	}
	return n
}

// ref returns the reference that t is or stands for, or nil.
func (r reader) ref(t *ast.Term) ast.Ref {
	switch v := t.Value.(type) {
	case ast.Var:
		return r.refs[v]
	case ast.Ref:
		return v
	}
	return nil
}

// elementOf returns the list of which t is an element, by whatever index.
func elementOf(t *ast.Term) (list string, ok bool) {
	ref, ok := t.Value.(ast.Ref)
	if !ok || len(ref) < 3 {
		return "", false
	}
	return listName(ref[:len(ref)-1])
}

// listName returns the name of a list of the input: "origins.session" of input.origins.session.
func listName(ref ast.Ref) (string, bool) {
	if len(ref) < 2 || !ref[0].Equal(ast.InputRootDocument) {
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
	_, ok := prefiltered[name]
	return name, ok
}

// constants returns the texts of a set: a literal, or the only rule of its name, which holds always. Nil is a set
// that cannot be read here.
func (r reader) constants(t *ast.Term) []string {
	if ref := r.ref(t); ref.IsGround() && ref.HasPrefix(ast.DefaultRootRef) {
		rules := r.compiler.GetRules(ref)
		if len(rules) != 1 || rules[0].Head.Value == nil || !rules[0].Ref().Equal(ref) || !rules[0].Body.Equal(always) {
			return nil
		}
		t = rules[0].Head.Value
	}
	set, ok := t.Value.(ast.Set)
	if !ok {
		return nil
	}
	out := make([]string, 0, set.Len())
	for _, e := range set.Slice() {
		s, ok := e.Value.(ast.String)
		if !ok {
			return nil
		}
		out = append(out, string(s))
	}
	return out
}

var always = ast.NewBody(ast.NewExpr(ast.InternedTerm(true)))
