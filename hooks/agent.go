package hooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	// maxAnswer is how much a program that runs an agent may answer.
	maxAnswer = 16 << 20
	// agentGrace is how long it gets to end when it is asked to.
	agentGrace = 2 * time.Second
)

// RunAgent runs a program as a hook is run, but it may call the daemon, and it has the rights of the user
// whose agent it runs for, if the daemon may take them. It ends with ctx, with all that it started, and with
// the daemon. stderr is for the log, whatever the error is.
func (r *Registry) RunAgent(ctx context.Context, a tool.AgentProgram) (stdout []byte, stderr string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	mark := rand.Text()
	defer r.running.add(mark, &a.As)()
	out := &capped{
		max: maxAnswer, full: func() { cancel(fmt.Errorf("its answer is larger than %d bytes", maxAnswer)) },
	}
	said := &capped{max: maxStderr}
	cmd := exec.CommandContext(ctx, a.Argv[0], a.Argv[1:]...)
	cmd.Dir, cmd.Env = "/", r.environ(hook{}, Input{SessionID: a.As.Session}, mark)
	for _, name := range a.PassEnv {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(a.Stdin), out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := giveRights(cmd, a.As.Identity); err != nil {
		return nil, "", err
	}
	cmd.WaitDelay = agentGrace
	cmd.Cancel = func() error {
		if errors.Is(context.Cause(ctx), tool.ErrAtOnce) {
			killTree(cmd.Process.Pid, mark)
			return nil
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	// The death of the thread that starts the program would be its end, too.
	runtime.LockOSThread()
	if cmd.SysProcAttr.Credential == nil {
		defer runtime.UnlockOSThread()
	} else if err := noAmbient(); err != nil { // the thread ends with its goroutine
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", failure(ctx, "start", err)
	}
	a.Started()
	unwatch, err := watch(cmd.Process.Pid)
	if err != nil {
		cancel(fmt.Errorf("it could not be watched: %w", err))
	}
	err = cmd.Wait()
	unwatch()
	killTree(0, mark) // what it left behind
	if ctx.Err() != nil {
		return nil, textOf(said.buf.Bytes()), context.Cause(ctx)
	}
	if cmd.ProcessState.Success() && (errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, syscall.EPIPE)) {
		err = nil // as of hooks
	}
	return out.buf.Bytes(), textOf(said.buf.Bytes()), err
}

// watch ends a process group when this process dies, kill -9 included: only the first program of the
// group is told by the kernel. A shell waits for the end of a pipe that this process alone can write.
func watch(group int) (unwatch func(), err error) {
	none := func() {}
	r, w, err := os.Pipe()
	if err != nil {
		return none, err
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", `read -r none; kill -s KILL -- "-$1"`, "sh", strconv.Itoa(group))
	cmd.Dir, cmd.Env, cmd.Stdin = "/", []string{"PATH=" + safePath}, r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return none, errors.Join(err, w.Close())
	}
	return func() {
		_ = cmd.Process.Kill() // before the pipe ends: the number of the group may be another one's by now
		_ = cmd.Wait()
		_ = w.Close()
	}, nil
}
