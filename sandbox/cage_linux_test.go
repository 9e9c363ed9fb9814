package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox/child"
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
	if len(os.Args) == 3 && os.Args[1] == "-flood" {
		flood(os.Args[2])
	}
	if len(os.Args) > 2 && os.Args[1] == "-network" {
		tryNetwork(os.Args[2], os.Args[3:])
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
	os.Exit(m.Run())
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
		cmd := exec.Command(bin, "-test.run=^"+name+"$", "-test.v", "-test.timeout=3m")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR=/tmp", "GOCOVERDIR=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUID, Gid: otherUID}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("as uid %d: %v\n%s", otherUID, err, out)
		}
		if bytes.Contains(out, []byte("--- SKIP")) { // also a part of it
			t.Skipf("as uid %d:\n%s", otherUID, out)
		}
	})
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
		err = rep.require(Settings{Require: layers})
	}
	if err == nil {
		return
	}
	if os.Getenv("SANDBOXD_REQUIRE_KERNEL_TESTS") == "1" {
		t.Fatalf("a required kernel test cannot run: %v (missing: %v)", err, rep.Missing)
	}
	t.Skipf("this kernel cannot confine: %v", err)
}

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

func newBox(t *testing.T, b Backend, profile string, s Settings) Box {
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
	p, err := box.Start(context.Background(), s)
	if err != nil {
		t.Fatalf("start %q: %v", s.Argv, err)
	}
	e, err := p.Wait()
	if err != nil {
		t.Fatalf("run %q: %v", s.Argv, err)
	}
	return e
}
