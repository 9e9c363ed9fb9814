package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExampleLoads(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the reference has no example")
	}
	h := newHome(t)
	program := filepath.Join(t.TempDir(), "sandboxd-guard")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := h.load(strings.NewReplacer(
		"/srv/project", h.dir, "/usr/local/libexec/sandboxd-guard", program,
	).Replace(example))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("the example warns: %q", c.Warnings)
	}
	if c.Accounts.Names[1001] != "alice" || c.Sandbox.Limits.WallSeconds != 300 ||
		filepath.Base(c.Hooks["preToolUse"][0].Command) != "sandboxd-guard" {
		t.Errorf("the example reads as %+v", c)
	}
}

// Each other example of the reference is a configuration, too.
func TestExampleOfSkillRulesLoads(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## Groups and skill rules\n")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the reference has no example of skill rules")
	}
	c, err := newHome(t).load(example)
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]bool{}
	for _, g := range c.Tools.Declared() {
		groups[g.Name] = len(g.Rules) > 0
	}
	if !groups["shell"] || !groups["style"] || c.Tools.Enabled()["session"] || !c.Tools.Enabled()["style"] {
		t.Errorf("the example reads as %+v", c.Tools)
	}
}
