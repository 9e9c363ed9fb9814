package hooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	// maxAnswer bounds the bytes that a program that runs an agent may answer.
	maxAnswer = 16 << 20
	// agentGrace is how long such a program may take to end after SIGTERM.
	agentGrace = 2 * time.Second
)

// RunAgent runs a program as a hook is run, but it may call the daemon, and it has the rights of the user
// whose agent it runs for, if the daemon may take them. It ends with ctx and with the daemon, and with it all
// that it started. stderr is for the log, whatever the error is.
func (r *Registry) RunAgent(ctx context.Context, a tool.AgentProgram) (stdout []byte, stderr string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &capped{
		max: maxAnswer, full: func() { cancel(fmt.Errorf("its answer is larger than %d bytes", maxAnswer)) },
	}
	said := &capped{max: maxStderr}
	p := program{
		argv: a.Argv, env: r.environ(hook{}, Input{SessionID: a.As.Session}), as: &a.As,
		stdin: a.Stdin, stdout: out, stderr: said,
	}
	for _, name := range a.PassEnv {
		if v, ok := os.LookupEnv(name); ok {
			p.env = append(p.env, name+"="+v)
		}
	}
	if err := p.giveRights(a.As.Identity); err != nil {
		return nil, "", err
	}
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	x, err := r.start(ctx, p)
	if err != nil {
		return nil, "", failure(ctx, "start", err)
	}
	a.Started()
	end, err := x.wait(ctx, func() time.Duration {
		if errors.Is(context.Cause(ctx), tool.ErrAtOnce) {
			return 0
		}
		return agentGrace
	})
	if err == nil {
		err = unclean(end)
	}
	return out.buf.Bytes(), textOf(said.buf.Bytes()), err
}
