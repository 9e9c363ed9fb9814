package daemon

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/config"
)

var docRow = regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\| (.+) \\| (.+) \\|$")

// The reference names every key with its default, and no key that is not there.
func TestReferenceMatches(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	siteDir(t, "")
	for _, name := range []string{"SANDBOXD_CONFIG", "SANDBOXD_WORKSPACE_ROOTS"} {
		t.Setenv(name, "")
	}
	site, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, v := range site.Config.Explain() {
		if !strings.HasPrefix(v.Key, "paths.") {
			values[v.Key] = string(v.Value)
		}
	}
	// Left out of the output while empty.
	for _, key := range []string{
		"policy.rules.allow", "policy.rules.ask", "policy.rules.deny", "sandbox.env", "sandbox.require",
		"sandbox.network.deniedDomains", "sandbox.network.hosts", "sandbox.network.intercept",
		"sandbox.network.secrets", "sandbox.network.caFile", "sandbox.network.upstreamProxy", "sandbox.network.search",
	} {
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
	for _, key := range config.Overrides {
		if !strings.Contains(string(text), "`"+key+"`") {
			t.Errorf("the reference lacks the override %s", key)
		}
	}
}
