// Package needs skips tests that a host cannot run, and fails them where what the host should have
// may not be missing: with SANDBOXD_REQUIRE_KERNEL_TESTS=1, as in CI.
//
//	path := needs.Program(t, "git")
//	needs.Root(t, "to mount")
//	if err := mount(dir); err != nil {
//		needs.Missing(t, "mount: %v", err)
//	}
//
// Program and Missing are for what the kernel or a package of the host should give: with that
// variable they fail the test. Root and Elsewhere are for what another run shows, as another
// user or with more installed: they always skip. All of them end the test. Tests call these and
// never Skip itself; a test of tests/house looks for that.
package needs

import (
	"os"
	"os/exec"
	"testing"
)

const require = "SANDBOXD_REQUIRE_KERNEL_TESTS"

// Missing ends the test for want of something that this host should have.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(require) == "1" {
		t.Fatalf("with "+require+"=1 nothing may be skipped: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Program ends the test unless a program is installed. It returns where.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "%s is not installed; make tools-test installs what the tests need", name)
	}
	return path
}

// Root skips the test for everybody but root, who alone can do what it needs.
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Getuid() != 0 {
		Elsewhere(t, "needs root %s", what)
	}
}

// Elsewhere skips what another run shows.
func Elsewhere(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Skipf(format, args...)
}
