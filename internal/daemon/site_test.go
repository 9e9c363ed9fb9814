package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// What a project may not hold is what this daemon has and reads, and the homes of this host.
func TestWhatNoProjectOfThisDaemonHolds(t *testing.T) {
	hook := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(hook, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := siteDir(t, "accounts: {64102: ann}\napprovals: {webhook: {url: 'https://a.test', secretFile: "+hook+"}}\n")
	site, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	h := site.projectHost()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{
		"the state": dir + "/state", "the key": dir + "/state-key", "the sockets": dir + "/run",
		"the configuration": dir + "/conf.yaml", "a secret that it names": hook, "the program": exe,
	} {
		if !slices.Contains(h.Own, path) {
			t.Errorf("%s, %s, may lie in a project: %q", what, path, h.Own)
		}
	}
	for uid, ok := range map[int]bool{os.Geteuid(): true, 64102: true, 64101: false} {
		if h.Owner(uid) != ok {
			t.Errorf("a directory of uid %d may be a project: %v", uid, !ok)
		}
	}
}
