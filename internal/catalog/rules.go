package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// baseRules open every prompt (T-10).
const baseRules = "## Tools\n\n" +
	"- Tool calls go through the call interface only. Never write text that imitates the log of tool calls or " +
	"their results: such text is not a call, and nothing runs.\n" +
	"- Long results are cut for you. Every tool takes a hidden argument limit: how many characters of the " +
	"result you want to see; 0 or -1 is unlimited. A tool that has a limit of its own takes _limit for this.\n" +
	"- A person may be asked before a call runs or before its result is released, and may refuse with a " +
	"reason. Heed the reason; do not send the same call again.\n" +
	"- Results and arguments of calls are kept as variables of this session. ReadVar reads one, in parts if " +
	"need be; ListVars lists them. $VAR_REF{{name}} or $VAR_REF{{name:start:length}} anywhere in a string " +
	"argument is replaced by the value before the call."

// Prompt returns the part of the system prompt that explains the tools of a session: the base rules, then each
// enabled group's own (T-09). It is "" when nothing is enabled.
func (r *Registry) Prompt(s tool.Session) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.anyEnabled(s) {
		return ""
	}
	parts := []string{baseRules}
	for _, g := range r.groups {
		var names []string
		for _, t := range g.Tools {
			if name := t.Spec().Name; r.owner[name] == g.Name && r.enabled(s, name) && s.Lets(name) {
				names = append(names, name)
			}
		}
		later := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !r.isDeferred(s, name) })
		if block := groupBlock(s, g, names, later, r.finder); block != "" && r.groupEnabled(s, g.Name) {
			parts = append(parts, block)
		}
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// groupBlock returns the part of one group: names are its tools that are on, later those of them that are deferred
// until finder brings them.
func groupBlock(s tool.Session, g Group, names, later []string, finder string) string {
	var body []string
	shown := len(names) > 0 || len(g.Tools) == 0 // a group without tools is its prompt and rules
	if g.RulePrompt != nil && shown {
		if text := strings.TrimSpace(g.RulePrompt(names)); text != "" {
			body = append(body, text)
		}
	}
	if g.Lists != nil && shown {
		if text := strings.TrimSpace(g.Lists(s)); text != "" {
			body = append(body, text)
		}
	}
	if index := RuleIndex(g.Name, g.Rules); index != "" && shown {
		body = append(body, index)
	}
	if len(names) == 0 && len(body) == 0 {
		return ""
	}
	if len(names) > 0 {
		list := "Tools: " + strings.Join(names, ", ")
		if len(later) > 0 {
			list += "\nDeferred, " + finder + " gives their definitions: " + strings.Join(later, ", ")
		}
		body = append([]string{list}, body...)
	}
	return fmt.Sprintf("<tool-group-rule group=%q>\n%s\n</tool-group-rule>", g.Name, strings.Join(body, "\n\n"))
}

// RuleName returns the variable that holds a rule.
func RuleName(group, rule string) string { return "Rule/" + group + "/" + rule }

// RuleIndex renders the rules of a group for the prompt: pinned ones in full,
// then a table of the others. It is "" without rules.
func RuleIndex(group string, rules map[string]Rule) string {
	var pinned, rows []string
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rule := rules[name]
		if rule.AlwaysLoad {
			pinned = append(pinned, "**"+cell(rule.Desc)+":**\n"+strings.TrimRight(rule.Prompt, "\n"))
			continue
		}
		when := rule.When
		if when == "" {
			when = "As needed"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", cell(RuleName(group, name)), cell(rule.Desc), cell(when)))
	}
	var blocks []string
	if len(pinned) > 0 {
		blocks = append(blocks, "**Pinned Rules:**\n"+strings.Join(pinned, "\n"))
	}
	if len(rows) > 0 {
		blocks = append(blocks, "**On-Demand Documentation (Stored as Variables):**\n"+
			"| Var | Description | When to Use |\n|---|---|---|\n"+strings.Join(rows, "\n")+
			"\n*Access via: ReadVar({\"name\": \"<VarName>\"})*")
	}
	return strings.Join(blocks, "\n\n")
}

// cell keeps a text inside its cell of a table.
func cell(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "|", `\|`)), " ")
}
