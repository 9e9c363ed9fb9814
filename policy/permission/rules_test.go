package permission

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy/input"
)

// Which tables are asked for a call, and what a rule that can never match is told.
func Example() {
	tables, err := Tables(Rules{Allow: []string{"Bash(git log *)"}, Deny: []string{"Read(//etc/**)", "WebFetch"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	index := NewIndex(tables)
	call := &input.Document{
		Tool:     input.Tool{Name: "Bash"},
		Commands: []input.Command{{Name: "git", Literal: []string{"git", "git log", "git log /etc/x"}}},
		Paths:    []input.Path{{Op: "read", Under: []string{"/etc/x", "/etc", "/"}}},
	}
	fmt.Println(index.Kinds(call))

	fmt.Println(Rules{Allow: []string{"Bash(a | b)"}}.Check())
	// Output:
	// [tighten.paths allow.commands]
	// rule "Bash(a | b)" in allow: it can never match: "|" joins commands, and each command of a line is judged by itself
}

// The index names the tables that have an entry for what is in a call; the property
// tests of package policy show that it loses none.
func TestTheIndexNamesTheTablesOfACall(t *testing.T) {
	in := &input.Document{
		Tool:     input.Tool{Name: "Bash", Server: "git"},
		Commands: []input.Command{{Name: "git", Text: "git push", Prefixes: []string{"git", "git push"}, Literal: []string{"git", "git -f"}}},
		Paths: []input.Path{{
			Op: "read", Under: []string{"/src/a", "/src"}, Forms: []string{"/src/a", "./a"}, SpelledIn: []string{"./l"},
		}},
		Hosts: []input.Host{{Name: "a.x.org", Suffixes: []string{"a.x.org", "x.org", "org"}}},
	}
	for _, tt := range []struct {
		rule string
		want []string
	}{
		{"Bash", []string{"tools"}},
		{"mcp__git", []string{"servers"}},
		{"mcp__git__push", nil},
		{"Bash(git push)", []string{"lines"}},
		{"Bash(git push:*)", []string{"commands"}},
		{"Bash(git -f *)", []string{"commands"}},
		{"Bash(git * main)", []string{"command_patterns"}},
		{"Bash(ls *)", nil},
		{"Read(//src/*.go)", []string{"path_patterns"}},
		{"Read(/l)", []string{"paths"}},
		{"Read(//src/a)", []string{"paths"}},
		{"Edit(//src)", nil},
		{"WebFetch(domain:a.x.org)", []string{"hosts"}},
		{"WebFetch(domain:*.x.org)", []string{"subdomains"}},
		{"Agent(model:a)", nil},
	} {
		for list, rules := range map[string]Rules{"allow.": {Allow: []string{tt.rule}}, "tighten.": {Ask: []string{tt.rule}}} {
			tables, err := Tables(rules)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, kind := range tt.want {
				want = append(want, list+kind)
			}
			if got := NewIndex(tables).Kinds(in); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", tt.rule, got, want)
			}
		}
	}
}

func TestRulesThatCanNeverMatchAreRefused(t *testing.T) {
	for _, tt := range []struct{ rule, want string }{
		{"Bash(", "not closed"},
		{"Bash()", "empty"},
		{" Bash", "space"},
		{"Ba sh", "not a tool name"},
		{"", "not a tool name"},
		{"Bash(git push && git pull)", "joins commands"},
		{"Bash(a | b *)", "joins commands"},
		{"Bash(FOO=1 make)", "assignment"},
		{"Bash(echo $(id))", "substitution"},
		{"Read(../x)", ".."},
		{"Read(~bob/x)", "only ~ itself"},
		{`Read(a\b)`, "mean nothing"},
		{`Read(//a\*b)`, "mean nothing"},
		{"Read(*.{pem,key})", "one rule for each"},
		{"Read($HOME/x)", "~/x"},
		{"Read(file:///etc/x)", "URL"},
		{"Bash(./run.sh *)", "want run.sh"},
		{"Bash(/bin/rm:*)", "want rm"},
		{"Bash(scripts/x*)", "without a directory"},
		{"Read([a)", "not closed"},
		{"Read(/x[/]y[a])", "matches nothing"},
		{"Read([z-a])", "the range z-a is empty"},
		{"Read([[:alpha:]])", "are not known"},
		{"WebFetch(https://x.org)", "domain:NAME"},
		{"WebFetch(domain:https://x.org)", "not a host name"},
		{"WebFetch(domain:x.*)", "not a host name"},
		{"Todo(x)", "no specifier"},
		{"mcp__git__push(x)", "no specifier"},
		{"mcp__", "want mcp__server"},
	} {
		err := Rules{Allow: []string{tt.rule}}.Check()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("rule %q: error %v, want one about %q", tt.rule, err, tt.want)
		}
	}
	err := Rules{Allow: []string{"Bash"}, Deny: []string{"Bash"}}.Check()
	if err == nil || !strings.Contains(err.Error(), "in deny") {
		t.Errorf("the same rule in allow and deny: error %v, want a refusal", err)
	}
}

// FuzzRules: a rule is refused, or it gives at least one key, and every regular
// expression in it is valid; one that is not would deny every call.
func FuzzRules(f *testing.F) {
	for _, s := range []string{
		"Bash", "mcp__git", "mcp__git__push", "Agent(model:a*)", "Bash(git push -f *)", "Bash(git * main)", "Bash(* main)",
		"Read(//src)", "Edit(~/x)", "Edit(//**/b)", "WebFetch(domain:*.x.org)",
		"Bash(*)", "Bash(a*b *)", "Edit([!a-z]*.go)", "Edit([[:alpha:]])", "Read(//)", "Read(~)",
		"Read(.)", "Edit({a,b})", "Bash(\xff*)", "Read([z-a])", "Bash(:*)", "Bash(* *)", "Bash(** *)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rule string) {
		for _, rules := range []Rules{{Allow: []string{rule}}, {Deny: []string{rule}}} {
			tables, err := Tables(rules)
			if err != nil {
				continue
			}
			if NewIndex(tables).empty() {
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

func (ix Index) empty() bool {
	for _, list := range []map[string]map[string]bool{ix.allow, ix.tighten} {
		for _, keys := range list {
			if len(keys) > 0 {
				return false
			}
		}
	}
	return true
}
