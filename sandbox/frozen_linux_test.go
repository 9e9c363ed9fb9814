package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// freezer is a control group of version 2 that can be frozen.
type freezer struct {
	t   *testing.T
	dir string
}

func newFreezer(t *testing.T) freezer {
	t.Helper()
	needs.Root(t, "to make a control group")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		left, right, _ := strings.Cut(line, " - ")
		if f := strings.Fields(left); strings.HasPrefix(right, "cgroup2 ") && len(f) > 4 {
			dir, err := os.MkdirTemp(f[4], "sandboxd-test-")
			if err != nil {
				needs.Missing(t, "make a control group: %v", err)
			}
			z := freezer{t, dir}
			t.Cleanup(func() {
				z.set("0")
				for end := time.Now().Add(time.Minute); os.Remove(dir) != nil; time.Sleep(time.Millisecond) {
					z.move(f[4], z.pids()...) // a launcher that still lives
					if time.Now().After(end) {
						t.Error("the control group is left")
						return
					}
				}
			})
			return z
		}
	}
	needs.Missing(t, "cgroup v2 is not mounted")
	return freezer{}
}

func (z freezer) set(frozen string) {
	if err := os.WriteFile(filepath.Join(z.dir, "cgroup.freeze"), []byte(frozen), 0o644); err != nil {
		z.t.Error(err)
	}
}

func (z freezer) pids() []int {
	var out []int
	b, _ := os.ReadFile(filepath.Join(z.dir, "cgroup.procs"))
	for _, text := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(text); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// move puts processes into a group. One that has ended is none any more.
func (z freezer) move(group string, pids ...int) {
	for _, pid := range pids {
		err := os.WriteFile(filepath.Join(group, "cgroup.procs"), fmt.Append(nil, pid), 0o644)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			z.t.Error(err)
		}
	}
}

// freeze freezes processes, and returns when they are frozen.
func (z freezer) freeze(pids ...int) {
	z.move(z.dir, pids...)
	z.set("1")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if b, _ := os.ReadFile(filepath.Join(z.dir, "cgroup.events")); strings.Contains(string(b), "frozen 1") {
			return
		}
	}
	z.t.Error("the processes do not freeze")
}

// TestFrozenCallsEnd: a frozen process does not show that it answers nothing. The call ends at its
// limit and what the launcher is given to end it; nothing of it is left, and the next works.
// Without namespaces a frozen call must itself end what it started, so it ends when it is thawed.
func TestFrozenCallsEnd(t *testing.T) {
	for _, who := range []string{"launcher", "calls", "all"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			bothLevels(t, func(t *testing.T, backend Backend) {
				c, ws := backend.(*cage), shortTemp(t)
				z := newFreezer(t)
				box := newBox(t, c, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
				s := &stopped{t: t, c: c, box: box, ws: ws, byLimit: true, mark: "FROZEN=" + filepath.Base(ws)}
				answer := make(chan error, 1)
				go func() { answer <- s.call(context.Background()) }()
				s.begun()
				var pids []int
				for _, l := range c.pool.All() {
					if who != "calls" {
						pids = append(pids, l.Process.Pid)
					}
					for _, init := range childrenOf(l.Process.Pid) {
						if who != "launcher" {
							pids = append(append(pids, init), childrenOf(init)...)
						}
					}
				}
				z.freeze(pids...)
				if c.noNamespaces && who != "launcher" {
					time.AfterFunc(3*time.Second, func() { z.set("0") })
				}
				err := errors.New("the call does not end")
				select {
				case err = <-answer:
				case <-time.After(time.Minute):
				}
				if left := processesOf(t, s.mark); left != nil {
					t.Errorf("left: %v", left)
				}
				if err == nil {
					err = s.works()
				}
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}
