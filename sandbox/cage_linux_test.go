package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/child"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// otherUID is who the kernel tests run as a second time when they run as root.
const otherUID = 12345

func TestMain(m *testing.M) {
	if child.IsChild() {
		child.Main()
	}
	if len(os.Args) == 2 && os.Args[1] == "-attempts" {
		runAttempts()
	}
	if len(os.Args) == 2 && os.Args[1] == "-traced" {
		beTraced()
	}
	if len(os.Args) == 2 && os.Args[1] == "-inflight" {
		putInFlight()
	}
	if len(os.Args) == 4 && os.Args[1] == "-flip" {
		flip(os.Args[2], os.Args[3])
	}
	if len(os.Args) == 3 && os.Args[1] == "-flood" {
		flood(os.Args[2])
	}
	if len(os.Args) > 2 && os.Args[1] == "-network" {
		tryNetwork(os.Args[2], os.Args[3:])
	}
	if len(os.Args) > 2 && os.Args[1] == "-connect" {
		connectInside(os.Args[2:])
	}
	if len(os.Args) == 3 && os.Args[1] == "-acts" {
		runActs()
	}
	if len(os.Args) == 3 && os.Args[1] == "-walk" {
		runWalk(os.Args[2])
	}
	if len(os.Args) == 4 && os.Args[1] == "-bench-daemon" {
		if err := runBenchDaemon(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	ownMounts()
	os.Exit(m.Run())
}

// ownMounts gives the tests a table of mounts that the tests of other packages do not change,
// where the kernel lets them have one.
func ownMounts() {
	const done = "SANDBOX_TEST_OWN_MOUNTS"
	if os.Getuid() != 0 || os.Getenv(done) != "" {
		return
	}
	runtime.LockOSThread()
	if unix.Unshare(unix.CLONE_NEWNS) != nil {
		runtime.UnlockOSThread()
		return
	}
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), done+"=1"))
	}
	fmt.Fprintln(os.Stderr, "a mount namespace for the tests:", err)
	os.Exit(1)
}

// bothUsers runs a kernel test as this uid and, when that is root, once more as
// another one, in a copy of the test binary.
func bothUsers(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getuid() != 0 {
		test(t)
		return
	}
	t.Run("root", test)
	t.Run(fmt.Sprint("uid=", otherUID), func(t *testing.T) {
		dir, err := os.MkdirTemp("/tmp", "cage-uid-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		bin := filepath.Join(dir, "sandbox.test")
		copyFile(t, "/proc/self/exe", bin, 0o755)
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		home := filepath.Join(dir, "home")
		if err := os.Mkdir(home, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(home, otherUID, otherUID); err != nil {
			t.Fatal(err)
		}
		name := strings.SplitN(t.Name(), "/", 2)[0]
		left := time.Duration(0) // no limit
		if end, ok := t.Deadline(); ok {
			left = time.Until(end)
		}
		cmd := exec.Command(bin, "-test.run=^"+name+"$", "-test.v", "-test.timeout="+left.String())
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR=/tmp", "GOCOVERDIR=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUID, Gid: otherUID}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("as uid %d: %v\n%s", otherUID, err, out)
		}
		if bytes.Contains(out, []byte("--- SKIP")) { // also a part of it
			needs.Elsewhere(t, "as uid %d: %s", otherUID, strings.Join(skipped(string(out)), "; "))
		}
	})
}

// skipped returns the tests that a run with -test.v skipped, each with what it said.
func skipped(out string) (tests []string) {
	said, now := map[string][]string{}, ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if how, name, ok := strings.Cut(strings.TrimPrefix(line, "=== "), " "); ok && strings.HasPrefix(line, "=== ") {
			if how != "PAUSE" {
				now = strings.TrimSpace(name)
			}
			continue
		}
		if test, ok := strings.CutPrefix(line, "--- SKIP: "); ok {
			name, _, _ := strings.Cut(test, " (")
			tests = append(tests, name+": "+strings.Join(said[name], " "))
		} else if line != "" && !strings.HasPrefix(line, "--- ") {
			said[now] = append(said[now], line)
		}
	}
	return tests
}

// TestASkipOfTheOtherUserSaysWhy: the last line of the run says that it passed, and is no reason.
func TestASkipOfTheOtherUserSaysWhy(t *testing.T) {
	const out = `=== RUN   TestA
    a_test.go:1: beside
=== RUN   TestA/one
=== RUN   TestA/two
    a_test.go:7: no control groups:
        not mounted
--- PASS: TestA (0.20s)
    --- PASS: TestA/one (0.00s)
    --- SKIP: TestA/two (0.00s)
=== NAME  TestA
    a_test.go:9: in the end
=== RUN   TestB
    a_test.go:12: needs root
--- SKIP: TestB (0.00s)
PASS
`
	want := []string{"TestA/two: a_test.go:7: no control groups: not mounted", "TestB: a_test.go:12: needs root"}
	if got := skipped(out); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := skipped("=== RUN   TestA\n--- PASS: TestA (0.20s)\nPASS\n"); got != nil {
		t.Errorf("got %q of a run that skipped nothing", got)
	}
}

// keepDevices puts the machine's devices back as they were, for a test that tries to change
// them as root from inside a cage: what is found must not stay.
func keepDevices(t *testing.T) {
	t.Helper()
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		before, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			after, err := os.Stat(name)
			if err == nil && after.Mode() == before.Mode() && after.ModTime().Equal(before.ModTime()) {
				return
			}
			err = errors.Join(err, os.Chmod(name, before.Mode().Perm()), os.Chtimes(name, time.Time{}, before.ModTime()))
			t.Errorf("the machine's %s was changed, and is put back: %v", name, err)
		})
	}
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// needCage skips where the kernel cannot confine, and fails instead of skipping
// where that must not be.
func needCage(t *testing.T, b Backend, layers ...string) {
	t.Helper()
	rep := b.Probe()
	err := rep.cageable()
	if err == nil {
		err = rep.Require(guard.Settings{Require: layers})
	}
	if err == nil {
		return
	}
	needs.Missing(t, "this kernel cannot confine: %v (missing: %v)", err, rep.Missing)
}

// are is these workspaces, always.
func are(roots ...string) func() []string { return func() []string { return roots } }

func newCage(t *testing.T, o Options) Backend {
	t.Helper()
	if o.Runtime == "" {
		o.Runtime = filepath.Join(shortTemp(t), "run")
	}
	b, err := NewBackend(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close the backend: %v", err)
		}
	})
	return b
}

// shortTemp is a physical temporary directory, short enough for socket names.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cage-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newBox(t *testing.T, b Backend, profile Profile, s guard.Settings) Box {
	t.Helper()
	box, err := b.Box(context.Background(), t.Name(), profile, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	return box
}

// runIn runs a program and gives its exit and its output, both streams in order.
func runIn(t *testing.T, box Box, dir string, argv ...string) (Exit, string) {
	t.Helper()
	var out bytes.Buffer
	e := runSpec(t, box, Spec{Argv: argv, Dir: dir, Stdout: &out, Stderr: &out})
	return e, out.String()
}

func runSpec(t *testing.T, box Box, s Spec) Exit {
	t.Helper()
	return runSpecIn(context.Background(), t, box, s)
}

// runToEnd runs what could run for ever, or hold its call for 1000 seconds. The call must end by itself: the
// bound is no measure of how soon, but a hang has to be seen before that.
func runToEnd(t *testing.T, box Box, s Spec) Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	e := runSpecIn(ctx, t, box, s)
	if ctx.Err() != nil {
		t.Errorf("%q did not end by itself: %+v", s.Argv, e)
	}
	return e
}

func runSpecIn(ctx context.Context, t *testing.T, box Box, s Spec) Exit {
	t.Helper()
	p, err := box.Start(ctx, s)
	if err != nil {
		t.Fatalf("start %q: %v", s.Argv, err)
	}
	e, err := p.Wait()
	if err != nil {
		t.Fatalf("run %q: %v", s.Argv, err)
	}
	return e
}
