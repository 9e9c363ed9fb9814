package policy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/permission"
)

func TestDifferencesAreSaidInWords(t *testing.T) {
	const ask = `findings contains {"id": "acme.x", "effect": "ask", "message": "m"} if helped`
	const help = "\n\nhelped if input.tool.name == \"Todo\""
	dir := func(text string) Options { return Options{Dirs: []string{policyDir(t, text)}} }
	nobody := func(context.Context, string, json.RawMessage, callback.Context) (*callback.Opinion, error) {
		return nil, nil
	}
	for _, tt := range []struct {
		name string
		a, b Options
		want []string
	}{
		{name: "nothing", a: dir(acme(ask + help)), b: dir(acme(ask + help))},
		{name: "comments and spaces", a: dir(acme(ask + help)), b: dir("# c\n" + acme("\n\n# x\n"+ask+"  "+help))},
		{
			name: "a package more", a: Options{}, b: dir(acme(ask + help)),
			want: []string{
				"added sandboxd.policies.acme.x", "added acme.x: asks", "added helped: is used by rules",
			},
		},
		{
			name: "a package less", a: dir(acme(ask + help)), b: Options{},
			want: []string{
				"removed sandboxd.policies.acme.x", "removed acme.x: no longer asks", "removed helped: no rule uses it any more",
			},
		},
		{
			name: "another effect", a: dir(acme(ask + help)), b: dir(acme(strings.ReplaceAll(ask, `"ask"`, `"deny"`) + help)),
			want: []string{"changed sandboxd.policies.acme.x", "changed acme.x: denies, where it asks before"},
		},
		{
			name: "another condition", a: dir(acme(ask + help)), b: dir(acme(ask + "\n\nhelped if input.tool.name == \"Bash\"")),
			want: []string{"changed sandboxd.policies.acme.x", "changed helped: holds under another condition"},
		},
		{
			name: "another message", a: dir(acme(ask + help)), b: dir(acme(strings.ReplaceAll(ask, `"m"`, `"n"`) + help)),
			want: []string{"changed sandboxd.policies.acme.x", "changed acme.x: says something else"},
		},
		{
			name: "another branch", a: dir(acme(ask + help + " else := false")), b: dir(acme(ask + help + " else := true")),
			want: []string{"changed sandboxd.policies.acme.x", "changed helped: holds under another condition"},
		},
		{
			name: "settings",
			a:    Options{Rules: permission.Rules{Allow: []string{"Bash(a)", "Bash(b)"}}, Disable: []string{"developer.git.discard"}},
			b: Options{
				Profile: ProfileStrict, Rules: permission.Rules{Allow: []string{"Bash(b)"}, Deny: []string{"Bash(c)"}},
				Disable: []string{"developer.git.force_push"}, Policies: []callback.ListPolicy{{Kind: "denylist", Tools: []string{"A", "B"}}},
				Verdict: callback.VerdictFinal, RelaxReads: true, CanUseTool: nobody, Workspaces: func() []string { return nil },
			},
			want: []string{
				"the profile is strict, and was developer", `the rule "Bash(a)" is removed from allow`,
				`the rule "Bash(c)" is added to deny`, "the rule developer.git.force_push is switched off",
				"the rule developer.git.discard is switched on again", "the list policies are denylist A,B, and were none",
				"what list policies allow is final, and was advisory",
				"tools that only read run without the question of the modes default and acceptEdits: true, and was false",
				"canUseTool is asked: true, and was false", "rules of workspaces are read: true, and was false",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Diff(t.Context(), tt.a, tt.b)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Clone(d.Settings)
			for _, p := range d.Packages {
				got = append(got, p.Change+" "+p.Package)
				for _, r := range p.Rules {
					got = append(got, r.Change+" "+r.Rule+": "+r.What)
					if !strings.Contains(r.At, ".rego:") {
						t.Errorf("%s is at %q", r.Rule, r.At)
					}
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if d.None() != (len(tt.want) == 0) {
				t.Errorf("none: %v", d.None())
			}
		})
	}
}

func TestBrokenPoliciesHaveNoDifferences(t *testing.T) {
	good := Options{Dirs: []string{policyDir(t, acme(rule))}}
	for name, bad := range map[string]Options{
		"no policies": {Dirs: []string{t.TempDir()}}, "broken": {Dirs: []string{policyDir(t, "package")}},
		"no directory": {Dirs: []string{"/nonexistent"}},
	} {
		if _, err := Diff(t.Context(), good, bad); err == nil {
			t.Errorf("%s: no error as the second", name)
		}
		if _, err := Diff(t.Context(), bad, good); err == nil {
			t.Errorf("%s: no error as the first", name)
		}
	}
}
