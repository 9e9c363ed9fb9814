package hooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// Program runs a program of the operator's outside the sandbox, as hooks are run
// but without a shell: the text goes in by stdin, and stdout comes back. It ends
// with ctx, and with it all that it started.
func (r *Registry) Program(ctx context.Context, argv []string, stdin []byte) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	mark := rand.Text()
	defer r.running.add(mark)()

	stdout := &capped{max: maxStdout, full: func() { cancel(fmt.Errorf("its output is larger than %d bytes", maxStdout)) }}
	stderr := &capped{max: maxStderr}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = r.environ(hook{}, Input{}, mark)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		killTree(cmd.Process.Pid, mark)
		return nil
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		killTree(0, mark)
		return nil, context.Cause(ctx)
	}
	if cmd.ProcessState.Success() && (err == nil || errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, syscall.EPIPE)) {
		return stdout.buf.Bytes(), nil
	}
	return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(strings.ToValidUTF8(stderr.buf.String(), "\uFFFD")))
}
