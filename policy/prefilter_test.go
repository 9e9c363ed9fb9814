package policy

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

func TestGuardsReadConditions(t *testing.T) {
	const lib = "package sandboxd.policies.acme.lib\n\npublishing := {\"npm publish\"}\n\ngrown contains x if some x in input.starts\n"
	starts := func(words ...string) need { return need{{"starts", words}} }
	for _, tt := range []struct {
		body string
		want need
	}{
		{`true`, nil},
		{`input.tool.name == "x"`, nil},
		{`input.hosts[0]`, need{{"hosts", nil}}},
		{`input.hosts[1]`, need{{"hosts", nil}}},
		{`some host in input.hosts`, need{{"hosts", nil}}},
		{`some i, host in input.hosts; i > 0; host.private`, need{{"hosts", nil}}},
		{`"git push" in input.starts`, starts("git push")},
		{`not "git push" in input.starts`, nil},
		{`"x" in input.tool.name`, nil},
		{`"git push" in input.starts with input as {}`, nil},
		{`some name in input.starts; name in {"a", "b"}`, starts("a", "b")},
		{`some name in input.starts; not name in {"a", "b"}`, starts()},
		{`some name in input.starts; name in {"a", 1}`, starts()},
		{`some name in input.starts; name in names`, starts("a")},
		{`some name in input.starts; name in two`, starts()},
		{`some name in input.starts; name in lib.publishing`, starts("npm publish")},
		{`some name in input.starts; name in lib.grown`, starts()},
		{`some author in input.origins.session; author in {"web"}; some host in input.hosts`, need{
			{"origins.session", []string{"web"}}, {"hosts", nil},
		}},
		{`some path in input.paths; path.op == "write"`, need{{"paths", nil}, {"paths.op", []string{"write"}}}},
		{`some path in input.paths; path.in_workspace == false`, need{{"paths", nil}, {list: "paths.outside"}}},
		{`some path in input.paths; path.runs_later != ""`, need{{"paths", nil}, {list: "paths.runs_later"}}},
		{`some path in input.paths; path.runs_later != "git"`, need{{"paths", nil}}},
		{`some path in input.paths; not path.runs_later != ""`, need{{"paths", nil}}},
		{`some path in input.paths; path.raw != ""`, need{{"paths", nil}}},
		{`some path in input.paths; ".git" in path.segments`, need{{"paths", nil}, {"paths.segments", []string{".git"}}}},
		{`some path in input.paths; not ".git" in path.segments`, need{{"paths", nil}}},
		{`some path in input.paths; ".git" in path.ancestors`, need{{"paths", nil}}},
		{`some path in input.paths; some c in input.commands; c.name != ""`, need{{"paths", nil}, {"commands", nil}}},
		{`some path in input.paths; path.base == "write"`, need{{"paths", nil}}},
		{`some path in input.paths; path.op != "write"`, need{{"paths", nil}}},
		{`some path in input.paths; path.op == input.mode`, need{{"paths", nil}}},
		{`some host in input.hosts; host.name == "write"`, need{{"hosts", nil}}},
		{`names := {"b"}; some name in input.starts; name in names`, starts()},
		{`lib := {"publishing": {"b"}}; some name in input.starts; name in lib.publishing`, starts()},
		{`some name in input.starts; name in lib.publishing with data.sandboxd.policies.acme.lib.publishing as {"b"}`, starts()},
		{`every name in input.starts { name in {"a"} }`, nil},
		{`x := [n | some n in input.starts; n in {"a"}]; count(x) == 0`, nil},
	} {
		files := []source{
			{"lib.rego", []byte(lib)},
			{"x.rego", []byte("package sandboxd.policies.acme.x\n\nimport data.sandboxd.policies.acme.lib\n\n" +
				`findings contains {"id": "acme.x", "effect": "deny", "message": "m"} if { ` + tt.body + " }\n\n" +
				"names := {\"a\"}\n\ntwo := {\"a\"} if input.version == 1\n\nuses := lib.grown\n")},
		}
		modules, err := parse(files)
		if err != nil {
			t.Fatal(err)
		}
		c, err := compile(modules)
		if err != nil {
			t.Fatalf("%s: %v", tt.body, err)
		}
		got, err := newPrefilter(c, "data.sandboxd.policies.acme.x.findings")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, prefilter{tt.want}, cmp.AllowUnexported(condition{}),
			cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-got +want):\n%s", tt.body, diff)
		}
	}
}

// TestGuardsLoseNoFinding: every example of the library has the same findings when
// all packages are asked, whoever wrote what is in the call.
func TestGuardsLoseNoFinding(t *testing.T) {
	ctx := context.Background()
	unordered := cmpopts.SortSlices(func(a, b Finding) bool { return a.ID+a.Subject+a.Message < b.ID+b.Subject+b.Message })
	outside := []tool.Origin{tool.OriginModel, tool.OriginWeb}
	for _, profile := range Profiles {
		r, modules, err := loadModules(ctx, Options{Profile: profile}, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked, skipped := 0, 0
		for _, c := range exampleCalls(t, modules) {
			for _, origins := range []tool.Origins{
				{},
				{Session: outside},
				{Args: map[string][]tool.Origin{"command": outside}},
			} {
				c.Facts.Origins = origins
				in, err := input.New(c)
				if err != nil {
					t.Fatal(err)
				}
				some, err := r.evaluate(ctx, in, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(some, unguarded(t, r, in), cmpopts.IgnoreUnexported(Finding{}),
					unordered); diff != "" {
					t.Errorf("%s %s, %v (-prefiltered +all):\n%s", profile, c.In.Args, origins, diff)
				}
				for _, p := range r.packages {
					if p.prefilter.admits(in) {
						asked++
					} else {
						skipped++
					}
				}
			}
		}
		if asked == 0 || skipped == 0 {
			t.Errorf("%s: %d packages asked, %d not: nothing is shown", profile, asked, skipped)
		}
	}
}

// TestGuardsKnowEveryListOfTheLibrary: a rule of the developer profile without a
// condition would be evaluated for every call.
func TestGuardsKnowEveryListOfTheLibrary(t *testing.T) {
	r, _, err := loadModules(context.Background(), Options{Profile: "developer"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.packages {
		if slices.ContainsFunc(p.prefilter, func(n need) bool { return len(n) == 0 }) {
			t.Errorf("%s has a rule that is evaluated for every call", p.name)
		}
	}
}

// exampleCalls are the calls in the metadata of all rules.
func exampleCalls(t *testing.T, modules map[string]*ast.Module) []*tool.Call {
	var out []*tool.Call
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		for _, rule := range modules[file].Rules {
			for _, a := range rule.Annotations {
				for _, key := range []string{"match", "not_match"} {
					list, _ := a.Custom[key].([]any) // absent is empty
					for _, v := range list {
						x, err := NewExample(v)
						if err != nil {
							t.Fatal(err)
						}
						c, err := x.call(t.Context(), testFacts)
						if err != nil {
							t.Fatal(err)
						}
						out = append(out, c)
					}
				}
			}
		}
	}
	return out
}
