package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

const (
	// killPatience is how long a launcher may take to end a call that it was told to kill.
	killPatience = 5 * time.Second
	// killPause is between two looks at a call that should end.
	killPause = 100 * time.Millisecond
)

// Signal sends a signal to the processes of a call. SIGKILL ends them all. A launcher that is
// stopped does nothing of that: see Kill.
func (l *Launcher) Signal(call uint64, sig syscall.Signal) {
	body, err := json.Marshal(wire.Request{ID: call, Signal: int(sig)})
	if err == nil {
		_ = l.send(body, nil)
	}
}

// Kill ends all processes of a call, and returns when ended is closed. If the launcher is stopped
// by then, or the call has not ended after [killPatience], Kill ends the launcher and every call
// in it, because only the launcher can end a single call.
func (l *Launcher) Kill(call uint64, ended <-chan struct{}) {
	for start := time.Now(); ; {
		l.Signal(call, unix.SIGKILL) // again: the socket may have been full
		pause := time.NewTimer(killPause)
		select {
		case <-ended:
			pause.Stop()
			return
		case <-pause.C:
		}
		if l.Stopped() || time.Since(start) > killPatience {
			l.kill()
		}
	}
}

// Stopped reports whether somebody has stopped the launcher (SIGSTOP).
func (l *Launcher) Stopped() bool {
	if l.Gone() {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.Process.Pid))
	state := bytes.LastIndex(stat, []byte(") ")) // behind the name, which may hold anything
	return err == nil && state > 0 && bytes.HasPrefix(stat[state:], []byte(") T"))
}

// kill ends the process, also one that is stopped.
func (l *Launcher) kill() {
	l.mu.Lock()
	l.dead = true // the next call starts another one
	l.mu.Unlock()
	_ = l.Process.Kill()
	l.killNewborn()
}

// killNewborn ends a process that the launcher has cloned, and that somebody has stopped before
// it was told to end with the launcher. Without namespaces nothing else ends it. It is in the
// launcher's process group still, and what the launcher has started besides is not. The kernel
// takes a descriptor for the group since Linux 6.9.
func (l *Launcher) killNewborn() {
	if l.group == nil {
		return
	}
	raw, err := l.group.SyscallConn()
	if err != nil {
		return // closed: all are gone
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	})
}
