package policy

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/rego"
)

// The words that random rules and calls are made of: few, so that they meet.
var (
	someRules = []string{
		"Bash", "Read", "WebFetch", "mcp__git", "mcp__git__push", "Agent(model:a)", "Agent(model:a*)",
		"Bash(git *)", "Bash(git push *)", "Bash(git push -f *)", "Bash(git * main)", "Bash(* main)", "Bash(ls)", "Bash(l*)",
		"Read(//src)", "Read(/a/**)", "Edit(*.go)", "Edit(a/*)", "Edit(~/x)", "Read(//src/a/b)", "Edit(//**/b)",
		"WebFetch(domain:x.org)", "WebFetch(domain:*.x.org)",
	}
	someLines = []string{"git push -f origin main", "git -C a push", "ls", "lsof", "git log main && ls", "sudo git push", "rm -r /src"}
	somePaths = []string{"/src", "/src/a", "/src/a/b", "/src/a/b.go", "/home/u/x", "/etc/b"}
	someHosts = []string{"x.org", "a.x.org", "evilx.org"}
)

func drawCall(t *rapid.T, tb testing.TB) *tool.Call {
	mode := rapid.SampledFrom(tool.Modes).Draw(t, "mode")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return bash(tb, mode, rapid.SampledFrom(someLines).Draw(t, "line"))
	case 1:
		c := fileCall(tb, mode, rapid.SampledFrom([]string{"Read", "Edit"}).Draw(t, "tool"),
			rapid.SampledFrom(somePaths).Draw(t, "path"))
		c.Facts.Uses.Paths[0].Recursive = rapid.Bool().Draw(t, "tree")
		return c
	case 2:
		c := newCall(tb, mode, "WebFetch", map[string]any{})
		c.Spec.Class = tool.ClassNet
		c.Facts.Uses.Hosts = []string{rapid.SampledFrom(someHosts).Draw(t, "host")}
		return c
	case 3:
		return newCall(tb, mode, "Agent", map[string]any{
			"model": rapid.SampledFrom([]string{"a", "ab", "b"}).Draw(t, "model"),
		})
	}
	return newCall(tb, mode, rapid.SampledFrom([]string{"mcp__git__push", "mcp__git__x", "mcp__other__x"}).Draw(t,
		"mcp"), map[string]any{})
}

func drawRules(t *rapid.T) permission.Rules {
	lists := rapid.SliceOfNDistinct(rapid.SampledFrom(someRules), 0, 6, rapid.ID).Draw(t, "rules")
	var r permission.Rules
	for _, text := range lists {
		switch rapid.IntRange(0, 2).Draw(t, "list") {
		case 0:
			r.Allow = append(r.Allow, text)
		case 1:
			r.Ask = append(r.Ask, text)
		case 2:
			r.Deny = append(r.Deny, text)
		}
	}
	return r
}

// rulesOver gives revisions that differ in their permission rules only, without
// compiling the library for each.
func rulesOver(t *testing.T) func(*rapid.T, permission.Rules) *revision {
	ctx := context.Background()
	base, modules, err := loadModules(ctx, Options{Profile: "developer"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := compile(modules)
	if err != nil {
		t.Fatal(err)
	}
	return func(rt *rapid.T, rules permission.Rules) *revision {
		data, err := permission.Tables(rules)
		if err != nil {
			rt.Fatal(err)
		}
		r := *base
		r.index = permission.NewIndex(data)
		r.packages = slices.Clone(base.packages)
		store := newStore(data)
		for i := range r.packages {
			p := &r.packages[i]
			if p.query, err = prepare(ctx, compiler, "data."+p.name+".findings", store); err != nil {
				rt.Fatal(err)
			}
		}
		return &r
	}
}

// TestTheIndexLosesNoRule: where the index or the prefilters say that no rule applies,
// evaluating them all finds none.
func TestTheIndexLosesNoRule(t *testing.T) {
	load := rulesOver(t)
	rapid.Check(t, func(rt *rapid.T) {
		rules := drawRules(rt)
		r := load(rt, rules)
		for range 5 {
			in, err := input.New(drawCall(rt, t))
			if err != nil {
				rt.Fatal(err)
			}
			in.RuleKinds = everyKind
			all := unguarded(rt, r, in)
			some, err := r.evaluate(context.Background(), in, time.Minute)
			if err != nil {
				rt.Fatal(err)
			}
			if len(all) != len(some) {
				rt.Fatalf("rules %+v: %d findings with the index, %d without", rules, len(some), len(all))
			}
		}
	})
}

// unguarded are the findings of all packages.
func unguarded(t rapid.TB, r *revision, in *input.Document) []Finding {
	ev, end := begin(context.Background(), time.Minute)
	defer end()
	var all []Finding
	for _, p := range r.packages {
		found, err := ev.ask(p, in.Value(nil))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// TestAddingADenyRuleNeverAllowsMore: whatever the other rules are.
func TestAddingADenyRuleNeverAllowsMore(t *testing.T) {
	load := rulesOver(t)
	verdict := func(rt *rapid.T, rules permission.Rules, c *tool.Call) tool.Verdict {
		e := &Engine{opts: Options{Deadline: time.Minute}}
		e.current.Store(load(rt, rules))
		return decide(t, e, c).Verdict
	}
	rapid.Check(t, func(rt *rapid.T) {
		rules := drawRules(rt)
		c := drawCall(rt, t)
		before := verdict(rt, rules, c)
		more := rules
		extra := rapid.SampledFrom([]string{"Bash(git *)", "Read(//src)", "Edit(*.go)", "mcp__git"}).Draw(rt, "deny")
		if slices.Contains(rules.Allow, extra) || slices.Contains(rules.Ask, extra) {
			return // the same rule in two lists is a load error
		}
		more.Deny = append(slices.Clone(rules.Deny), extra)
		if after := verdict(rt, more, c); after > before {
			rt.Fatalf("with the deny %s: %s, without: %s", extra, after, before)
		}
	})
}

// everyKind makes the rules look at every table that they name.
var everyKind = func() (kinds []string) {
	text, err := rego.Files.ReadFile("core/rules.rego")
	if err != nil {
		panic(err)
	}
	for _, m := range regexp.MustCompile(`"([a-z]+\.[a-z_]+)" in input\.rule_kinds`).FindAllSubmatch(text, -1) {
		kinds = append(kinds, string(m[1]))
	}
	return kinds
}()

// TestEveryKindHasAnExample: so that the index is tried with rules of each.
func TestEveryKindHasAnExample(t *testing.T) {
	tables, err := permission.Tables(permission.Rules{Allow: someRules})
	if err != nil {
		t.Fatal(err)
	}
	tighten, err := permission.Tables(permission.Rules{Deny: someRules})
	if err != nil {
		t.Fatal(err)
	}
	if len(everyKind) < 20 {
		t.Errorf("rules.rego names the tables %q", everyKind)
	}
	for _, kind := range everyKind {
		list, name, _ := strings.Cut(kind, ".")
		of, _ := map[string]map[string]any{"allow": tables, "tighten": tighten}[list][list].(map[string]any)
		if m, _ := of[name].(map[string]any); len(m) == 0 {
			t.Errorf("no rule is kept in the table %s", kind)
		}
	}
}
