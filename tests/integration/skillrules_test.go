package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// prompt is the text for the system prompt of a session.
func (d *running) prompt(session string) string {
	d.t.Helper()
	var p struct {
		Prompt string `json:"prompt"`
	}
	if err := d.agent.Do(d.t.Context(), "GET", "/sessions/"+session+"/prompt", nil, &p); err != nil {
		d.t.Fatal(err)
	}
	return p.Prompt
}

// group is the block of one group in a prompt, "" without one.
func group(prompt, name string) string {
	_, rest, found := strings.Cut(prompt, `<tool-group-rule group="`+name+"\">\n")
	block, _, ended := strings.Cut(rest, "\n</tool-group-rule>")
	if !found || !ended {
		return ""
	}
	return block
}

const declaringRules = `
tools:
  groups:
    shell:
      declareSkillRules:
        release:
          desc: how to release | publish
          prompt: "Run make release,\nthen wait.\n"
          when: "before\ntagging"
    house:
      rulePrompt: |
        Ask before you rename anything.
      declareSkillRules:
        style: {desc: the house style, prompt: "Tabs, not spaces.", alwaysLoad: true}
        review: {desc: how we review, prompt: Two people read it.}
    quiet:
      enabled: false
      declareSkillRules:
        hidden: {desc: off in new sessions, prompt: Read me all the same.}
    session: {enabled: false, rulePrompt: Plan first.}
`

func TestR01_R02_RulesOfTheConfigurationAreVariables(t *testing.T) {
	d := newDaemon(t, declaringRules)
	s := d.session()
	for name, want := range map[string]struct{ desc, value string }{
		"Rule/shell/release": {"Skill rule for shell: how to release | publish", "Run make release,\nthen wait.\n"},
		"Rule/house/style":   {"Skill rule for house: the house style", "Tabs, not spaces."},
		"Rule/house/review":  {"Skill rule for house: how we review", "Two people read it."},
	} {
		v, err := d.agent.Var(t.Context(), s, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.Desc != want.desc || *v.Value != want.value || v.Type != "RULE" || !v.Keep {
			t.Errorf("%s is %+v with value %q, want %+v", name, v, *v.Value, want)
		}
		// the model gets it byte for byte.
		if r := d.call(s, "ReadVar", `{"name":"`+name+`"}`); r.Data != any(want.value) {
			t.Errorf("ReadVar of %s gave %q", name, r.Data)
		}
	}
}

func TestR01_ARuleWithoutPromptOrDescIsAConfigError(t *testing.T) {
	for name, rule := range map[string]string{
		"no prompt": "{desc: d}", "no desc": "{prompt: p}",
		"an unknown key": "{desc: d, prompt: p, load: true}",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "sandboxd.yaml")
			text := "tools:\n  groups:\n    files:\n      declareSkillRules:\n        edit: " + rule + "\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(filepath.Join(bin, "sandboxd"), "config", "check", file)
			cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=/nonexistent"} // short: the daemon's sockets lie there
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "sandboxd.yaml:5") {
				t.Errorf("got %v and %s, want an error in line 5", err, out)
			}
		})
	}
}

func TestR08_R11_R13_R14_R15_ThePromptHasTheRulesOfTheConfiguration(t *testing.T) {
	d := newDaemon(t, declaringRules)
	s := d.session()
	const table = "**On-Demand Documentation (Stored as Variables):**\n| Var | Description | When to Use |\n|---|---|---|\n"
	const access = "\n*Access via: ReadVar({\"name\": \"<VarName>\"})*"
	// pinned rules in full, one blank line, the table; R-13: after the prompt of the group.
	want := "Ask before you rename anything.\n\n**Pinned Rules:**\n**the house style:**\nTabs, not spaces.\n\n" +
		table + "| `Rule/house/review` | how we review | As needed |" + access
	prompt := d.prompt(s)
	if got := group(prompt, "house"); got != want {
		t.Errorf("group house:\n%s\nwant\n%s", got, want)
	}
	// a built-in group keeps its own prompt; R-15: a cell stays one cell.
	if got := group(prompt, "shell"); !strings.HasPrefix(got, "Tools: Bash, exec_command\n\nCommands run in a sandbox") ||
		!strings.HasSuffix(got, "\n\n"+table+"| `Rule/shell/release` | how to release \\| publish | before tagging |"+access) {
		t.Errorf("group shell:\n%s", got)
	}
	// what is off is not advertised, but it can be read.
	for _, hidden := range []string{"Rule/quiet", "Plan first.", "TodoWrite"} {
		if strings.Contains(prompt, hidden) {
			t.Errorf("the prompt has %q of a group that is off", hidden)
		}
	}
	if r := d.call(s, "ReadVar", `{"name":"Rule/quiet/hidden"}`); r.Data != any("Read me all the same.") {
		t.Errorf("ReadVar of a rule of a group that is off: %+v", r)
	}
	for name, want := range map[string]string{"quiet": "`Rule/quiet/hidden`", "session": "Plan first."} {
		if err := d.operator.Do(t.Context(), "PUT", "/sessions/"+s+"/groups/"+name, map[string]bool{"enabled": true}, nil); err != nil {
			t.Fatal(err)
		}
		if got := group(d.prompt(s), name); !strings.Contains(got, want) {
			t.Errorf("group %s is on and its block is %q", name, got)
		}
	}
	// A group whose tools are all off says nothing.
	for _, tool := range []string{"Bash", "exec_command"} {
		if err := d.operator.Do(t.Context(), "PUT", "/sessions/"+s+"/tools/"+tool, map[string]bool{"enabled": false}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := group(d.prompt(s), "shell"); got != "" {
		t.Errorf("no tool of the group is on and its block is %q", got)
	}
}

func TestR16_AReloadReplacesTheRules(t *testing.T) {
	d := newDaemon(t, declaringRules)
	s := d.session()
	if _, err := d.agent.Var(t.Context(), s, "Rule/house/review"); err != nil {
		t.Fatal(err)
	}
	reload := func(config string) error {
		d.write("config.yaml", config)
		return d.operator.Do(t.Context(), "POST", "/reload", nil, nil)
	}
	if err := reload(
		"tools:\n  groups:\n    house:\n      declareSkillRules:\n        style: {desc: the house style}\n",
	); err == nil {
		t.Error("a rule without a prompt was loaded")
	}
	if v, err := d.agent.Var(t.Context(), s, "Rule/house/style"); err != nil || *v.Value != "Tabs, not spaces." {
		t.Errorf("a configuration that was refused changed the rule: %+v, %v", v, err)
	}
	if err := reload(
		"tools:\n  groups:\n    house:\n      declareSkillRules:\n        style: {desc: the house style, prompt: " +
			"Spaces after all.}\n",
	); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{s, d.session()} {
		v, err := d.agent.Var(t.Context(), id, "Rule/house/style")
		if err != nil || *v.Value != "Spaces after all." || !v.Keep {
			t.Errorf("session %s: %+v, %v", id, v, err)
		}
		rules, err := d.agent.Vars(t.Context(), id, client.VarFilter{Type: "RULE"})
		if err != nil || len(rules) != 3 {
			t.Errorf("session %s has the rules %+v, %v, want one and the two that are built in", id, rules, err)
		}
	}
	if got := group(d.prompt(s), "house"); strings.Contains(got, "review") ||
		!strings.Contains(got, "`Rule/house/style`") {
		t.Errorf("the prompt after the reload: %s", got)
	}
}
