package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// ruleInfos lists the rules that give findings and refuses what can be known to
// be wrong before any call: an effect outside the four, an id of the reserved
// kind, one id in two files.
func ruleInfos(modules map[string]*ast.Module) ([]RuleInfo, error) {
	var out []RuleInfo
	for _, file := range sortedKeys(modules) {
		m := modules[file]
		pkg := strings.TrimPrefix(m.Package.Path.String(), "data.")
		for _, r := range m.Rules {
			if r.Head.Name != "findings" || r.Head.Key == nil {
				continue
			}
			obj, ok := r.Head.Key.Value.(ast.Object)
			if !ok {
				continue // a computed finding; its shape is checked when it is made
			}
			info := RuleInfo{ID: literal(obj, "id"), Effect: Effect(literal(obj, "effect")), Package: pkg, File: file, Line: r.Location.Row}
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
	switch info.Effect {
	case "", EffectDeny, EffectAsk, EffectRewrite, EffectAllow:
	default:
		return fmt.Errorf("%s: rule %s has the effect %q: want deny, ask, rewrite or allow", at, info.ID, info.Effect)
	}
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

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
