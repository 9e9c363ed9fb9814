package hooks

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/reaper"
)

const (
	maxStdout = 1 << 20
	maxStderr = 64 << 10
	// pipeGrace is how long a command that has ended may leave its output open in
	// a child that it left behind.
	pipeGrace = 100 * time.Millisecond
	safePath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// ended describes the end of a program that its context did not end.
type ended struct {
	code           int
	err            error // set whenever code is not 0
	stdout, stderr []byte
}

// execute runs a program outside the sandbox. With ctx, or when it says too much, it ends; that is the error.
// With it ends all that it started.
func (r *Registry) execute(ctx context.Context, h hook, in Input, argv []string, stdin []byte) (ended, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &capped{
		max: maxStdout, full: func() { cancel(fmt.Errorf("its output is larger than %d bytes", maxStdout)) },
	}
	stderr := &capped{max: maxStderr} // the rest is dropped
	p := program{argv: argv, env: r.environ(h, in), stdin: stdin, stdout: stdout, stderr: stderr}
	if ctx.Err() != nil {
		return ended{}, context.Cause(ctx)
	}
	x, err := r.start(ctx, p)
	if err != nil {
		return ended{}, failure(ctx, "start", err)
	}
	said, err := x.wait(ctx, atOnce)
	if err != nil {
		return ended{}, err
	}
	return ended{said.Code, unclean(said), stdout.buf.Bytes(), stderr.buf.Bytes()}, nil
}

// atOnce returns the grace of programs that are killed without SIGTERM before.
func atOnce() time.Duration { return 0 }

// unclean is the error of a program that did not end with 0.
func unclean(said reaper.Report) error {
	switch {
	case said.Signal != "":
		return fmt.Errorf("signal: %s", said.Signal)
	case said.Code != 0:
		return fmt.Errorf("exit status %d", said.Code)
	}
	return nil
}

// textOf returns the output of a program as a text for people.
func textOf(b []byte) string { return strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD")) }

// environ returns the whole environment of a command (H-10, CX-67).
func (r *Registry) environ(h hook, in Input) []string {
	env := map[string]string{
		"PATH": safePath, "LANG": "C.UTF-8",
		"HOOK_EVENT": string(h.event), "HOOK_TOOL_NAME": in.ToolName, "HOOK_SESSION_ID": in.SessionID,
		"HOOK_CWD": in.Cwd,
	}
	for _, name := range []string{"HOME", "USER", "LOGNAME", "TZ", "LANG"} {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
		}
	}
	for name, v := range r.opts.Env {
		if !strings.HasPrefix(name, "HOOK_") {
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
