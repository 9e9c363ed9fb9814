package tool_test

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tool"
)

func TestT03_T09_PromptOfTheEnabled(t *testing.T) {
	g := group("fs", "Read", "Write")
	g.RulePrompt = func(enabled []string) string { return "You have " + strings.Join(enabled, "+") }
	r := tool.NewRegistry(g, group("plain", "A"))
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
	r := tool.NewRegistry(group("g", "A"))
	r.SetDefaults(tool.Defaults{AllGroups: true})
	got := r.Prompt(tool.Session{})
	for _, point := range []string{"imitates the log of tool calls", "0 or -1 is unlimited", "refuse with a reason. Heed", "$VAR_REF{{name}}"} {
		if !strings.Contains(got, point) {
			t.Errorf("the base rules do not say %q", point)
		}
	}
}

func TestR08_R11_RuleIndex(t *testing.T) {
	got := tool.RuleIndex("fs", map[string]tool.Rule{
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
	if got := tool.RuleIndex("fs", nil); got != "" {
		t.Errorf("R-11: got %q without rules", got)
	}
}

func TestR13_R14_TheIndexOfEnabledGroupsIsInThePrompt(t *testing.T) {
	rules := map[string]tool.Rule{"edit": {Desc: "how to edit", Prompt: "hidden"}}
	plain, prompted, alone := group("plain", "A"), group("prompted", "B"), tool.Group{Name: "alone", Rules: rules}
	plain.Rules, prompted.Rules = rules, rules
	prompted.RulePrompt = func([]string) string { return "Mind the gap." }
	r := tool.NewRegistry(plain, prompted, alone)
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
	got := tool.RuleIndex("g", map[string]tool.Rule{"x": {Desc: "a|b", When: "one\ntwo | `three`\r\n| four |", Prompt: "p"}})
	want := "| `Rule/g/x` | a\\|b | one two \\| `three` \\| four \\| |\n"
	if !strings.Contains(got, want) {
		t.Errorf("got %q, want the row %q", got, want)
	}
}
