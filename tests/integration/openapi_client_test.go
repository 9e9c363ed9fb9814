package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// npmModules is the variable with the directory of the programs that make test-clients
// installs: a linter of OpenAPI, a generator, and a compiler.
const npmModules = "SANDBOXD_TEST_NPM"

// TestOpenAPI_ATypedClientWorks holds docs/openapi.json against programs of others: a
// linter finds nothing, a client made from it compiles in the strictest way, and talks
// to a daemon.
func TestOpenAPI_ATypedClientWorks(t *testing.T) {
	modules := os.Getenv(npmModules)
	if modules == "" {
		needs.Elsewhere(t, "make test-clients runs it, with the programs installed")
	}
	dir := t.TempDir()
	run := func(program string, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "NO_UPDATE_NOTIFIER=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", filepath.Base(program), args, err, out)
		}
		return string(out)
	}
	document, err := filepath.Abs("../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("testdata/typescript/client.ts")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "client.ts"), source, 0o644)
	}
	if err == nil {
		err = os.Symlink(modules, filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	program := func(name string) string { return filepath.Join(modules, ".bin", name) }
	out := run(program("redocly"), "lint", "--max-problems=20", document)
	if regexp.MustCompile(`[0-9]+ (warning|error)`).MatchString(out) || !strings.Contains(out, "is valid") {
		t.Errorf("the linter has something to say:\n%s", out)
	}
	run(program("openapi-typescript"), document, "-o", "api.d.ts")
	run(program("tsc"), "--strict", "--target", "es2022", "--module", "commonjs", "--moduleResolution", "node10",
		"--esModuleInterop", "--skipLibCheck", "client.ts")
	d := newDaemon(t, "")
	out = run("node", "client.js", filepath.Join(d.work, "run/a.sock"), filepath.Join(d.work, "run/o.sock"))
	if n := strings.Count(out, "ok "); n != 11 {
		t.Errorf("%d of 11 requests worked:\n%s", n, out)
	}
}
