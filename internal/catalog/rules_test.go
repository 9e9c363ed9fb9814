package catalog_test

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestT03_T09_PromptOfTheEnabled(t *testing.T) {
	g := group("fs", "Read", "Write")
	g.RulePrompt = func(enabled []string) string { return "You have " + strings.Join(enabled, "+") }
	r := catalog.NewRegistry(g, group("plain", "A"))
	if got := r.Prompt(tool.Session{}); got != "" {
		t.Errorf("got %q with nothing enabled, want nothing", got)
	}
	s := tool.Session{Groups: map[string]bool{"fs": true}}
	got := r.Prompt(s)
	want := "<tool-group-rule group=\"fs\">\nTools: Read, Write\n\nYou have Read+Write\n</tool-group-rule>\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
	if strings.Contains(got, "plain") {
		t.Errorf("group plain is off and in %q", got)
	}
	s.Tools = map[string]bool{"Write": false}
	if got := r.Prompt(s); !strings.Contains(got, "You have Read\n") {
		t.Errorf("got %q, want the function called anew with what is enabled", got)
	}
	s.Groups["plain"], s.Tools["Read"] = true, false
	if got := r.Prompt(s); strings.Contains(got, `"fs"`) {
		t.Errorf("got %q, want a group without an enabled tool skipped", got)
	}
}

func TestT10_BaseRules(t *testing.T) {
	r := catalog.NewRegistry(group("g", "A"))
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	got := r.Prompt(tool.Session{})
	for _, point := range []string{
		"imitates the log of tool calls", "0 or -1 is unlimited",
		"refuse with a reason. Heed", "$VAR_REF{{name}}",
	} {
		if !strings.Contains(got, point) {
			t.Errorf("the base rules do not say %q", point)
		}
	}
}

func TestR08_R11_RuleIndex(t *testing.T) {
	got := catalog.RuleIndex("fs", map[string]catalog.Rule{
		"edit": {Desc: "how to | edit", When: "before\nedits", Prompt: "hidden"},
		"bare": {Desc: "bare", Prompt: "hidden"},
		"pin":  {Desc: "pinned", Prompt: "verbatim | text\n", AlwaysLoad: true},
	})
	want := "**Pinned Rules:**\n**pinned:**\nverbatim | text\n\n" +
		"**On-Demand Documentation (Stored as Variables):**\n| Var | Description | When to Use |\n|---|---|---|\n" +
		"| `Rule/fs/bare` | bare | As needed |\n| `Rule/fs/edit` | how to \\| edit | before edits |\n" +
		"*Access via: ReadVar({\"name\": \"<VarName>\"})*"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := catalog.RuleIndex("fs", nil); got != "" {
		t.Errorf("R-11: got %q without rules", got)
	}
}

func TestR13_R14_TheIndexOfEnabledGroupsIsInThePrompt(t *testing.T) {
	rules := map[string]catalog.Rule{"edit": {Desc: "how to edit", Prompt: "hidden"}}
	plain, prompted, alone := group("plain", "A"), group("prompted", "B"), catalog.Group{Name: "alone", Rules: rules}
	plain.Rules, prompted.Rules = rules, rules
	prompted.RulePrompt = func([]string) string { return "Mind the gap." }
	r := catalog.NewRegistry(plain, prompted, alone)
	s := tool.Session{Groups: map[string]bool{"plain": true}}
	got := r.Prompt(s)
	if !strings.Contains(got, "| `Rule/plain/edit` | how to edit | As needed |") {
		t.Errorf("R-13: got %q, want the index of a group without a prompt of its own", got)
	}
	if strings.Contains(got, "Rule/prompted") || strings.Contains(got, "Rule/alone") {
		t.Errorf("R-14: got %q, want nothing of a group that is off", got)
	}
	s.Groups["prompted"], s.Groups["alone"] = true, true
	got = r.Prompt(s)
	if !strings.Contains(got, "Mind the gap.\n\n**On-Demand Documentation (Stored as Variables):**") {
		t.Errorf("R-13: got %q, want the index after the prompt of the group", got)
	}
	if !strings.Contains(got, "Rule/alone/edit") {
		t.Errorf("R-13: got %q, want the rules of a group without tools", got)
	}
	s.Tools = map[string]bool{"A": false}
	if got := r.Prompt(s); strings.Contains(got, "Rule/plain") {
		t.Errorf("R-13: got %q, want nothing of a group whose tools are off", got)
	}
}

func TestR15_CellsCannotBreakTheTable(t *testing.T) {
	got := catalog.RuleIndex("g", map[string]catalog.Rule{
		"x": {Desc: "a|b", When: "one\ntwo | `three`\r\n| four |", Prompt: "p"},
	})
	want := "| `Rule/g/x` | a\\|b | one two \\| `three` \\| four \\| |\n"
	if !strings.Contains(got, want) {
		t.Errorf("got %q, want the row %q", got, want)
	}
}

// A group whose tools the operator has taken out is not one of documents alone.
func TestR13_AGroupWithoutItsToolsIsNotAdvertised(t *testing.T) {
	gone := group("gone", "A")
	gone.Rules = map[string]catalog.Rule{"edit": {Desc: "how to edit", Prompt: "hidden"}}
	gone.RulePrompt = func([]string) string { return "Mind the gap." }
	words := catalog.Group{Name: "words", RulePrompt: func([]string) string { return "Ask first." }}
	r := catalog.NewRegistry()
	r.Restrict(nil, []string{"A"})
	for _, g := range []catalog.Group{gone, words, group("other", "B")} {
		r.Register(g)
	}
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	got := r.Prompt(tool.Session{})
	if strings.Contains(got, "gone") || strings.Contains(got, "Mind the gap") {
		t.Errorf("the prompt has a group whose tools are taken out: %s", got)
	}
	if !strings.Contains(got, "<tool-group-rule group=\"words\">\nAsk first.\n</tool-group-rule>") {
		t.Errorf("the prompt lacks a group that is a prompt alone: %s", got)
	}
}

// What a group lists in a session is in the prompt with its tools, and gone with them.
func TestAListOfAGroupIsGoneWithItsTools(t *testing.T) {
	g := group("agents", "Task")
	g.Lists = func(s tool.Session) string { return "Agents of " + s.ID }
	r := catalog.NewRegistry(g, group("other", "B"))
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	if got := r.Prompt(tool.Session{ID: "s"}); !strings.Contains(got, "Tools: Task\n\nAgents of s\n") {
		t.Errorf("the prompt lacks the list: %s", got)
	}
	off := tool.Session{ID: "s", Tools: map[string]bool{"Task": false}}
	if got := r.Prompt(off); strings.Contains(got, "Agents of") || !strings.Contains(got, "Tools: B") {
		t.Errorf("the prompt without the tools is %s", got)
	}
}
