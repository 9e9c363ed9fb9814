// Package permission reads permission rules: "Bash(git log *)", "Read(//etc/**)".
//
// An operator writes [Rules]. [Tables] turns them into data for rego/core/rules.rego, or returns an
// error for a rule that is malformed, or that cannot match anything. [NewIndex] takes the keys of that
// data. For each call, [Index.Kinds] says which tables can have an entry; the others are not
// evaluated.
//
//	rules := permission.Rules{Allow: []string{"Bash(git log *)"}, Deny: []string{"Read(//etc/**)"}}
//	tables, err := permission.Tables(rules) // rules.Check() returns the error alone
//	kinds := permission.NewIndex(tables).Kinds(document) // an *input.Document: one call
//	err = permission.Rules{Allow: []string{"Bash(a | b)"}}.Check()
//	// rule "Bash(a | b)" in allow: it can never match: …
//
// Tables are looked up by whole keys, so rules with other keys cost nothing. Patterns
// with the same key are tried one by one: those of one program, all paths that hold at any depth,
// such as Edit(*.go), and all commands whose first word has a star.
//
// The package decides nothing: the Rego file does. Rules of a workspace count only if they ask or
// deny; package policy sees to that.
//
// An error names the rule, its list and the reason, for the person who wrote the rule. There are no tables then, so
// that the other rules are never loaded without this one. An [Index] is safe for concurrent use.
//
// Where things go:
//
//   - A file tool: pathTools in rules.go. Its test is a row of tables_test.go.
//   - A notation for paths: notation in rules_path.go.
//   - A rule that can never match: an error in the method of its kind, and a row of rules_test.go.
//   - A kind of rule: a method of table beside addPath and addCommand. Its table goes into both lists of Index.Kinds,
//     at the same place into touched, which says when it can match, and into keysOf if it has operations. A table
//     that is missing there is never asked, so its rules are lost, also those that deny. It also needs a rule in
//     rego/core/rules.rego, and an example in someRules in policy/index_test.go.
//
// These are rules of policies, which people write. [guard.Rules] are something else: the settings
// of a call, prepared for checks on paths and commands.
package permission

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

// Rules are permission rules in the form Tool or Tool(specifier):
//
//	Bash(git log *)          commands that begin with these words
//	Bash(npm run test:*)     the same in the older spelling
//	Bash(make)               exactly this command
//	Read(//etc/**)           absolute; ~/x below home; /x and ./x below where the session began
//	Edit(*.go)               at any depth below where the session began
//	Edit(*), Edit(**)        everything below it, and every call of a tool for which Edit(…) holds
//	WebFetch(domain:x.org)   the host; *.x.org its subdomains
//	mcp__server              every tool of a server; mcp__server__tool one
//	Agent(model:opus)        a parameter of a call
//
// A deny or an ask holds when any command, path or host of a call matches; it
// looks at meaning, so Bash(git push *) also matches git -C x push. An allow holds
// only when everything that the call does matches as written and nothing in it is
// unknown.
type Rules struct {
	Allow []string `json:"allow,omitempty" yaml:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty" yaml:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty" yaml:"deny,omitempty"`
}

// The effects of rules, as the names of their lists.
const (
	allow = "allow"
	ask   = "ask"
	deny  = "deny"
)

// Check reports the first rule that is malformed or can never match.
func (r Rules) Check() error {
	_, err := Tables(r)
	return err
}

// Tables makes the data that rego/core/rules.rego looks up, by whole keys, so
// that a decision costs the same with ten rules and with ten thousand. An error is about the
// first rule that is malformed or can never match; there are no tables then.
func Tables(rules Rules) (map[string]any, error) {
	tables := map[string]any{allow: map[string]any{}, "tighten": map[string]any{}}
	denied := map[string]bool{}
	for _, l := range []struct {
		effect string
		list   []string
	}{{deny, rules.Deny}, {ask, rules.Ask}, {allow, rules.Allow}} {
		for _, text := range l.list {
			if l.effect == deny {
				denied[text] = true
			} else if denied[text] {
				return nil, fmt.Errorf("rule %q in %s can never match: the same rule is in deny", text, l.effect)
			}
			into := tables["tighten"]
			if l.effect == allow {
				into = tables[allow]
			}
			t := table{entries: into.(map[string]any), effect: l.effect, rule: text}
			if err := t.add(); err != nil {
				return nil, fmt.Errorf("rule %q in %s: %w", text, l.effect, err)
			}
		}
	}
	return tables, nil
}

// table takes one rule into the nested maps of its list.
type table struct {
	entries map[string]any
	effect  string
	rule    string
}

var toolName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// pathTools are the tools whose specifier is a path, with what they do to it.
var pathTools = map[string][]guard.Op{
	"Read": {guard.Read}, "Glob": {guard.Read}, "Grep": {guard.Read}, "LS": {guard.Read},
	"Edit": {guard.Write}, "Write": {guard.Write}, "MultiEdit": {guard.Write}, "NotebookEdit": {guard.Write},
}

func (t table) add() error {
	name, spec, hasSpec := strings.Cut(t.rule, "(")
	if hasSpec {
		var closed bool
		if spec, closed = strings.CutSuffix(spec, ")"); !closed {
			return errors.New("the parenthesis is not closed")
		}
	}
	if !utf8.ValidString(t.rule) || strings.ContainsFunc(t.rule, unicode.IsControl) {
		return errors.New("it holds bytes that are no text")
	}
	if strings.TrimSpace(t.rule) != t.rule {
		return errors.New("it begins or ends with a space")
	}
	if server, ok := strings.CutPrefix(name, "mcp__"); ok {
		return t.addMCP(server, hasSpec)
	}
	if !toolName().MatchString(name) {
		return fmt.Errorf("%q is not a tool name", name)
	}
	if whole := spec == "*" || spec == "**"; !hasSpec || whole {
		t.put(nil, "tools", name)
		if ops := pathTools[name]; whole && ops != nil && t.effect != allow {
			return t.addAllPaths(name, ops)
		}
		return nil
	}
	switch {
	case spec == "" || strings.TrimSpace(spec) != spec:
		return errors.New(
			"the specifier is empty or has a space around it; leave the parentheses out to match the whole tool",
		)
	case name == "Bash" || name == "PowerShell":
		return t.addCommand(spec)
	case pathTools[name] != nil:
		return t.addPath(pathTools[name], spec)
	case name == "WebFetch" || name == "WebSearch":
		return t.addHost(spec)
	}
	return t.addParam(name, spec)
}

// addAllPaths takes a star of a file tool. As any specifier it holds for all that does the same to paths,
// also for commands; and for every call of those tools, wherever the path lies.
func (t table) addAllPaths(name string, ops []guard.Op) error {
	for _, other := range slices.Sorted(maps.Keys(pathTools)) {
		if other != name && slices.Equal(pathTools[other], ops) {
			t.put(nil, "tools", other)
		}
	}
	return t.addPath(ops, "./**")
}

func (t table) addMCP(rest string, hasSpec bool) error {
	if hasSpec {
		return errors.New("rules for MCP tools take no specifier")
	}
	server, name, hasTool := strings.Cut(rest, "__")
	if !toolName().MatchString(server) || hasTool && name != "*" && !toolName().MatchString(name) {
		return errors.New("want mcp__server or mcp__server__tool")
	}
	if !hasTool || name == "*" {
		t.put(nil, "servers", server)
		return nil
	}
	t.put(nil, "tools", t.rule)
	return nil
}

func (t table) addHost(spec string) error {
	domain, ok := strings.CutPrefix(spec, "domain:")
	if !ok {
		return errors.New("it can never match: want domain:NAME")
	}
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	name, wild := strings.CutPrefix(domain, "*.")
	if name == "" || strings.ContainsAny(name, "*/:@ ") {
		return fmt.Errorf("it can never match: %q is not a host name; want example.com or *.example.com", domain)
	}
	if wild {
		t.put(nil, "subdomains", name)
	} else {
		t.put(nil, "hosts", name)
	}
	return nil
}

func (t table) addParam(name, spec string) error {
	param, value, ok := strings.Cut(spec, ":")
	if !ok || param == "" || value == "" {
		return fmt.Errorf("it can never match: %s has no specifier of its own; want %s(parameter:value)", name, name)
	}
	if !strings.Contains(value, "*") {
		t.put(nil, "params", name, param, value)
		return nil
	}
	t.put(map[string]any{"regex": wildcard(value)}, "param_patterns", name, param)
	return nil
}

// put appends a hit with extra fields to the list under keys.
func (t table) put(extra map[string]any, keys ...string) {
	m := t.entries
	for _, k := range keys[:len(keys)-1] {
		next, ok := m[k].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[k] = next
		}
		m = next
	}
	hit := map[string]any{"id": t.effect + " " + t.rule, "effect": t.effect}
	for k, v := range extra {
		hit[k] = v
	}
	last := keys[len(keys)-1]
	list, _ := m[last].([]any)
	m[last] = append(list, hit)
}

// wildcard returns the regular expression of a text in which * stands for any text.
func wildcard(s string) string {
	parts := strings.Split(s, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return `(?s)\A` + strings.Join(parts, ".*") + `\z`
}
