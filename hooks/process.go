package hooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	maxStdout = 1 << 20
	maxStderr = 64 << 10
	// pipeGrace is how long a command that has ended may leave its output open in
	// a child that it left behind.
	pipeGrace = 100 * time.Millisecond
	// markName is in the environment of everything that a hook starts.
	markName = "SANDBOXD_HOOK"
	safePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// ended is how a program ended that was not ended by its context.
type ended struct {
	code           int
	err            error // set whenever code is not 0
	stdout, stderr []byte
}

// execute runs a program outside the sandbox. With ctx, or when it says too much, it
// ends with all that it started; that is the error.
func (r *Registry) execute(ctx context.Context, h hook, in Input, argv []string, stdin []byte) (ended, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	mark := rand.Text()
	defer r.running.add(mark, nil)()

	stdout := &capped{
		max: maxStdout, full: func() { cancel(fmt.Errorf("its output is larger than %d bytes", maxStdout)) },
	}
	stderr := &capped{max: maxStderr} // the rest is dropped
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = r.environ(h, in, mark)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		killTree(cmd.Process.Pid, mark)
		return nil
	}
	if err := cmd.Start(); err != nil {
		return ended{}, failure(ctx, "start", err)
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		// Again, for what was being started while the first round went on.
		killTree(0, mark)
		return ended{}, context.Cause(ctx)
	}
	// The program may end without reading its input, and may leave a child that
	// holds its output open; neither is a failure.
	if cmd.ProcessState.Success() && (errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, syscall.EPIPE)) {
		err = nil
	}
	return ended{cmd.ProcessState.ExitCode(), err, stdout.buf.Bytes(), stderr.buf.Bytes()}, nil
}

// textOf is what a program printed, for people.
func textOf(b []byte) string { return strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD")) }

// environ is all that a command inherits (H-10, CX-67).
func (r *Registry) environ(h hook, in Input, mark string) []string {
	env := map[string]string{
		"PATH": safePath, "LANG": "C.UTF-8",
		"HOOK_EVENT": string(h.event), "HOOK_TOOL_NAME": in.ToolName, "HOOK_SESSION_ID": in.SessionID,
		"HOOK_CWD": in.Cwd, markName: mark,
	}
	for _, name := range []string{"HOME", "USER", "LOGNAME", "TZ", "LANG"} {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
		}
	}
	for name, v := range r.opts.Env {
		if !strings.HasPrefix(name, "HOOK_") && name != markName {
			env[name] = v
		}
	}
	all := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

// capped keeps the first bytes of a stream and swallows the rest.
type capped struct {
	buf  bytes.Buffer
	max  int
	full func()
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.max - c.buf.Len()
	c.buf.Write(p[:min(room, len(p))])
	if len(p) > room && c.full != nil {
		c.full()
	}
	return len(p), nil
}
