package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var docRow = regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\| (.+) \\| (.+) \\|$")

// The reference names every key with its default, and no key that is not there.
func TestReferenceMatches(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	c, err := Load(Source{Env: h.getenv, Dir: h.dir})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, v := range c.Explain() {
		if !strings.HasPrefix(v.Key, "paths.") {
			values[v.Key] = string(v.Value)
		}
	}
	// Left out of the output while empty.
	for _, key := range []string{"policy.rules.allow", "policy.rules.ask", "policy.rules.deny", "sandbox.env", "sandbox.require"} {
		if _, there := values[key]; there {
			t.Errorf("%s is shown while empty", key)
		}
		values[key] = "absent"
	}
	delete(values, "policy.rules")
	rows := docRow.FindAllStringSubmatch(string(text), -1)
	for _, r := range rows {
		key, want := r[1], r[3]
		got, known := values[key]
		if !known {
			t.Errorf("the reference has %s, which is no key", key)
			continue
		}
		delete(values, key)
		if def, literal := strings.CutPrefix(want, "`"); literal && strings.TrimSuffix(def, "`") != got {
			t.Errorf("%s: the reference says %s, the default is %s", key, want, got)
		}
	}
	for key := range values {
		t.Errorf("the reference lacks %s", key)
	}
	for _, key := range Overrides {
		if !strings.Contains(string(text), "`"+key+"`") {
			t.Errorf("the reference lacks the override %s", key)
		}
	}
}

func TestExampleLoads(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the reference has no example")
	}
	h := newHome(t)
	c, err := h.load(strings.ReplaceAll(example, "/srv/project", h.dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("the example warns: %q", c.Warnings)
	}
	if c.Account(1001) != "alice" || c.Sandbox.Limits.WallSeconds != 300 || filepath.Base(c.Hooks["preToolUse"][0].Command) != "sandboxd-guard" {
		t.Errorf("the example reads as %+v", c)
	}
}
