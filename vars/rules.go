package vars

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed" // the documents
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/tool"
)

//go:embed rules/VarRef.md
var varRefDocument string

//go:embed rules/TODO.md
var todoDocument string

// AgentRules are the built-in rules of every session, as a group without tools
//
func AgentRules() tool.Group {
	return tool.Group{Name: "Agent", Rules: map[string]tool.Rule{
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
func rulesOf(groups ...tool.Group) []rule {
	var all []rule
	for _, g := range groups {
		for _, name := range slices.Sorted(maps.Keys(g.Rules)) {
			r := g.Rules[name]
			all = append(all, rule{tool.RuleName(g.Name, name), fmt.Sprintf("Skill rule for %s: %s", g.Name, r.Desc), r.Prompt})
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

// RegisterRules makes the rules of a group variables of one session, in place of
// those it had registered before.
func (s *System) RegisterRules(ctx context.Context, session, group string, rules map[string]tool.Rule) error {
	for name, r := range rules {
		if r.Desc == "" || r.Prompt == "" {
			return &tool.Error{Code: "validation_error", Msg: fmt.Sprintf("skill rule %q of group %q needs desc and prompt", name, group), Hint: "give both"}
		}
		if err := checkName(tool.RuleName(group, name)); err != nil {
			return err
		}
	}
	wanted := rulesOf(tool.Group{Name: group, Rules: rules})
	return s.write(ctx, session, func(tx *sql.Tx, h *head) error {
		if err := s.dropRules(tx, h, group, wanted); err != nil {
			return err
		}
		for _, r := range wanted {
			if err := s.putRule(tx, h, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropRules removes the rules of a group that are not wanted any more.
func (s *System) dropRules(tx *sql.Tx, h *head, group string, wanted []rule) error {
	prefix := tool.RuleName(group, "")
	rows, err := tx.Query(`SELECT name FROM vars WHERE session = $1 AND type = $2 AND substr(name, 1, length($3)) = $3`,
		h.session, TypeRule, prefix)
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
		keep := slices.ContainsFunc(wanted, func(r rule) bool { return r.name == name })
		if rest := strings.TrimPrefix(name, prefix); !keep && !strings.Contains(rest, "/") {
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
	old, err := found(s.row(selectVar, h.session, r.name))
	if err != nil {
		return err
	}
	if old != nil && old.typ == TypeRule && old.value == r.prompt && old.desc == r.desc {
		return nil
	}
	next := record{name: r.name, typ: TypeRule, keep: true, desc: r.desc, value: r.prompt, authored: byRule, origins: byRule}
	if old != nil {
		next.created, next.refs = old.created, old.refs
	}
	_, err = s.store(h, next, old)
	return err
}
