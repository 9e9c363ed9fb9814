package launch

import (
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestALauncherThatDoesNotAnswerEndsAfterFiveSeconds: it was told to end a call, and is not stopped.
func TestALauncherThatDoesNotAnswerEndsAfterFiveSeconds(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	defer unix.Close(fds[1])
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := &Launcher{Process: cmd.Process, Ended: make(chan struct{}), raw: raw}
		ended := make(chan struct{})
		go l.Kill(7, ended)
		for _, tt := range []struct {
			after time.Duration
			dead  bool
		}{{5*time.Second - time.Millisecond, false}, {200 * time.Millisecond, true}} {
			time.Sleep(tt.after)
			synctest.Wait()
			l.mu.Lock()
			if l.dead != tt.dead {
				t.Errorf("ended: %v, want %v", l.dead, tt.dead)
			}
			l.mu.Unlock()
		}
		close(ended)
	})
}
