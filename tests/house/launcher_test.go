package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const maxLauncherBytes = 3 << 20

// The launcher is started for every session and sees what the daemon sees: it
// links the standard library, the system calls and its own packages.
func TestLauncherLinksLittle(t *testing.T) {
	deps := list(t, "./cmd/sandboxd-child")[0].Deps
	for _, d := range deps {
		first, _, _ := strings.Cut(d, "/")
		standard := !strings.Contains(first, ".")
		own := slices.Contains([]string{
			module + "/sandbox/bound", module + "/sandbox/identity", module + "/sandbox/child",
			module + "/sandbox/reaper", module + "/sandbox/script", module + "/sandbox/wire",
		}, d)
		if !standard && !own && !strings.HasPrefix(d, "golang.org/x/sys/") {
			t.Errorf("the launcher links %s", d)
		}
	}
	for _, large := range []string{"net/http", "crypto/tls", "text/template"} {
		for _, d := range deps {
			if d == large {
				t.Errorf("the launcher links %s", d)
			}
		}
	}
}

func TestLauncherIsSmall(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		out := filepath.Join(t.TempDir(), "sandboxd-child")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./cmd/sandboxd-child")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		info, err := os.Stat(out)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", arch, info.Size())
		if info.Size() > maxLauncherBytes {
			t.Errorf("%s: the launcher has %d bytes, want at most %d", arch, info.Size(), maxLauncherBytes)
		}
	}
}
