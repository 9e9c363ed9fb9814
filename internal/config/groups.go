package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tools"
	"github.com/sandboxd/sandboxd/internal/vars"
)

// Group is what the operator says of a group of tools: whether new sessions have it, and which text is added to its
// part of the system prompt. A group without tools is a prompt and documents alone.
type Group struct {
	Enabled    *bool                `yaml:"enabled,omitempty"` // nil: as tools.allGroups says
	RulePrompt string               `yaml:"rulePrompt,omitempty"`
	Rules      map[string]SkillRule `yaml:"declareSkillRules,omitempty"` // by name
}

// SkillRule is a document for the model. It is kept as the variable Rule/GROUP/NAME.
type SkillRule struct {
	Desc       string `yaml:"desc"`
	Prompt     string `yaml:"prompt"`
	When       string `yaml:"when,omitempty"`
	AlwaysLoad bool   `yaml:"alwaysLoad,omitempty"`
}

// BuiltIn returns the groups of a daemon with these parts and without tools of the operator, for their names and
// contents. Their tools cannot run.
func BuiltIn(parts ...part.Definition) []catalog.Group {
	var none *vars.System
	people := catalog.Group{Name: PeopleGroup, Tools: approvals.Tools(nil)}
	groups := append(tools.Groups(), tools.SessionGroup(nil, nil), none.Group(), people, vars.AgentRules())
	for _, p := range parts {
		groups = append(groups, p.Described(nil).Groups...)
	}
	return groups
}

// Deferred returns the tools of a daemon with these parts that are deferred by default.
func Deferred(parts ...part.Definition) []string {
	names := tools.Deferred()
	for _, p := range parts {
		names = append(names, p.Deferred...)
	}
	slices.Sort(names)
	return names
}

// Names of groups that other packages make.
const (
	PeopleGroup = "people"
	CustomGroup = "custom"
	ExecGroup   = "exec" // holds the one tool of sandboxd exec
)

// groupNames returns the groups for which the file may have tools or rules.
func (c *Config) groupNames() []string {
	names := []string{CustomGroup}
	for _, g := range BuiltIn(c.parts...) {
		names = append(names, g.Name)
	}
	slices.Sort(names)
	return names
}

// Enabled returns which groups the file switches on or off.
func (t Tools) Enabled() map[string]bool {
	on := map[string]bool{}
	for name, g := range t.Groups {
		if g.Enabled != nil {
			on[name] = *g.Enabled
		}
	}
	return on
}

// Extend returns a group with what the operator adds: text after its prompt, and rules beside its own.
func (t Tools) Extend(g catalog.Group) catalog.Group {
	added, ok := t.Groups[g.Name]
	if !ok {
		return g
	}
	rules := maps.Clone(g.Rules)
	if rules == nil {
		rules = map[string]catalog.Rule{}
	}
	maps.Copy(rules, added.rules())
	g.Rules = rules
	if text := strings.TrimSpace(added.RulePrompt); text != "" {
		own := g.RulePrompt
		g.RulePrompt = func(enabled []string) string {
			if own == nil {
				return text
			}
			return strings.TrimSpace(own(enabled) + "\n\n" + text)
		}
	}
	return g
}

// Declared returns the groups that have rules of the operator, sorted by name.
func (t Tools) Declared() []catalog.Group {
	var groups []catalog.Group
	for _, name := range slices.Sorted(maps.Keys(t.Groups)) {
		groups = append(groups, catalog.Group{Name: name, Rules: t.Groups[name].rules()})
	}
	return groups
}

// OwnGroups returns the operator's groups that have no tools. [Tools.Extend] adds their prompt and documents.
func (c *Config) OwnGroups() []catalog.Group {
	known := c.groupNames()
	var groups []catalog.Group
	for _, name := range slices.Sorted(maps.Keys(c.Tools.Groups)) {
		if !slices.Contains(known, name) {
			groups = append(groups, catalog.Group{Name: name})
		}
	}
	return groups
}

func (g Group) rules() map[string]catalog.Rule {
	rules := map[string]catalog.Rule{}
	for name, r := range g.Rules {
		rules[name] = catalog.Rule{Desc: r.Desc, Prompt: r.Prompt, When: r.When, AlwaysLoad: r.AlwaysLoad}
	}
	return rules
}

// ruleWord matches the name of an operator's group or rule. The name becomes part of a variable's name and of a
// table in the prompt.
var ruleWord = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

func (c *Config) checkGroups(d *document) error {
	var errs []error
	names := c.groupNames()
	for _, name := range slices.Sorted(maps.Keys(c.Tools.Groups)) {
		g, key := c.Tools.Groups[name], []string{"tools", "groups", name}
		if err := g.check(name, names); err != nil {
			errs = append(errs, d.errorAt(key, err))
			continue
		}
		for _, rule := range slices.Sorted(maps.Keys(g.Rules)) {
			err := c.checkRule(name, rule, g.Rules[rule])
			errs = append(errs, d.errorAt(append(key[:3:3], "declareSkillRules", rule), err))
		}
	}
	return errors.Join(errs...)
}

func (g Group) check(name string, names []string) error {
	known := slices.Contains(names, name)
	switch {
	case name == ExecGroup:
		return errors.New("the name belongs to sandboxd exec; use another")
	case !known && strings.TrimSpace(g.RulePrompt) == "" && len(g.Rules) == 0:
		return fmt.Errorf("no such group: the groups are %s; a group of your own needs rulePrompt or declareSkillRules",
			strings.Join(names, ", "))
	case !known && !ruleWord().MatchString(name):
		return fmt.Errorf("the name of a group is at most 100 letters, digits or any of _.-, not %q", name)
	}
	return nil
}

func (c *Config) checkRule(group, name string, r SkillRule) error {
	builtIn := vars.AgentRules()
	_, taken := builtIn.Rules[name]
	switch {
	case taken && group == builtIn.Name:
		return errors.New("the rule is built in; use another name")
	case !ruleWord().MatchString(name):
		return fmt.Errorf("the name of a rule is at most 100 letters, digits or any of _.-, not %q", name)
	case strings.TrimSpace(r.Desc) == "" || strings.TrimSpace(r.Prompt) == "":
		return errors.New("a skill rule needs desc and prompt")
	case len(r.Prompt) > c.Vars.MaxValue:
		return fmt.Errorf("the prompt has %d bytes, more than vars.maxValue: %d", len(r.Prompt), c.Vars.MaxValue)
	}
	return nil
}

// checkDeferred refuses a name in tools.deferred that defers nothing.
func (c *Config) checkDeferred(d *document) error {
	known := c.toolNames()
	finder := tools.ToolSearch{}.Spec().Name
	var errs []error
	for i, name := range c.Tools.Deferred {
		key := []string{"tools", "deferred", strconv.Itoa(i)}
		switch {
		case name == finder:
			errs = append(errs, d.errorAt(key, fmt.Errorf("%s finds the others; it cannot be deferred itself", finder)))
		case !known[name] && !ofServer(name):
			errs = append(errs, d.errorAt(key, fmt.Errorf("there is no tool %q; names are exact", name)))
		}
	}
	return errors.Join(errs...)
}

// UnmarshalYAML reads true or false, which switch a group on or off, or a mapping.
func (g *Group) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&g.Enabled)
	}
	type plain Group
	if err := knownKeys(n, "enabled", "rulePrompt", "declareSkillRules"); err != nil {
		return err
	}
	return n.Decode((*plain)(g))
}

// MarshalYAML shows a group as the operator wrote it.
func (g Group) MarshalYAML() (any, error) {
	type plain Group
	if g.RulePrompt == "" && len(g.Rules) == 0 && g.Enabled != nil {
		return *g.Enabled, nil
	}
	return plain(g), nil
}

// UnmarshalYAML refuses unknown keys, as the rest of the file does.
func (r *SkillRule) UnmarshalYAML(n *yaml.Node) error {
	type plain SkillRule
	if err := knownKeys(n, "desc", "prompt", "when", "alwaysLoad"); err != nil {
		return err
	}
	return n.Decode((*plain)(r))
}

// knownKeys refuses unknown keys. The decoder does not do that below a type that decodes itself.
func knownKeys(n *yaml.Node, known ...string) error {
	if n.Kind != yaml.MappingNode {
		return typeErrors(fmt.Sprintf("line %d: want keys and values: %s", n.Line, strings.Join(known, ", ")))
	}
	var wrong []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; !slices.Contains(known, k.Value) {
			wrong = append(wrong, fmt.Sprintf("line %d: %s", k.Line, unknownKey(k.Value, known)))
		}
	}
	return typeErrors(wrong...)
}
