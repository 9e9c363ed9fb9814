package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestWaitingProcessIsKilled: what waits for the next call is gone when it comes, its
// init process too. The call does not notice; one that comes in the same moment is told
// that nothing was run, or has just begun and ends.
func TestWaitingProcessIsKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, backend Backend, ws string) {
		box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		for i := range 6 {
			init, program := waiting(t, backend.(*cage), box, ws)
			if err := unix.Kill([]int{init, program}[i%2], unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for i < 4 && (runs(init) || runs(program)) {
				time.Sleep(time.Millisecond)
			}
			var out bytes.Buffer
			p, err := box.Start(context.Background(), Spec{Argv: []string{"echo", "ok"}, Dir: ws, Stdout: &out})
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Wait()
			if i >= 4 && (err != nil && strings.Contains(err.Error(), "no program was run") && out.Len() == 0 ||
				e.Signal == "SIGKILL") {
				continue // it was on its way already, or began
			}
			if err != nil || e.Code != 0 || out.String() != "ok\n" {
				t.Fatalf("the call after death %d: %+v %v %q", i, e, err, out.String())
			}
		}
	})
}

// TestWaitingProcessesHoldLittle: what the launcher has open of other calls, and the
// slots of the others, would keep things alive that have ended.
func TestWaitingProcessesHoldLittle(t *testing.T) {
	if os.Getuid() != 0 {
		needs.Elsewhere(t, "needs root to look at processes that hide from their own user")
	}
	bothLevels(t, func(t *testing.T, backend Backend) {
		c := backend.(*cage)
		ws := shortTemp(t)
		box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		// of which the launcher has descriptors
		long, err := box.Start(context.Background(), Spec{Argv: []string{"sleep", "1000"}, Dir: ws})
		if err != nil {
			t.Fatal(err)
		}
		// Until it is a program, it looks like a process that waits.
		for end := time.Now().Add(time.Minute); !programRuns(c, "sleep\n") && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		most := 1 // the socket
		if c.groups != nil {
			most += 2 // the counters
		}
		if c.noNamespaces {
			most += 3 // the streams of the launcher
		}
		init, program := waiting(t, c, box, ws)
		for pid, want := range map[int]int{init: most, program: 4} { // its streams, and the slot
			var held []string
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
				fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
				if err != nil {
					t.Fatal(err)
				}
				held = nil
				for _, fd := range fds {
					to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
					held = append(held, fd.Name()+" "+to)
				}
				if len(held) == want {
					break
				}
			}
			if len(held) != want {
				t.Errorf("%d descriptors, want %d: %q", len(held), want, held)
			}
		}
		long.Terminate(0)
		if _, err := long.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// waiting are the init process that waits for a call, and the one below it that will
// be the program. Nothing is made ahead until a call asks for it: at the first call, when a
// longer one had not begun when the last asked, and after one that waited has died. So it
// makes calls, the more seldom the longer nothing waits.
func waiting(t *testing.T, c *cage, box Box, ws string) (init, program int) {
	t.Helper()
	var saw []string
	for call := range 12 {
		runIn(t, box, ws, "true")
		for range 1 << call {
			saw = nil
			for _, l := range c.pool.All() {
				pid := l.Process.Pid
				for _, init := range childrenOf(pid) {
					below := childrenOf(init)
					if len(below) == 1 && runs(init) && runs(below[0]) && comm(below[0]) == comm(pid) {
						return init, below[0]
					}
					saw = append(saw, fmt.Sprintf("init %d of launcher %d, runs: %v, below it:", init, pid, runs(init)))
					for _, p := range below {
						saw = append(saw, fmt.Sprintf("%d %q, runs: %v", p, comm(p), runs(p)))
					}
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	t.Fatalf("nothing waits for a call: %q", saw)
	return 0, 0
}

// programRuns reports whether a call runs a program of this name.
func programRuns(c *cage, name string) bool {
	for _, l := range c.pool.All() {
		for _, init := range childrenOf(l.Process.Pid) {
			for _, p := range childrenOf(init) {
				if comm(p) == name {
					return true
				}
			}
		}
	}
	return false
}

// comm is a process's name, which changes when it becomes a program.
func comm(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return string(b)
}

func runs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func childrenOf(pid int) (out []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range lists {
		b, _ := os.ReadFile(f)
		for _, w := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(w)
			out = append(out, n)
		}
	}
	return out
}

// TestInitProcessIsKilled: without it nobody would end what the program starts; so
// the program ends with it.
func TestInitProcessIsKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, backend Backend, ws string) {
		box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		mark := "INIT_MARK=" + filepath.Base(ws)
		p, err := box.Start(context.Background(), Spec{Argv: []string{"sleep", "1000"}, Dir: ws, Env: []string{mark}})
		if err != nil {
			t.Fatal(err)
		}
		var program int
		for ; program == 0; time.Sleep(time.Millisecond) {
			for _, line := range processesOf(t, mark) {
				_, _ = fmt.Sscanf(line, "/proc/%d ", &program)
			}
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", program))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		init, err := strconv.Atoi(strings.Fields(rest)[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(init, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if e, err := p.Wait(); err != nil || e.Signal != "SIGKILL" {
			t.Errorf("exit %+v, %v", e, err)
		}
		for end := time.Now().Add(time.Minute); runs(program); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the program goes on")
			}
		}
		if e, out := runIn(t, box, ws, "echo", "again"); e.Code != 0 || out != "again\n" {
			t.Errorf("the next call: %+v %q", e, out)
		}
	})
}
