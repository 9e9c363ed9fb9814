package idspace

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
)

// The kernel sends no signal here for the end of the parent, as when the first thread of the inner
// process has had the rights of an account.
func TestTheInnerProcessEndsWithTheOuterOne(t *testing.T) {
	if os.Getenv(insideEnv) != "" {
		in, err := Enter()
		fmt.Println(in != nil, err)
		time.Sleep(time.Hour) // Go ends a process that waits for nothing
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "inner"), os.NewFile(uintptr(pair[1]), "outer")
	defer ours.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = append(os.Environ(), insideEnv+"=3"), []*os.File{theirs}, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	if strings.Contains(line, "CGO_ENABLED=0") {
		cancel()
		_ = cmd.Wait()
		needs.Elsewhere(t, "with cgo, as for the race detector, a process cannot give up its capabilities")
	}
	if line != "true <nil>\n" {
		t.Errorf("it said %q, %v", line, err)
	}
	ours.Close()
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); ctx.Err() != nil || status.Signal() != unix.SIGKILL {
		t.Errorf("it ended with %v, %v", cmd.ProcessState, ctx.Err())
	}
}
