package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// children are the processes that a process has started.
func children(pid int) []int {
	var out []int
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// launchers are those of a daemon. A process that is still on its way to become one is the daemon's: one
// who stops it stops a thread of the daemon, which waits for it and holds the lock of all starts.
func launchers(daemon int) []int {
	return slices.DeleteFunc(children(daemon), func(pid int) bool {
		name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // anybody may read it
		return err != nil || string(name) != "sandboxd-child\n"
	})
}

// A launcher that is stopped does not keep a call over its timeout, whether a process waited for the
// call already or not, and the session goes on.
func TestFault_AStoppedLauncher(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	session := d.session()
	for round := range 6 {
		for range round % 3 {
			d.mustCall(session, "Bash", `{"command":"true"}`)
		}
		if round%2 == 1 {
			time.Sleep(20 * time.Millisecond)
		}
		stopped := launchers(d.cmd.Process.Pid)
		if len(stopped) == 0 && round%3 > 0 {
			t.Fatalf("round %d: no launcher is there", round)
		}
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := d.agent.Call(ctx, session, "Bash", json.RawMessage(`{"command":"sleep 1000","timeout":300}`))
		cancel()
		if err != nil || r.Error == nil || r.Error.Code != "timeout" {
			t.Fatalf("round %d: got %+v %v, want an end by the timeout", round, r.Error, err)
		}
		if !waitFor(func() bool {
			return d.call(session, "Bash", `{"command":"true","timeout":1000}`).Status == client.StatusSuccess
		}) {
			t.Fatalf("round %d: the session does not go on", round)
		}
	}
}

// The launchers of a daemon that is killed end with it, also those that are stopped, with all
// that they started, and whether or not another daemon comes.
func TestFault_StoppedLaunchersOfAKilledDaemon(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		uid   int
		lacks string
	}{
		{"namespaces", 0, ""},
		{"Landlock alone", 0, "namespaces"},
		{"namespaces, another user", 64110, ""},
		{"Landlock alone, another user", 64110, "namespaces"},
	} {
		for _, calls := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", the calls too: ", calls), func(t *testing.T) {
				if tt.uid != 0 {
					needs.Root(t, "to start a daemon of another user")
				}
				d := newDaemon(t, "")
				d.stop(os.Interrupt)
				d.becomeAnother(tt.uid, tt.lacks)
				d.start()
				d.isolated(t, tt.lacks)
				mark := fmt.Sprint("KILLED", d.cmd.Process.Pid)
				session, ended := d.session(), make(chan struct{})
				go func() {
					defer close(ended)
					args := fmt.Sprintf(`{"command":"bash -c 'exec -a %s sleep 1000'"}`, mark)
					_, _ = d.agent.Call(context.Background(), session, "Bash", json.RawMessage(args))
				}()
				var left []int
				if !waitFor(func() bool {
					left = withWord(mark)
					return len(left) > 0
				}) {
					t.Fatal("the call does not begin")
				}
				for _, launcher := range launchers(d.cmd.Process.Pid) {
					below := []int{launcher}
					for i := 0; i < len(below); i++ {
						below = append(below, children(below[i])...)
					}
					left = append(left, below...)
					for i, pid := range below {
						if i > 0 && !calls {
							break
						}
						_ = syscall.Kill(pid, syscall.SIGSTOP)
						if !waitFor(func() bool { return strings.Contains("TZX", stateOf(pid)) }) {
							t.Errorf("process %d does not stop", pid)
						}
					}
				}
				d.stop(os.Kill)
				<-ended
				for _, pid := range left {
					if !waitFor(func() bool { return strings.Contains("ZX", stateOf(pid)) }) {
						t.Errorf("process %d is left in state %s", pid, stateOf(pid))
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				if left := withWord(mark); left != nil {
					t.Errorf("left of the call: %v", left)
				}
			})
		}
	}
}

// stateOf is the letter of /proc for a process, and X for one that is gone. A zombie has ended,
// whether or not somebody has waited for it.
func stateOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(stat), ") ")
	if err != nil || !found {
		return "X"
	}
	return state[:1]
}
