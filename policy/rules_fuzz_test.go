package policy

import (
	"regexp"
	"testing"
)

// FuzzRules: a rule is refused, or it gives at least one key, and every regular
// expression in it is valid; one that is not would deny every call.
func FuzzRules(f *testing.F) {
	for _, s := range someRules {
		f.Add(s)
	}
	for _, s := range []string{"Bash(*)", "Bash(a*b *)", "Edit([!a-z]*.go)", "Edit([[:alpha:]])", "Read(//)", "Read(~)", "Read(.)", "Edit({a,b})", "Bash(\xff*)", "Read([z-a])", "Bash(:*)", "Bash(* *)", "Bash(** *)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rule string) {
		for _, rules := range []Rules{{Allow: []string{rule}}, {Deny: []string{rule}}} {
			tables, err := translate(rules)
			if err != nil {
				continue
			}
			if newIndex(tables).empty() {
				t.Errorf("rule %q is accepted and stored nowhere", rule)
			}
			checkRegexps(t, rule, tables)
		}
	})
}

func checkRegexps(t *testing.T, rule string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if s, ok := x.(string); ok && k == "regex" {
				if _, err := regexp.Compile(s); err != nil {
					t.Errorf("rule %q: %v", rule, err)
				}
				continue
			}
			checkRegexps(t, rule, x)
		}
	case []any:
		for _, x := range v {
			checkRegexps(t, rule, x)
		}
	}
}
