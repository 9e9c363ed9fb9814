package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// A command whose reader has gone, as behind head -1, ends by the signal that tells it so, as other
// programs do, and without a word. exec lives on to record the end.
func TestCommandsWhoseReaderHasGone(t *testing.T) {
	d := newDaemon(t, "")
	for _, args := range [][]string{
		{"call", "Bash", `{"command":"seq 10000"}`},
		{"call", "--json", "Bash", `{"command":"seq 10000"}`},
		{"log"},
		{"log", "--json"},
		{"audit", "tail"},
		{"status"},
		{"sessions", "ls"},
		{"tools", "ls"},
		{"config", "show"},
		{"vars", "ls"},
		{"approvals", "list"},
		{"--help"},
		{"tools", "--help"},
		{"exec", "--", "seq", "10000"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		var said bytes.Buffer
		cmd := exec.Command(filepath.Join(bin, "sandboxd"), args...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = d.ws, d.env, w, &said
		_ = cmd.Run() // it is looked at below
		w.Close()
		state := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if args[0] == "exec" {
			if !state.Exited() || said.Len() > 0 {
				t.Errorf("%q: %v: %s", args, cmd.ProcessState, &said)
			}
			continue
		}
		if !state.Signaled() || state.Signal() != syscall.SIGPIPE || said.Len() > 0 {
			t.Errorf("%q: %v: %s", args, cmd.ProcessState, &said)
		}
	}
}
