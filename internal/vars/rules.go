package vars

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/provenance"

	_ "embed"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// the documents

//go:embed rules/VarRef.md
var varRefDocument string

//go:embed rules/TODO.md
var todoDocument string

// AgentRules returns the built-in rules of every session, as a group without tools.
func AgentRules() catalog.Group {
	return catalog.Group{Name: "Agent", Rules: map[string]catalog.Rule{
		"VarRef": {
			Desc:   "How to use variables in arguments with $VAR_REF",
			When:   "Before you pass a long or earlier text to a tool",
			Prompt: varRefDocument,
		},
		"TODO": {
			Desc:   "How to keep a TODO list in variables",
			When:   "When a task has several steps",
			Prompt: todoDocument,
		},
	}}
}

type rule struct{ name, desc, prompt string }

// rulesOf lists the rules of groups in a fixed order.
func rulesOf(groups ...catalog.Group) []rule {
	var all []rule
	for _, g := range groups {
		for _, name := range slices.Sorted(maps.Keys(g.Rules)) {
			r := g.Rules[name]
			all = append(all, rule{
				catalog.RuleName(g.Name, name), fmt.Sprintf("Skill rule for %s: %s", g.Name, r.Desc), r.Prompt,
			})
		}
	}
	return all
}

func revisionOf(rules []rule) string {
	h := sha256.New()
	for _, r := range rules {
		fmt.Fprintf(h, "%q %q %q\n", r.name, r.desc, r.prompt)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// declared are the rules of every session.
type declared struct {
	rules    []rule
	revision string // of the rules
}

func declare(groups ...catalog.Group) *declared {
	rules := append(rulesOf(AgentRules()), rulesOf(groups...)...)
	return &declared{rules, revisionOf(rules)}
}

// Declare makes the rules of these groups variables of every session, beside those
// of [AgentRules] and in place of those that were declared before. A
// session gets them when it is next used.
func (s *System) Declare(groups ...catalog.Group) error {
	d := declare(groups...)
	for i, r := range d.rules {
		if slices.ContainsFunc(d.rules[:i], func(other rule) bool { return other.name == r.name }) {
			return &tool.Error{
				Code: "validation_error", Msg: fmt.Sprintf("skill rule %s is declared twice", r.name),
				Hint: "give it another name",
			}
		}
	}
	for _, g := range groups {
		for name, r := range g.Rules {
			if err := s.checkRule(g.Name, name, r); err != nil {
				return err
			}
		}
	}
	s.declared.Store(d)
	return nil
}

func (s *System) checkRule(group, name string, r catalog.Rule) error {
	if r.Desc == "" || r.Prompt == "" {
		return &tool.Error{
			Code: "validation_error", Hint: "give both",
			Msg: fmt.Sprintf("skill rule %q of group %q needs desc and prompt", name, group),
		}
	}
	if len(r.Prompt) > s.o.MaxValue {
		return &tool.Error{
			Code: "value_too_large", Hint: "raise vars.maxValue",
			Msg: fmt.Sprintf("skill rule %q of group %q has %d bytes, more than %d", name, group, len(r.Prompt),
				s.o.MaxValue),
		}
	}
	return checkName(catalog.RuleName(group, name))
}

// dropRules removes the rules of a session that are not declared any more.
func (s *System) dropRules(tx *sql.Tx, h *head, wanted []rule) error {
	rows, err := tx.Query(`SELECT name FROM vars WHERE session = $1 AND type = $2`, h.session, TypeRule)
	if err != nil {
		return err
	}
	defer rows.Close()
	var old []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		if !slices.ContainsFunc(wanted, func(r rule) bool { return r.name == name }) {
			old = append(old, name)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range old {
		if err := s.exec(`DELETE FROM vars WHERE session = $1 AND name = $2`, h.session, name); err != nil {
			return err
		}
		h.total--
		h.kept--
	}
	return nil
}

// putRule stores one rule. A rule takes its name from any variable that has it.
func (s *System) putRule(tx *sql.Tx, h *head, r rule) error {
	old, err := found(s.row(s.selectVar(), h.session, r.name))
	if err != nil {
		return err
	}
	if old != nil && old.typ == TypeRule && old.value == r.prompt && old.desc == r.desc {
		return nil
	}
	next := record{
		name: r.name, typ: TypeRule, keep: true, desc: r.desc, value: r.prompt, authored: provenance.ByRule,
		origins: provenance.ByRule,
	}
	if old != nil {
		next.created, next.refs = old.created, old.refs
	}
	_, err = s.store(h, next, old)
	return err
}
