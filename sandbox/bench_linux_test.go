package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/bench"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// The program is /bin/true, IPC with the launcher included. bwrap gets what a
// strict call gets, less Landlock and seccomp.
var bwrapArgs = []string{"--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "/bin/true"}

// BenchmarkCall compares calls of a session that has been used before, one after
// the other.
func BenchmarkCall(b *testing.B) { benchUsers(b, func(b *testing.B) { compareCalls(b, 0) }) }

// BenchmarkPacedCall makes one call every 30 ms, as agents do: everything has gone
// to sleep in between.
func BenchmarkPacedCall(b *testing.B) {
	benchUsers(b, func(b *testing.B) { compareCalls(b, 30*time.Millisecond) })
}

func compareCalls(b *testing.B, pause time.Duration) {
	c := benchCage(b, Options{})
	ws := b.TempDir()
	s := guard.DefaultSettings(ws, os.Getenv("HOME"), nil)
	cases := []bench.Case{
		{Name: "plain", Run: func() { benchRun(b, "/bin/true") }},
		{Name: "strict", Run: benchCall(b, c, "strict", ws, s)},
		{Name: "light", Run: benchCall(b, c, "light", ws, s)},
	}
	limits := []bench.Limit{{Case: "strict", Over: "plain", AtMost: 2.2}, {Case: "light", Over: "plain"}}
	if version, err := exec.Command("bwrap", "--version").Output(); err != nil {
		b.Log("bwrap is not installed")
	} else {
		b.Logf("%s %s", strings.TrimSpace(string(version)), strings.Join(bwrapArgs, " "))
		cases = append(cases, bench.Case{Name: "bwrap", Run: func() { benchRun(b, "bwrap", bwrapArgs...) }})
		strict, light := 0.30, 0.22
		if pause > 0 {
			strict, light = 0.35, 0
		}
		limits = append(limits, bench.Limit{Case: "strict", Over: "bwrap", AtMost: strict},
			bench.Limit{Case: "light", Over: "bwrap", AtMost: light})
	}
	for i := range cases {
		cases[i].N = 210
		if pause > 0 {
			cases[i].Before = func() { time.Sleep(pause) }
		}
	}
	if _, err := exec.LookPath("firejail"); err == nil && pause == 0 && os.Getuid() == 0 { // slow, and only for comparison
		cases = append(cases, bench.Case{
			Name: "firejail", N: 35,
			Run: func() { benchRun(b, "firejail", "--quiet", "--noprofile", "--net=none", "/bin/true") },
		})
		limits = append(limits, bench.Limit{Case: "strict", Over: "firejail"})
	}
	bench.Compare(b, cases, limits...)
}

// BenchmarkTwoAtOnce makes 20 calls in one session, one after the other and two at
// a time.
func BenchmarkTwoAtOnce(b *testing.B) {
	c := benchCage(b, Options{})
	ws := b.TempDir()
	call := benchCall(b, c, "strict", ws, guard.DefaultSettings(ws, os.Getenv("HOME"), nil))
	calls := func(callers int) func() {
		return func() {
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range 20 / callers {
						call()
					}
				})
			}
			wg.Wait()
		}
	}
	bench.Compare(b, []bench.Case{
		{Name: "one at a time", Run: calls(1), N: 70}, {Name: "two at a time", Run: calls(2), N: 70},
	}, bench.Limit{Case: "two at a time", Over: "one at a time", AtMost: 1 / 1.6})
}

// BenchmarkLargeDaemon compares a daemon that has 300 MiB of heap with one that
// has not.
func BenchmarkLargeDaemon(b *testing.B) {
	bench.Compare(b, []bench.Case{
		{Name: "small", Run: benchDaemon(b, 0), N: 350}, {Name: "300 MiB", Run: benchDaemon(b, 300<<20), N: 350},
	}, bench.Limit{Case: "300 MiB", Over: "small", AtMost: 1.2})
}

// BenchmarkControlGroups compares calls that join a control group with calls on a
// host that gives none.
func BenchmarkControlGroups(b *testing.B) {
	ws := b.TempDir()
	s := guard.DefaultSettings(ws, os.Getenv("HOME"), nil)
	with, without := benchCage(b, Options{}), benchCage(b, Options{NoCgroups: true})
	if with.groups == nil {
		needs.Missing(b, "no control groups: %s", with.noGroups)
	}
	b.Log(with.groups.Layer())
	bench.Compare(b, []bench.Case{
		{Name: "rlimits", Run: benchCall(b, without, "strict", ws, s), N: 350},
		{Name: "control group", Run: benchCall(b, with, "strict", ws, s), N: 350},
	}, bench.Limit{Case: "control group", Over: "rlimits", AtMost: 1.3})
}

// BenchmarkFirstUse compares the first call of a session with the mere start and
// end of the launcher's binary. One comes every 30 ms: sessions do not begin back to
// back, and the kernel takes longer to clear one away.
func BenchmarkFirstUse(b *testing.B) {
	c := benchCage(b, Options{})
	ws := b.TempDir()
	s := guard.DefaultSettings(ws, os.Getenv("HOME"), nil)
	n := 0
	bench.Compare(b, []bench.Case{
		{
			Name: "child alone", N: 210, Run: func() { _ = exec.Command(c.opts.Child).Run() },
			Before: func() { time.Sleep(30 * time.Millisecond) },
		},
		{Name: "first call", N: 210, Run: func() {
			n++
			box, err := c.Box(context.Background(), strconv.Itoa(n), "strict", s)
			if err != nil {
				b.Fatal(err)
			}
			benchStart(b, box, ws)
		}, Before: func() {
			if err := c.Forget(strconv.Itoa(n)); err != nil {
				b.Fatal(err)
			}
			time.Sleep(30 * time.Millisecond)
		}},
	}, bench.Limit{Case: "first call", Over: "child alone", AtMost: 3})
}

// BenchmarkTemplates compares what there may be to mount: the session's Go build cache
// over the host's, and a hundred more directories to show. The launcher does it when it
// starts; a call gets a copy of all its mounts.
func BenchmarkTemplates(b *testing.B) {
	ws, built := b.TempDir(), b.TempDir()
	if err := os.WriteFile(filepath.Join(built, "README"), nil, 0o644); err != nil {
		b.Fatal(err)
	}
	var many []string
	for range 100 {
		many = append(many, b.TempDir())
	}
	var first, next []bench.Case
	for _, t := range []struct {
		name, built string
		o           Options
	}{{name: "as it is"}, {name: "over the host's build cache", built: built}, {
		name: "100 more directories",
		o:    Options{Roots: are(many...)},
	}} {
		t.o.Home = ws
		c, n := benchCage(b, t.o), 0
		s := guard.DefaultSettings(ws, ws, nil)
		start := func(session string) func() {
			return func() {
				box, err := c.Box(context.Background(), session, "strict", s)
				if err != nil {
					b.Fatal(err)
				}
				benchStart(b, box, ws)
			}
		}
		environ := func() { b.Setenv("GOCACHE", t.built) }
		environ()
		start("next")()
		next = append(next, bench.Case{Name: t.name, N: 140, Run: start("next")})
		first = append(first, bench.Case{Name: t.name, N: 70, Run: func() { start(strconv.Itoa(n))() }, Before: func() {
			environ()
			if err := c.Forget(strconv.Itoa(n)); err != nil {
				b.Fatal(err)
			}
			n++
		}})
	}
	for name, cases := range map[string][]bench.Case{"first call": first, "next call": next} {
		b.Run(name, func(b *testing.B) {
			bench.Compare(b, cases, bench.Limit{Case: cases[1].Name, Over: cases[0].Name},
				bench.Limit{Case: cases[2].Name, Over: cases[0].Name})
		})
	}
}

// BenchmarkLauncherMemory is what a session costs while it rests.
func BenchmarkLauncherMemory(b *testing.B) {
	c := benchCage(b, Options{})
	ws := b.TempDir()
	call := benchCall(b, c, "strict", ws, guard.DefaultSettings(ws, os.Getenv("HOME"), nil))
	for range 1000 {
		call()
	}
	for _, l := range c.pool.All() {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		kib, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			b.Fatal(err)
		}
		bench.Value(b, "RSS after 1000 calls", float64(kib)/1024, "MiB", 8)
	}
}

// benchUsers runs a benchmark as this uid and, when that is root, once more as
// another one in a copy of the test binary.
func benchUsers(b *testing.B, run func(b *testing.B)) {
	if os.Getuid() != 0 {
		b.Run("rootless", run)
		return
	}
	b.Run("root", run)
	dir, err := os.MkdirTemp("/tmp", "cage-bench-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "out")
	for name, from := range map[string]string{
		"sandbox.test": "/proc/self/exe", "child": benchChild(b),
		"out": os.DevNull,
	} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o755)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.Chmod(out, 0o666); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "sandbox.test"), "-test.run=^$", "-test.bench=^"+b.Name()+"$",
		"-test.benchtime=1x", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR=/tmp", "SANDBOXD_BENCH_OUT="+out,
		"SANDBOXD_CHILD="+filepath.Join(dir, "child"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUID, Gid: otherUID}}
	text, err := cmd.CombinedOutput()
	b.Logf("as uid %d:\n%s", otherUID, text)
	if err != nil {
		b.Errorf("as uid %d: %v", otherUID, err)
	}
	if to := os.Getenv("SANDBOXD_BENCH_OUT"); to != "" {
		lines, err := os.ReadFile(out)
		if err != nil {
			b.Fatal(err)
		}
		f, err := os.OpenFile(to, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(lines); err != nil {
			b.Fatal(err)
		}
	}
}

// benchChild builds the launcher as it is shipped.
var benchChild = func() func(testing.TB) string {
	var once sync.Once
	var path string
	return func(t testing.TB) string {
		once.Do(func() {
			if path = os.Getenv("SANDBOXD_CHILD"); path != "" {
				return
			}
			dir, err := os.MkdirTemp("", "cage-child-") // as long as the process
			if err != nil {
				t.Fatal(err)
			}
			path = filepath.Join(dir, "sandboxd-child")
			cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "../cmd/sandboxd-child")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("build the launcher: %v\n%s", err, out)
			}
		})
		return path
	}
}()

func benchCage(t testing.TB, o Options) *cage {
	o.Runtime, o.Child = filepath.Join(t.TempDir(), "run"), benchChild(t)
	b, err := NewBackend(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Probe().cageable(); err != nil {
		needs.Missing(t, "%v", err)
	}
	return b.(*cage)
}

// benchCall is one call of a session.
func benchCall(t testing.TB, c *cage, profile Profile, ws string, s guard.Settings) func() {
	box, err := c.Box(context.Background(), "bench", profile, s)
	if err != nil {
		t.Fatal(err)
	}
	return func() { benchStart(t, box, ws) }
}

func benchStart(t testing.TB, box Box, ws string) {
	p, err := box.Start(context.Background(), Spec{Argv: []string{"/bin/true"}, Dir: ws})
	if err != nil {
		t.Error(err)
		return
	}
	if e, err := p.Wait(); err != nil || e.Code != 0 {
		t.Errorf("exit %+v, %v", e, err)
	}
}

func benchRun(t testing.TB, name string, args ...string) {
	if err := exec.Command(name, args...).Run(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// benchDaemon is one call made by another process, which holds that much memory
// and is told by a line when to make it.
func benchDaemon(b *testing.B, heap int) func() {
	cmd := exec.Command("/proc/self/exe", "-bench-daemon", strconv.Itoa(heap), b.TempDir())
	cmd.Env = append(os.Environ(), "SANDBOXD_CHILD="+benchChild(b))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	answers := bufio.NewReader(out)
	return func() {
		if _, err := in.Write([]byte("\n")); err != nil {
			b.Fatal(err)
		}
		if line, err := answers.ReadString('\n'); err != nil || line != "done\n" {
			b.Fatalf("the other daemon said %q, %v", line, err)
		}
	}
}

// runBenchDaemon is the other process. It ends at the end of its input.
func runBenchDaemon(heap, dir string) error {
	n, err := strconv.Atoi(heap)
	if err != nil {
		return err
	}
	held := bytes.Repeat([]byte{1}, n)
	c, err := NewBackend(Options{Runtime: filepath.Join(dir, "run"), Child: os.Getenv("SANDBOXD_CHILD")})
	if err != nil {
		return err
	}
	defer c.Close()
	box, err := c.Box(context.Background(), "bench", "strict", guard.DefaultSettings(dir, os.Getenv("HOME"), nil))
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		p, err := box.Start(context.Background(), Spec{Argv: []string{"/bin/true"}, Dir: dir})
		if err != nil {
			return err
		}
		if _, err := p.Wait(); err != nil {
			return err
		}
		fmt.Println("done")
	}
	if len(held) != n {
		return fmt.Errorf("held %d bytes", len(held))
	}
	return nil
}
