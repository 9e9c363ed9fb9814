package runner

import (
	"context"
	"fmt"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// Leased starts a call that the daemon judged. The daemon decides what runs and in
// which cage, and judges where its programs connect; nothing is read from a configuration of
// this process.
func (t *Program) Leased(ctx context.Context, call tool.Lease, judge egress.Judge) tool.LeaseEnd {
	end, err := t.runLeased(ctx, call, judge)
	if err != nil {
		end.Failure = err.Error()
	}
	return end
}

func (t *Program) runLeased(ctx context.Context, call tool.Lease, judge egress.Judge) (end tool.LeaseEnd, err error) {
	backend, err := sandbox.NewBackend(sandbox.Options{
		Child: t.Child, Private: call.Private, Roots: func() []string { return call.Roots }, Home: call.Home,
	})
	if err != nil {
		return end, err
	}
	defer backend.Close()
	s := call.Settings
	RaiseOutputLimit(&s)
	box, err := backend.Box(ctx, call.Session, call.Profile, s)
	if err != nil {
		return end, err
	}
	defer box.Close()
	if err := sandbox.OpenSiblings(ctx, box, call.Siblings); err != nil {
		return end, err
	}
	box = box.Judged(judge)
	if len(call.Bound) > 0 {
		if err := backend.Binds(); err != nil {
			return end, fmt.Errorf("what a person approved cannot be bound here: %w", err)
		}
	}
	bound, err := sandbox.Bind(ctx, box, call.Bound)
	if err != nil {
		return end, err
	}
	defer sandbox.CloseBound(bound)
	exit, err := t.start(ctx, sandbox.Spec{Argv: call.Argv, Dir: call.Dir, Bound: bound}, box)
	end = tool.LeaseEnd{
		ExitCode: exit.Code, Why: exit.Why(), CPUMS: exit.Usage.CPU.Milliseconds(),
		MaxRSS: exit.Usage.MaxRSSBytes, Report: box.Report(),
	}
	end.Report.Denials = append(end.Report.Denials, exit.Denials...)
	if n := box.Ledger(); len(n.Connections) > 0 || n.Omitted > 0 {
		end.Network = &n
	}
	return end, err
}
