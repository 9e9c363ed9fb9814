package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// ruleInfos lists the rules that give findings and refuses what can be known to
// be wrong before any call: a finding that no call could get, an id of the reserved
// kind, one id in two files.
func ruleInfos(modules map[string]*ast.Module) ([]RuleInfo, error) {
	var out []RuleInfo
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		m := modules[file]
		pkg := strings.TrimPrefix(m.Package.Path.String(), "data.")
		for _, r := range m.Rules {
			if r.Head.Name != "findings" || r.Head.Key == nil {
				continue
			}
			obj := writtenFinding(r)
			if obj == nil {
				if ast.IsConstant(r.Head.Key.Value) {
					return nil, fmt.Errorf("%s:%d: a finding is %s, want an object", file, r.Location.Row, r.Head.Key)
				}
				continue // a computed finding; its shape is checked when it is made
			}
			if err := checkWritten(obj); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, r.Location.Row, err)
			}
			info := RuleInfo{
				ID: literal(obj, "id"), Effect: Effect(literal(obj, "effect")), Package: pkg, File: file,
				Line: r.Location.Row,
			}
			describe(&info, r.Annotations)
			if info.ID == "" {
				continue
			}
			if err := checkInfo(info, out); err != nil {
				return nil, err
			}
			out = append(out, info)
		}
	}
	return out, nil
}

func checkInfo(info RuleInfo, earlier []RuleInfo) error {
	at := fmt.Sprintf("%s:%d", info.File, info.Line)
	if strings.HasPrefix(info.ID, "core.") && !ownPackage(info.Package, "core") {
		return fmt.Errorf("%s: the id %s is reserved: ids that begin with core. belong to sandboxd", at, info.ID)
	}
	for _, e := range earlier {
		if e.ID == info.ID && e.File != info.File {
			return fmt.Errorf("%s: the id %s is used by %s:%d already", at, info.ID, e.File, e.Line)
		}
	}
	return nil
}

// writtenFinding returns the object that a rule of findings writes out, in its head or as the value of the variable
// that stands there; nil where it is computed.
func writtenFinding(r *ast.Rule) ast.Object {
	switch v := r.Head.Key.Value.(type) {
	case ast.Object:
		return v
	case ast.Var:
		for _, e := range r.Body {
			if (e.IsAssignment() || e.IsEquality()) && len(e.Operands()) == 2 && e.Operand(0).Value.Compare(v) == 0 {
				obj, _ := e.Operand(1).Value.(ast.Object)
				return obj
			}
		}
	}
	return nil
}

// checkWritten reads a finding as it will be read, with something that fits in place of
// what is known only when a call is judged. What it refuses would deny every call.
func checkWritten(obj ast.Object) error {
	fits := map[string]any{
		"id": "(computed)", "message": "?", "hint": "?", "subject": "?", "effect": string(EffectDeny),
		"obligations": map[string]any{}, "patch": map[string]any{},
	}
	if obj.Get(ast.InternedTerm("patch")) != nil {
		fits["effect"] = string(EffectRewrite)
	}
	finding := map[string]any{}
	for _, key := range obj.Keys() {
		name, ok := key.Value.(ast.String)
		if !ok {
			return nil // computed: it may be any field
		}
		v, err := written(obj.Get(key).Value, fits[string(name)])
		if err != nil {
			return err
		}
		finding[string(name)] = v
	}
	_, err := newFinding(finding)
	return err
}

// written returns a value as JSON, or what fits where it is computed. Of an object it is the part that is written
// out.
func written(v ast.Value, fits any) (any, error) {
	if ast.IsConstant(v) {
		return ast.JSON(v)
	}
	obj, ok := v.(ast.Object)
	if !ok {
		return fits, nil
	}
	out := map[string]any{}
	for _, key := range obj.Keys() {
		name, ok := key.Value.(ast.String)
		if !ok || !ast.IsConstant(obj.Get(key).Value) {
			continue
		}
		var err error
		if out[string(name)], err = ast.JSON(obj.Get(key).Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func literal(obj ast.Object, key string) string {
	t := obj.Get(ast.InternedTerm(key))
	if t == nil {
		return ""
	}
	s, _ := t.Value.(ast.String)
	return string(s)
}

func describe(info *RuleInfo, annotations []*ast.Annotations) {
	for _, a := range annotations {
		if a.Scope == "rule" {
			info.Title, info.Description = a.Title, strings.TrimSpace(a.Description)
		}
	}
}
