package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox"
)

// caged runs a command hook as a tool would run it: in the sandbox, with the
// settings of the daemon (H-31). It gets what other commands get, except the
// environment, which is that of the sandbox.
func (r *Registry) caged(ctx context.Context, h hook, in Input) (*Output, error) {
	if r.opts.Box == nil {
		return nil, errors.New("there is no sandbox to run it in")
	}
	text, err := in.encode()
	if err != nil {
		return nil, fmt.Errorf("encode the input: %w", err)
	}
	box, err := r.opts.Box(ctx)
	if err != nil {
		return nil, failure(ctx, "make its sandbox", err)
	}
	defer box.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdin, err := feed(text)
	if err != nil {
		return nil, err
	}
	defer stdin.close()
	stdout := &capped{
		max: maxStdout, full: func() { cancel(fmt.Errorf("its output is larger than %d bytes", maxStdout)) },
	}
	stderr := &capped{max: maxStderr}
	proc, err := box.Start(ctx, sandbox.Spec{
		Argv: []string{"/bin/bash", "-c", h.Command}, Dir: "/", Stdin: stdin.r, Stdout: stdout, Stderr: stderr,
		// Half an answer may lack the half that blocks, so a hook that prints too much has failed.
		Limits: guard.Limits{OutputAction: guard.OutputKill},
		Env: []string{
			"HOOK_EVENT=" + string(h.event), "HOOK_TOOL_NAME=" + in.ToolName, "HOOK_SESSION_ID=" + in.SessionID,
			"HOOK_CWD=" + in.Cwd,
		},
	})
	if err != nil {
		return nil, failure(ctx, "start", err)
	}
	exit, err := proc.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case exit.Limit != "" || exit.TimedOut:
		return nil, fmt.Errorf("the sandbox ended it: %s", exit.Why())
	}
	var failed error
	if exit.Code != 0 {
		failed = fmt.Errorf("exit status %d", exit.Code)
	}
	return read(ended{exit.Code, failed, stdout.buf.Bytes(), stderr.buf.Bytes()})
}

// failure returns why an act failed; if the time of the hook is over, that is the reason.
func failure(ctx context.Context, act string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", act, err)
}

// fed is a pipe into which a goroutine writes a text. The program may or may not read it.
type fed struct{ r, w *os.File }

func feed(text []byte) (fed, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return fed{}, err
	}
	go func() {
		// A program may end without reading; closing ends the write then.
		_, _ = bytes.NewReader(text).WriteTo(w)
		w.Close()
	}()
	return fed{r, w}, nil
}

func (f fed) close() {
	f.r.Close()
	f.w.Close()
}
