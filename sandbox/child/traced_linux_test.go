package child

import (
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAProcessThatIsKilledWhileItStops: the kernel shows the end of a process to its parent only after its tracer has
// waited for it. The launcher waits, although it was about to let the process go.
func TestAProcessThatIsKilledWhileItStops(t *testing.T) {
	runtime.LockOSThread() // which is the tracer
	defer runtime.UnlockOSThread()
	for name, killed := range map[string]bool{"it goes on": false, "killed after the stop was seen": true} {
		program := exec.Command("sleep", "600")
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		pid := program.Process.Pid
		if _, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0); e != 0 {
			t.Fatal(e)
		}
		if err := unix.PtraceInterrupt(pid); err != nil {
			t.Fatal(err)
		}
		var ws unix.WaitStatus
		if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil || !ws.Stopped() {
			t.Fatalf("%v, %v", ws, err)
		}
		if killed {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Fatal(err)
			}
		}
		if gone := letGo(pid); gone == killed {
			t.Errorf("%s: nothing more to wait for: %v", name, gone)
		}
		if killed && !(&traced{id: pid, tid: pid}).check(nil) {
			t.Errorf("%s: its end is not waited for", name)
		}
		_ = program.Process.Kill()
		_ = program.Wait() // an error, if check has waited
	}
}
