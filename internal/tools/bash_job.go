package tools

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

// onTimeoutBackground is the value of on_timeout that turns a command into a job when its time is over.
const onTimeoutBackground = "background"

// The default size of a terminal.
const (
	defaultRows    = 24
	defaultColumns = 80
)

// check refuses combinations in which an argument would have no effect.
func (a bashArgs) check() error {
	say := func(msg, hint string) error { return &tool.Error{Code: "invalid_arguments", Msg: msg, Hint: hint} }
	job := a.Background || a.OnTimeout == onTimeoutBackground
	switch {
	case a.Background && a.OnTimeout != "":
		return say("run_in_background and on_timeout are given together",
			"a command in the background is a job from the beginning; give one of them")
	case a.TTY && !a.Background:
		return say("tty needs run_in_background", "a job can have a terminal, which TaskInput types into")
	case a.Rows+a.Columns > 0 && !a.TTY:
		return say("rows and columns need tty", "leave them out")
	case job && a.OutputFile != "":
		return say("output_file is not for commands that may become jobs",
			"a job keeps its output: TaskOutput reads it; or let the command write a file")
	}
	return nil
}

// Lasts implements [tool.Lasting].
func (Bash) Lasts(in tool.In) (wait time.Duration, ok bool) {
	args, err := tool.Decode[bashArgs](in)
	switch {
	case err != nil:
		return 0, false
	case args.Background:
		return 0, true
	case args.OnTimeout == onTimeoutBackground:
		return args.timeout(), true
	}
	return 0, false
}

// timeout returns how long a command in the foreground may take.
func (a bashArgs) timeout() time.Duration {
	if a.Timeout == nil {
		return defaultTimeout
	}
	return min(time.Duration(*a.Timeout)*time.Millisecond, maxTimeout)
}

// jobCap bounds the bytes of a job's output that become its result.
const jobCap = 4 * outputCap

// runJob runs the command as a job, with stdout and stderr in one stream. A job that began in the background ends at
// its timeout; every job ends with whatever ends jobs in general (its session, TaskStop, the daemon).
func (a bashArgs) runJob(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	j := in.Job
	spec := sandbox.Spec{
		Argv: a.argv(), Dir: in.Dir, Bounded: true, Lasting: true, Name: j.ID(),
		Limits: guard.Limits{WallSeconds: int(j.Wall().Seconds())},
	}
	var timeout time.Duration
	runCtx, cancel := context.WithCancel(ctx)
	if a.Background && a.Timeout != nil {
		timeout = time.Duration(*a.Timeout) * time.Millisecond
		runCtx, cancel = tool.Timeout(ctx, timeout)
	}
	defer cancel()
	closeOurs, err := a.streams(j, &spec)
	if err != nil {
		return tool.Output{}, err
	}
	proc, err := box.Start(runCtx, spec)
	closeOurs()
	if err != nil {
		return tool.Output{}, startError(spec.Argv[0], err)
	}
	j.Started(proc)
	exit, err := proc.Wait()
	if err != nil && runCtx.Err() == nil {
		return tool.Output{}, startError(spec.Argv[0], err)
	}
	j.Ended(exit)
	if err := toolkit.Need(ctx, jobCap); err != nil {
		return tool.Output{}, err
	}
	text, total, whole := j.Printed(jobCap)
	data := bashData{
		Stdout: text, ExitCode: exit.Code, Signal: exit.Signal, Limit: exit.Limit, Truncated: !whole,
		TimedOut: exit.TimedOut || ctx.Err() == nil && runCtx.Err() != nil, Interrupted: ctx.Err() != nil,
		denials: exit.Denials, why: exit.Why(),
	}
	if data.Truncated {
		data.notes = append(data.notes, fmt.Sprintf("[the output had %d bytes, and parts of it are left out]", total))
	}
	out, err := ended(data, exit, timeout, runCtx.Err() == nil)
	if a.Background || a.elsewhere || j.Answered() { // the session may have changed its directory meanwhile
		data.Notes = data.remarks()
		if err == nil {
			out.Data = data
		}
		return out, err
	}
	return a.moved(ctx, in, box, out, err)
}

// streams connects the program to its streams. The function that it returns closes the ends that only the program
// uses.
func (a bashArgs) streams(j tool.JobStreams, spec *sandbox.Spec) (closeOurs func(), err error) {
	if a.TTY {
		terminal, err := j.Terminal(cmp.Or(a.Rows, defaultRows), cmp.Or(a.Columns, defaultColumns))
		if err != nil {
			return nil, err
		}
		spec.Stdin, spec.Stdout, spec.Stderr, spec.Terminal = terminal, terminal, terminal, true
		spec.Env = append(spec.Env, "TERM=xterm-256color")
		return func() { terminal.Close() }, nil
	}
	out := j.Output()
	spec.Stdout, spec.Stderr = out, out
	if !a.Background { // the same standard input as a command in the foreground
		return func() {}, nil
	}
	input, err := j.Input()
	if err != nil {
		return nil, err
	}
	spec.Stdin = input
	return func() { input.Close() }, nil
}
