package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// publicClient names the directory where make test-scopes-client puts sdk.mjs and client-helpers.mjs.
const publicClient = "SANDBOXD_TEST_SCOPES_CLIENT"

// TestS10_S22_S70_ADayOfThePublicClient: the packages sdk and client-helpers of the API whose routes
// docs/scopes.md has, unchanged, against a real daemon.
func TestS10_S22_S70_ADayOfThePublicClient(t *testing.T) {
	dir := os.Getenv(publicClient)
	if dir == "" {
		needs.Elsewhere(t, "make test-scopes-client fetches the public client and sets %s", publicClient)
	}
	node := needs.Program(t, "node")
	d := newDaemon(t, "")
	out, err := exec.CommandContext(t.Context(), node, "testdata/scopes/day.mjs", filepath.Join(dir, "sdk.mjs"),
		filepath.Join(dir, "client-helpers.mjs"), filepath.Join(d.work, "run", "a.sock")).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "done\n") {
		t.Fatalf("%v\n%s", err, out)
	}
}
