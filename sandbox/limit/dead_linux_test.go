package limit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// A daemon in another PID namespace, such as one in a container, shares the
// hierarchy: its pids are nobody here, and its groups are not to be taken away.
func TestOnlyGroupsOfDeadDaemonsOfThisNamespaceAreRemoved(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	dead := ended.Process.Pid
	parent := t.TempDir()
	for name, kept := range map[string]bool{
		groupName(): true,
		fmt.Sprintf("%s%d-1", groupPrefix(), dead): false,
		fmt.Sprintf("sandboxd-ns1-%d-1", dead):     true,
		fmt.Sprintf("another-%d-1", dead):          true,
	} {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		removeDead(parent)
		if _, err := os.Stat(dir); (err == nil) != kept {
			t.Errorf("%s is there: %v, want %v", name, err == nil, kept)
		}
	}
}

// TestWhatADeadDaemonLeftEnds: what has not ended with its daemon keeps its groups.
func TestWhatADeadDaemonLeftEnds(t *testing.T) {
	groups, err := NewGroups()
	if err != nil {
		needs.Missing(t, "no control groups: %v", err)
	}
	defer groups.Remove()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for i, dir := range groups.Dirs {
		// Every daemon of the machine removes the groups of dead ones from where this one's lie. None looks here.
		parent := filepath.Join(filepath.Dir(dir), fmt.Sprintf("test-of-dead-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), i))
		if err := os.Mkdir(parent, 0o755); err != nil {
			t.Fatal(err)
		}
		defer removeGroup(parent, patience)
		dead := filepath.Join(parent, fmt.Sprintf("%s%d-1", groupPrefix(), ended.Process.Pid))
		call := filepath.Join(dead, "launcher", "c0")
		if err := os.MkdirAll(call, 0o755); err != nil {
			t.Fatal(err)
		}
		left := exec.Command("sleep", "1000")
		if err := left.Start(); err != nil {
			t.Fatal(err)
		}
		err := errors.Join(left.Process.Signal(unix.SIGSTOP),
			os.WriteFile(filepath.Join(call, "cgroup.procs"), fmt.Append(nil, left.Process.Pid), 0o644))
		if err != nil {
			_ = left.Process.Kill()
			t.Fatal(err)
		}
		removeDead(parent)
		late := time.AfterFunc(time.Minute, func() {
			_ = left.Process.Signal(unix.SIGTERM)
			_ = left.Process.Signal(unix.SIGCONT)
		})
		err = left.Wait()
		late.Stop()
		if state := left.ProcessState.Sys().(syscall.WaitStatus); state.Signal() != unix.SIGKILL {
			t.Errorf("it ended with %v, %v", state, err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			removeDead(parent) // the kernel counts the process for a moment after it is gone
			if _, err := os.Stat(dead); err != nil {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%s is left", dead)
				break
			}
		}
	}
}
