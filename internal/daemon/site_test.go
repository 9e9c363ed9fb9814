package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckFileNamesTheMistakesInPolicies, which Load leaves to the start of the daemon.
func TestCheckFileNamesTheMistakesInPolicies(t *testing.T) {
	dir := t.TempDir()
	conf, rule := filepath.Join(dir, "conf.yaml"), filepath.Join(dir, "policies", "acme.rego")
	text := fmt.Sprintf("workspace: {roots: [%[1]s/ws]}\npolicy: {dirs: [%[1]s/policies]}\n", dir)
	const right = `findings contains {"id": "acme.x", "effect": "allow", "message": "m"}`
	for _, tt := range []struct{ rule, wrong string }{
		{right, ""},
		{"findings contains x", "acme.rego"},
	} {
		err := errors.Join(os.MkdirAll(filepath.Dir(rule), 0o700), os.MkdirAll(filepath.Join(dir, "ws"), 0o700))
		for name, what := range map[string]string{conf: text, rule: "package sandboxd.policies.acme.x\n\n" + tt.rule + "\n"} {
			if err == nil {
				err = os.WriteFile(name, []byte(what), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = CheckFile(t.Context(), "test", conf, nil)
		if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%q: %v, want %q", tt.rule, err, tt.wrong)
		}
	}
}
