package policy

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// TestPermissionRulesAgreeWithTheOracle compares the tables, the index and the
// Rego with a slow evaluator that only knows what docs/policies.md says.
func TestPermissionRulesAgreeWithTheOracle(t *testing.T) {
	load := rulesOver(t)
	rapid.Check(t, func(rt *rapid.T) {
		rules := drawRules(rt)
		r := load(rt, rules)
		for range 5 {
			in, err := input.New(drawCall(rt, t))
			if err != nil {
				rt.Fatal(err)
			}
			fs, err := r.evaluate(context.Background(), in, time.Minute)
			if err != nil {
				rt.Fatal(err)
			}
			var got []string
			for _, f := range fs {
				if strings.Contains(f.ID, " ") { // "deny Bash(…)"; the ids of the profile have no space
					got = append(got, f.ID)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(slices.Compact(got), slowly(rules, in)); diff != "" {
				rt.Fatalf("%s with %+v (-got +want):\n%s", in.Params, rules, diff)
			}
		}
	})
}

// slowly gives the ids of the rules that hold.
func slowly(rules permission.Rules, in *input.Document) []string {
	var out []string
	for _, rule := range rules.Deny {
		if len(matched(rule, in, false)) > 0 {
			out = append(out, "deny "+rule)
		}
	}
	for _, rule := range rules.Ask {
		if len(matched(rule, in, false)) > 0 {
			out = append(out, "ask "+rule)
		}
	}
	// An allow of parts holds when the rules together allow every part.
	own := ownParts(in)
	covered := map[string]bool{}
	for _, rule := range rules.Allow {
		for _, id := range matched(rule, in, true) {
			covered[id] = true
		}
	}
	for _, rule := range rules.Allow {
		ids := matched(rule, in, true)
		all := len(own) > 0 && !slices.ContainsFunc(own, func(id string) bool { return !covered[id] })
		some := slices.ContainsFunc(own, func(id string) bool { return slices.Contains(ids, id) })
		if slices.Contains(ids, "") || all && some {
			out = append(out, "allow "+rule)
		}
	}
	slices.Sort(out)
	return out
}

// ownParts are the parts that an allow must cover: the commands of a command line,
// the paths of a file tool, the hosts of a fetch.
func ownParts(in *input.Document) (ids []string) {
	switch in.Tool.Class {
	case "exec":
		for _, c := range in.Commands {
			ids = append(ids, c.ID)
		}
	case "read", "write":
		for _, p := range in.Paths {
			ids = append(ids, p.ID)
		}
	case "net":
		for _, h := range in.Hosts {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

// matched are the ids of the parts that a rule matches; "" is the whole call.
func matched(rule string, in *input.Document, allow bool) (ids []string) {
	name, spec, ok := strings.Cut(strings.TrimSuffix(rule, ")"), "(")
	switch {
	case !ok:
		if name == in.Tool.Name || strings.HasPrefix(name, "mcp__") && strings.HasPrefix(in.Tool.Name, name+"__") {
			ids = append(ids, "")
		}
	case name == "Bash":
		for _, c := range in.Commands {
			if commandMatches(spec, c, allow) {
				ids = append(ids, c.ID)
			}
		}
	case name == "Read" || name == "Edit":
		op := map[string]string{"Read": "read", "Edit": "write"}[name]
		for _, p := range in.Paths {
			if p.Op == op && pathMatches(spec, p, allow) {
				ids = append(ids, p.ID)
			}
		}
	case name == "WebFetch":
		domain := strings.TrimPrefix(spec, "domain:")
		for _, h := range in.Hosts {
			if rest, wild := strings.CutPrefix(domain, "*"); wild && strings.HasSuffix(h.Name, rest) || h.Name == domain {
				ids = append(ids, h.ID)
			}
		}
	case name == in.Tool.Name:
		param, value, _ := strings.Cut(spec, ":")
		doc, _ := decode(in.Params)
		if s, ok := doc.(map[string]any)[param].(string); ok && star(value, s) {
			ids = append(ids, "")
		}
	}
	return ids
}

func commandMatches(spec string, c input.Command, allow bool) bool {
	if allow && !c.Plain {
		return false
	}
	words := strings.Fields(spec)
	if head, ok := strings.CutSuffix(spec, " *"); ok && !strings.Contains(head, "*") {
		words = words[:len(words)-1]
		if allow {
			return len(c.Argv) >= len(words) && slices.Equal(c.Argv[:len(words)], words)
		}
		var plain []string
		for _, w := range words {
			if strings.HasPrefix(w, "-") {
				if !slices.Contains(c.Flags, w) {
					return false
				}
			} else {
				plain = append(plain, w)
			}
		}
		have := append([]string{c.Name}, c.Operands...)
		return len(have) >= len(plain) && slices.Equal(have[:len(plain)], plain)
	}
	return star(spec, c.Text) || !allow && strings.Contains(spec, "*") &&
		star(spec, strings.Join(append([]string{c.Name}, c.Operands...), " "))
}

// star matches a text in which * is any text.
func star(pattern, s string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	if !strings.HasPrefix(s, head) {
		return false
	}
	if s = s[len(head):]; !wild {
		return s == ""
	}
	for i := range len(s) + 1 {
		if star(rest, s[i:]) {
			return true
		}
	}
	return false
}

func pathMatches(spec string, p input.Path, allow bool) bool {
	var pattern []string
	switch {
	case strings.HasPrefix(spec, "//"):
		pattern = partsOf(spec)
	case strings.HasPrefix(spec, "~/"):
		pattern = partsOf("/home/u" + spec[1:])
	case strings.Contains(spec, "/"):
		pattern = partsOf("/src/" + spec)
	default:
		pattern = partsOf("/src/**/" + spec)
	}
	have := partsOf(p.Path)
	if segmentsMatch(pattern, have) {
		return true
	}
	// The call is on a tree, and the pattern's fixed part lies inside it; or the pattern is
	// for what lies in this tree, and not at any depth.
	fixed := pattern
	if i := slices.IndexFunc(pattern, func(s string) bool { return strings.Contains(s, "*") }); i >= 0 {
		fixed = pattern[:i]
	}
	if len(fixed) == len(have) && (len(pattern) == len(fixed) || pattern[len(fixed)] == "**") {
		return false
	}
	return !allow && p.Recursive && len(fixed) >= len(have) && slices.Equal(fixed[:len(have)], have)
}

// segmentsMatch: the pattern matches the path or a directory above it.
func segmentsMatch(pattern, have []string) bool {
	if len(pattern) == 0 {
		return true
	}
	if pattern[0] == "**" {
		return segmentsMatch(pattern[1:], have) || len(have) > 0 && segmentsMatch(pattern, have[1:])
	}
	return len(have) > 0 && star(pattern[0], have[0]) && segmentsMatch(pattern[1:], have[1:])
}

func partsOf(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}
