package main

import (
	"context"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// lent starts a call that the daemon judged. Everything that decides what runs,
// and in which cage, is the daemon's word; nothing is read from a configuration
// of this process.
func (t *execTool) lent(ctx context.Context, call tool.Lent) tool.LentEnd {
	end, err := t.runLent(ctx, call)
	if err != nil {
		end.Failure = err.Error()
	}
	return end
}

func (t *execTool) runLent(ctx context.Context, call tool.Lent) (end tool.LentEnd, err error) {
	backend, err := sandbox.NewBackend(sandbox.Options{Child: childPath(), Private: call.Private, Roots: call.Roots, Home: call.Home})
	if err != nil {
		return end, err
	}
	defer backend.Close()
	s := call.Settings
	execOutput(&s)
	box, err := backend.Box(ctx, call.Session, call.Profile, s)
	if err != nil {
		return end, err
	}
	defer box.Close()
	exit, err := t.start(ctx, call.Argv, call.Dir, box)
	end = tool.LentEnd{
		ExitCode: exit.Code, Why: exit.Why(), CPUMS: exit.Usage.CPU.Milliseconds(), MaxRSS: exit.Usage.MaxRSSBytes, Report: box.Report(),
	}
	end.Report.Denials = append(end.Report.Denials, exit.Denials...)
	return end, err
}

// execOutput lets a program whose output goes to whoever started it print more
// than one whose output becomes a result.
func execOutput(s *sandbox.Settings) {
	if s.Limits.OutputBytes == sandbox.DefaultLimits.OutputBytes || s.Limits.OutputBytes == 0 {
		s.Limits.OutputBytes = execOutputBytes
	}
}
