package config

import (
	"strings"
	"testing"
)

func TestR01_MistakesInGroupsNameTheirLine(t *testing.T) {
	h := newHome(t)
	const rules = "files:\n      declareSkillRules:\n        "
	for _, tt := range []struct{ name, groups, want string }{
		{
			"a group that does not exist", "fiels: false",
			":3: tools.groups.fiels: no such group: the groups are Agent, custom,",
		},
		{"an own group that says nothing", "team: {enabled: true}", ":3: tools.groups.team: no such group"},
		{"the group of exec", "exec: {rulePrompt: x}", ":3: tools.groups.exec: the name belongs to sandboxd exec"},
		{"an unknown key of a group", "files:\n      skillRules: {}", `:4: tools.groups.files: unknown key "skillRules"`},
		{"a group that is a list", "files: [a]", ":3: tools.groups: want keys and values"},
		{"a group that is a word", "files: offf", ":3: "},
		{
			"an own group whose name breaks a variable's", "'a/b': {rulePrompt: x}",
			":3: tools.groups.a/b: the name of a group",
		},
		{
			"a rule without a prompt", rules + "edit: {desc: d}",
			":5: tools.groups.files.declareSkillRules.edit: a skill rule needs",
		},
		{
			"a rule without a desc", rules + "edit: {prompt: p}",
			":5: tools.groups.files.declareSkillRules.edit: a skill rule needs",
		},
		{"an unknown key of a rule", rules + "edit:\n          promt: p", `:6: tools.groups.files.declareSkillRules.edit: unknown key "promt"`},
		{
			"a rule that is built in", strings.Replace(rules, "files", "Agent", 1) + "TODO: {desc: d, prompt: p}",
			":5: tools.groups.Agent.declareSkillRules.TODO: the rule is built in",
		},
		{
			"a rule whose name breaks a table", rules + "'a`b': {desc: d, prompt: p}",
			":5: tools.groups.files.declareSkillRules.a`b: the name of a rule",
		},
		{
			"a rule longer than a value", rules + "a: {desc: d, prompt: pppp}\nvars: {maxValue: 3}",
			":5: tools.groups.files.declareSkillRules.a: the prompt has 4 bytes",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := h.load("tools:\n  groups:\n    " + tt.groups + "\n")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestGroupsAreShownAsWritten(t *testing.T) {
	c, err := newHome(t).load("tools:\n  groups:\n    files: false\n    team:\n      rulePrompt: Ask.\n" +
		"      declareSkillRules:\n        a: {desc: d, prompt: p}\n    vars: {enabled: true}\n")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"files":false,"team":{"declareSkillRules":{"a":{"desc":"d","prompt":"p"}},"rulePrompt":"Ask."},"vars":true}`
	for _, v := range c.Explain() {
		if v.Key == "tools.groups" && string(v.Value) != want {
			t.Errorf("got %s, want %s", v.Value, want)
		}
	}
	if on := c.Tools.Enabled(); len(on) != 2 || on["files"] || !on["vars"] {
		t.Errorf("the groups that are switched are %v", on)
	}
}

func TestT50_OnlyToolsCanBeDeferred(t *testing.T) {
	h := newHome(t)
	for text, want := range map[string]string{
		"tools:\n  deferred:\n    - Config\n    - NotebookRead\n": `:4: tools.deferred[1]: there is no tool "NotebookRead"`,
		"tools:\n  deferred: [ToolSearch]\n":                      ":2: tools.deferred[0]: ToolSearch finds the others",
	} {
		if _, err := h.load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	own := "tools:\n  deferred: [Lint, Glob]\n  custom: [{name: Lint, description: d, argv: [lint]}]\n"
	if _, err := h.load(own); err != nil {
		t.Errorf("a tool of the operator's own: %v", err)
	}
}
