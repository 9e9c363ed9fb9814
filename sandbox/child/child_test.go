package child

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestLauncherIsSmall builds the launcher as it is shipped: what it links is what
// every session pays for, and what an attacker of the launcher would find.
func TestLauncherIsSmall(t *testing.T) {
	const module = "github.com/sandboxd/sandboxd"
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		module+"/cmd/sandboxd-child").
		Output()
	if err != nil {
		needs.Missing(t, "go list: %v", err)
	}
	for _, p := range strings.Fields(string(out)) {
		switch p {
		case module + "/cmd/sandboxd-child",
			module + "/sandbox/bound",
			module + "/sandbox/child",
			module + "/sandbox/identity",
			module + "/sandbox/reaper",
			module + "/sandbox/script",
			module + "/sandbox/wire",
			"golang.org/x/sys/unix":
		default:
			t.Errorf("the launcher imports %s", p)
		}
	}
	bin := filepath.Join(t.TempDir(), "sandboxd-child")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, module+"/cmd/sandboxd-child")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	info, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 3<<20 {
		t.Errorf("the launcher has %d bytes, more than 3 MiB", info.Size())
	}
	run := exec.Command(bin)
	if out, err := run.CombinedOutput(); err == nil || !strings.Contains(string(out), "started by it") {
		t.Errorf("run by hand: %v, %q", err, out)
	}
}
