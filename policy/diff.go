package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/policy/callback"
)

// Changes is what differs between two sets of policies, in words.
type Changes struct {
	Settings []string        `json:"settings"` // one sentence each
	Packages []PackageChange `json:"packages"` // in the order of their names
}

// PackageChange is what differs in one package.
type PackageChange struct {
	Package string       `json:"package"`
	Change  string       `json:"change"` // added, removed or changed
	Rules   []RuleChange `json:"rules"`
}

// RuleChange is what differs in one rule.
type RuleChange struct {
	Rule   string `json:"rule"`   // id of its finding, or the name of a helper
	Change string `json:"change"` // added, removed or changed
	What   string `json:"what"`   // a sentence
	At     string `json:"at"`     // file and line, of the newer one where it is there
}

// None reports whether nothing differs.
func (c Changes) None() bool { return len(c.Settings)+len(c.Packages) == 0 }

// Diff says what differs between the policies of a and of b. Both are loaded as for judging,
// without their examples and tests.
func Diff(ctx context.Context, a, b Options) (Changes, error) {
	a.Profile, b.Profile = cmp.Or(a.Profile, ProfileDeveloper), cmp.Or(b.Profile, ProfileDeveloper)
	was, err := operatorRules(ctx, a)
	if err != nil {
		return Changes{}, err
	}
	now, err := operatorRules(ctx, b)
	if err != nil {
		return Changes{}, err
	}
	out := Changes{Settings: settingChanges(a, b), Packages: []PackageChange{}}
	for _, name := range union(was, now) {
		if c, differs := packageChange(name, was[name], now[name]); differs {
			out.Packages = append(out.Packages, c)
		}
	}
	return out, nil
}

// said is one rule of a package, all of its bodies together.
type said struct {
	at     string
	effect string
	head   string // what it finds
	body   string // when it holds
}

// operatorRules lists the operator's rules by package and name.
func operatorRules(ctx context.Context, o Options) (map[string]map[string]said, error) {
	_, modules, err := loadModules(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]said{}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		if !operatorFile(file) {
			continue // that of the other is the same; the profile says which part judges
		}
		m := modules[file]
		pkg := strings.TrimPrefix(m.Package.Path.String(), "data.")
		if out[pkg] == nil {
			out[pkg] = map[string]said{}
		}
		for _, r := range m.Rules {
			name, effect := ruleName(r)
			old := out[pkg][name]
			next := said{
				at: cmp.Or(old.at, fmt.Sprintf("%s:%d", file, r.Location.Row)), effect: cmp.Or(effect, old.effect),
				head: old.head + "\n" + r.Head.String(), body: old.body + "\n" + r.Body.String(),
			}
			for e := r.Else; e != nil; e = e.Else {
				next.body += "\nelse " + e.String()
			}
			out[pkg][name] = next
		}
	}
	return out, nil
}

// ruleName returns the id of the finding of a rule, or the name of a helper.
func ruleName(r *ast.Rule) (name, effect string) {
	name = r.Head.Ref().String()
	if r.Head.Name != "findings" || r.Head.Key == nil {
		return name, ""
	}
	obj := writtenFinding(r)
	if obj == nil {
		return "findings", ""
	}
	return cmp.Or(literal(obj, "id"), "findings"), literal(obj, "effect")
}

func packageChange(name string, was, now map[string]said) (PackageChange, bool) {
	c := PackageChange{Package: name, Change: "changed", Rules: []RuleChange{}}
	switch {
	case was == nil:
		c.Change = "added"
	case now == nil:
		c.Change = "removed"
	}
	for _, rule := range union(was, now) {
		a, before := was[rule]
		b, after := now[rule]
		if r, differs := ruleChange(rule, a, b, before, after); differs {
			c.Rules = append(c.Rules, r)
		}
	}
	return c, len(c.Rules) > 0
}

func ruleChange(rule string, a, b said, before, after bool) (RuleChange, bool) {
	switch {
	case !before:
		return RuleChange{rule, "added", does(b.effect), b.at}, true
	case !after:
		return RuleChange{rule, "removed", did(a.effect), a.at}, true
	}
	var what []string
	if a.effect != b.effect {
		what = append(what, fmt.Sprintf("%s, where it %s before", does(b.effect), does(a.effect)))
	} else if a.head != b.head {
		what = append(what, "says something else")
	}
	if a.body != b.body {
		what = append(what, "holds under another condition")
	}
	return RuleChange{rule, "changed", strings.Join(what, "; "), b.at}, what != nil
}

// usedByRules is what a helper does.
const usedByRules = "is used by rules"

// does returns what a rule with this effect does, as a verb.
func does(effect string) string {
	switch Effect(effect) {
	case EffectDeny:
		return "denies"
	case EffectAsk:
		return "asks"
	case EffectAllow:
		return "allows"
	case EffectRewrite:
		return "rewrites"
	case EffectCount:
		return "counts"
	}
	return usedByRules
}

// did returns what a rule with this effect does no longer.
func did(effect string) string {
	if does := does(effect); does != usedByRules {
		return "no longer " + does
	}
	return "no rule uses it any more"
}

// settingChanges say what differs beside Rego.
func settingChanges(a, b Options) []string {
	out := []string{}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if a.Profile != b.Profile {
		add("the profile is %s, and was %s", b.Profile, a.Profile)
	}
	for _, l := range []struct {
		effect   string
		was, now []string
	}{
		{"allow", a.Rules.Allow, b.Rules.Allow},
		{"ask", a.Rules.Ask, b.Rules.Ask},
		{"deny", a.Rules.Deny, b.Rules.Deny},
	} {
		for _, rule := range without(l.now, l.was) {
			add("the rule %q is added to %s", rule, l.effect)
		}
		for _, rule := range without(l.was, l.now) {
			add("the rule %q is removed from %s", rule, l.effect)
		}
	}
	for _, id := range without(b.Disable, a.Disable) {
		add("the rule %s is switched off", id)
	}
	for _, id := range without(a.Disable, b.Disable) {
		add("the rule %s is switched on again", id)
	}
	if x, y := policiesText(a.Policies), policiesText(b.Policies); x != y {
		add("the list policies are %s, and were %s", y, x)
	}
	if x, y := cmp.Or(a.Verdict, callback.VerdictAdvisory), cmp.Or(b.Verdict, callback.VerdictAdvisory); x != y {
		add("what list policies allow is %s, and was %s", y, x)
	}
	if a.RelaxReads != b.RelaxReads {
		add("tools that only read run without the question of the modes default and acceptEdits: %v, and was %v",
			b.RelaxReads, a.RelaxReads)
	}
	if x, y := a.CanUseTool != nil, b.CanUseTool != nil; x != y {
		add("canUseTool is asked: %v, and was %v", y, x)
	}
	if x, y := a.Workspaces != nil, b.Workspaces != nil; x != y {
		add("rules of workspaces are read: %v, and was %v", y, x)
	}
	return out
}

func policiesText(list []callback.ListPolicy) string {
	if len(list) == 0 {
		return "none"
	}
	var out []string
	for _, p := range list {
		out = append(out, strings.TrimSpace(p.Kind+" "+strings.Join(p.Tools, ",")))
	}
	return strings.Join(out, " and ")
}

// without returns the elements of list that are not in other, each once.
func without(list, other []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(other, s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func union[V any](a, b map[string]V) []string {
	names := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return names
}
