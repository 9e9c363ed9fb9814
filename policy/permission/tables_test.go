package permission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy/input"
)

// flat are the entries of a list, one text each: the keys, and what is asked for beside them.
func flat(at string, v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, flat(at+" "+cmp.Or(k, "ANY"), v[k])...)
		}
	case []any:
		for _, x := range v {
			hit := x.(map[string]any)
			text := strings.TrimSpace(at)
			if re, ok := hit["regex"]; ok {
				text += " /" + re.(string) + "/"
			}
			if flags, ok := hit["flags"]; ok {
				text += fmt.Sprint(" ", flags)
			}
			out = append(out, text)
		}
	}
	return out
}

// TestARuleIsKeptByWhatItIsAbout: what each notation of docs/policies.md means, for a rule that
// allows and for one that denies, which holds for whole trees, too.
func TestARuleIsKeptByWhatItIsAbout(t *testing.T) {
	const end = `(?:/.*)?\z/`
	same := func(s string) [2]string { return [2]string{s, s} }
	for _, tt := range []struct {
		rule string
		want [2]string // allow, deny
	}{
		{"Bash(*)", same("tools Bash")},
		{"Bash(**)", same("tools Bash")},
		{"Edit(*)", [2]string{"tools Edit", "paths write . | tools Edit | tools MultiEdit | tools NotebookEdit | tools Write"}},
		{"Write(**)", [2]string{"tools Write", "paths write . | tools Edit | tools MultiEdit | tools NotebookEdit | tools Write"}},
		{"Read(**)", [2]string{"tools Read", "paths read . | tools Glob | tools Grep | tools LS | tools Read"}},
		{"Edit", same("tools Edit")},
		{"WebFetch(*)", same("tools WebFetch")},
		{"PowerShell(dir)", same("lines dir")},
		{"Bash(make   test)", same("lines make test")},
		{"Bash(git push *)", [2]string{"commands git push", "commands git push []"}},
		{"Bash(rm -rf *)", [2]string{"commands rm -rf", "commands rm [-r -f]"}},
		{"Bash(ls --all *)", [2]string{"commands ls --all", "commands ls [--all]"}},
		{"Bash(a.b * c)", same(`command_patterns a.b /(?s)\Aa\.b .* c\z/`)},
		{"Bash(a*b c)", same(`command_patterns ANY /(?s)\Aa.*b c\z/`)},
		{"Bash(a* *)", same(`command_patterns ANY /(?s)\Aa.* .*\z/`)},
		{"Read(./a/b)", [2]string{"paths read ./a/b", "inside read . | inside read ./a | paths read ./a/b"}},
		{"Read(a/b)", [2]string{"paths read ./a/b", "inside read . | inside read ./a | paths read ./a/b"}},
		{"Read(/a)", [2]string{"paths read ./a", "inside read . | paths read ./a"}},
		{"Read(//etc/x)", [2]string{"paths read /etc/x", "inside read / | inside read /etc | paths read /etc/x"}},
		{"Read(~/x)", [2]string{"paths read ~/x", "inside read ~ | paths read ~/x"}},
		{"Edit(~)", same("paths write ~")},
		{"Edit(.)", same("paths write .")},
		{"Grep(//x)", [2]string{"paths read /x", "inside read / | paths read /x"}},
		{"Glob(//x)", [2]string{"paths read /x", "inside read / | paths read /x"}},
		{"Write(//x)", [2]string{"paths write /x", "inside write / | paths write /x"}},
		{"NotebookEdit(//x)", [2]string{"paths write /x", "inside write / | paths write /x"}},
		{"Read(a/)", same(`path_patterns read . /(?s)\A\./(?:[^/]+/)*a` + end)},
		{"Read(*.pem)", same(`path_patterns read . /(?s)\A\./(?:[^/]+/)*[^/]*\.pem` + end)},
		{"Read(./src/**)", [2]string{"paths read ./src", "inside read . | paths read ./src"}},
		{"Read(//**)", same("paths read /")},
		{
			"Read(//a/*.[!x]?/**/y)", [2]string{
				`path_patterns read /a /(?s)\A/a/[^/]*\.[^/x][^/]/(?:[^/]+/)*y` + end,
				`inside read / | inside read /a | path_patterns read /a /(?s)\A/a/[^/]*\.[^/x][^/]/(?:[^/]+/)*y` + end,
			},
		},
		{
			"Read(/b/x**)", [2]string{
				`path_patterns read ./b /(?s)\A\./b/x.*` + end,
				`inside read . | inside read ./b | path_patterns read ./b /(?s)\A\./b/x.*` + end,
			},
		},
		{"Read(/[^a]*)", [2]string{`path_patterns read . /(?s)\A\./[^/a][^/]*` + end, `inside read . | path_patterns read . /(?s)\A\./[^/a][^/]*` + end}},
		{"Read(/x[+-0]y)", [2]string{`path_patterns read . /(?s)\A\./x[\x{2b}-\x{2e}0]y` + end, `inside read . | path_patterns read . /(?s)\A\./x[\x{2b}-\x{2e}0]y` + end}},
		{"Read(/x[./-]y)", [2]string{`path_patterns read . /(?s)\A\./x[\x{2e}\x{2d}]y` + end, `inside read . | path_patterns read . /(?s)\A\./x[\x{2e}\x{2d}]y` + end}},
		{"WebFetch(domain:A.test.)", same("hosts a.test")},
		{"WebSearch(domain:*.A.test)", same("subdomains a.test")},
		{"Skill(name:x:y)", same("params Skill name x:y")},
		{"Skill(name:x.*)", same(`param_patterns Skill name /(?s)\Ax\..*\z/`)},
		{"mcp__a", same("servers a")},
		{"mcp__a__*", same("servers a")},
		{"mcp__a__b", same("tools mcp__a__b")},
	} {
		for i, r := range []Rules{{Allow: []string{tt.rule}}, {Deny: []string{tt.rule}}} {
			tables, err := Tables(r)
			if err != nil {
				t.Errorf("%s: %v", tt.rule, err)
				continue
			}
			got := flat("", tables[[]string{"allow", "tighten"}[i]])
			if text := strings.Join(got, " | "); text != tt.want[i] {
				t.Errorf("%s: got %s, want %s", tt.rule, text, tt.want[i])
			}
		}
	}
	for _, rule := range []string{
		"mcp__a__", "mcp__a__b c", "mcp__a b", "Skill(:x)", "Skill(name:)", "WebFetch(domain:)", "WebFetch(domain:*.)",
		"Read( a)", "Read(a )", "Bash(a\x01)",
	} {
		if err := (Rules{Allow: []string{rule}}).Check(); err == nil {
			t.Errorf("%q is taken", rule)
		}
	}
	tables, err := Tables(Rules{Ask: []string{"Todo"}, Deny: []string{"Write"}})
	if want := "map[tools:map[Todo:[map[effect:ask id:ask Todo]] Write:[map[effect:deny id:deny Write]]]]"; err != nil ||
		fmt.Sprint(tables["tighten"]) != want {
		t.Errorf("got %v, %v, want %s", tables["tighten"], err, want)
	}
}

// TestTheIndexFindsTreesAndArguments: a call on a whole tree, one through a link, and one with an
// argument that a rule names.
func TestTheIndexFindsTreesAndArguments(t *testing.T) {
	tree := input.Path{Op: "read", Recursive: true, Forms: []string{"/src", "."}, Under: []string{"/src", "."}}
	link := input.Path{
		Op:        "read",
		Recursive: true,
		Forms:     []string{"/x"},
		Spelled:   []string{"./l"},
		SpelledIn: []string{"./l", "."},
	}
	for _, tt := range []struct {
		rule string
		in   input.Document
		want string
	}{
		{"Read(/a/b)", input.Document{Paths: []input.Path{tree}}, "tighten.inside"},
		{"Read(/l/b)", input.Document{Paths: []input.Path{link}}, "tighten.inside"},
		{"Read(/m/b)", input.Document{Paths: []input.Path{{Op: "read", Recursive: true, Forms: []string{"/y"}}}}, ""},
		{"Edit(/a/b)", input.Document{Paths: []input.Path{tree}}, ""},
		{"Skill(name:x)", input.Document{Tool: input.Tool{Name: "Skill"}}, "tighten.params"},
		{"Skill(name:x*)", input.Document{Tool: input.Tool{Name: "Skill"}}, "tighten.param_patterns"},
		{"Skill(name:x)", input.Document{Tool: input.Tool{Name: "Agent"}}, ""},
		{"Bash(a*b c)", input.Document{Commands: []input.Command{{Name: "x"}}}, "tighten.command_patterns"},
	} {
		tables, err := Tables(Rules{Deny: []string{tt.rule}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(NewIndex(tables).Kinds(&tt.in), " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.rule, got, tt.want)
		}
	}
}
