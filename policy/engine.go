// Package policy judges calls: what they mean, not how they are written.
//
// An [Engine] holds one compiled revision of the Rego library, the operator's
// own Rego, permission rules and list policies. [Engine.Decide] turns a call into
// a closed input document, collects findings from all of them, and combines the
// findings in Go:
//
//	e, err := policy.New(ctx, policy.Options{Profile: "developer"})
//	d, err := e.Decide(ctx, call)
//	// d.Verdict, d.Reasons, d.By, d.Args (a rewrite), d.Obligations
//
// Any deny denies; else any ask asks; else an allow allows; else the permission
// mode of the session decides. A rewrite rides on a decision that is not a deny
// and must be judged again by the caller.
//
// Guaranteed: an evaluation that fails, times out, is undefined or has the wrong
// shape is a deny with a reserved core.* rule; a reload that fails keeps the last
// good revision. Not judged here: the settings' floor, which is package sandbox.
package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/tool"
)

// DefaultDeadline bounds one evaluation.
const DefaultDeadline = 100 * time.Millisecond

// Options say which policies hold. The zero value is the developer profile with
// nothing added.
type Options struct {
	Profile string   // "developer" (default), "observe", "strict"
	Dirs    []string // directories with the operator's Rego
	Disable []string // ids of profile rules that are switched off
	Rules   Rules    // permission rules

	Policies []ListPolicy // list policies, all of which must agree
	Verdict  string       // what an allow by a list policy means: "advisory" (default) leaves the mode in force, "final" does not

	Workspaces []string // roots whose WorkspaceFile is read; it may only tighten

	RelaxReads bool          // askReadOnly: false; read-only tools run unasked in default and acceptEdits
	Deadline   time.Duration // of one evaluation; 0 is DefaultDeadline
	CanUseTool CanUseTool    // asked after the rules; nil has no opinion
	Reloaded   func(error)   // told of every reload, whoever asked for it; nil is nobody
}

// Engine judges. It is safe for concurrent use.
type Engine struct {
	opts Options

	current atomic.Pointer[revision]
	reload  sync.Mutex // serialises reloads; decisions never wait for it

	mu        sync.Mutex // guards failure and callbacks
	failure   *Failure
	callbacks map[string]CanUseTool
}

// New loads everything that opts name. There is no engine without a good
// revision.
func New(ctx context.Context, opts Options) (*Engine, error) {
	if opts.Profile == "" {
		opts.Profile = "developer"
	}
	if opts.Deadline == 0 {
		opts.Deadline = DefaultDeadline
	}
	e := &Engine{opts: opts, callbacks: map[string]CanUseTool{}}
	r, err := load(ctx, opts, nil)
	if err != nil {
		return nil, err
	}
	e.current.Store(r)
	return e, nil
}

// Decide judges c by rules, callback and mode. The error is only ever the
// cancellation of ctx; every other failure is a deny by a core.* rule.
func (e *Engine) Decide(ctx context.Context, c *tool.Call) (tool.Decision, error) {
	d := e.judge(ctx, c)
	if err := ctx.Err(); err != nil {
		return coreDeny(d.Revision, "core.cancelled", err.Error()), err
	}
	return d, nil
}

// evidence is what a decision was made of.
type evidence struct {
	revision *revision
	input    *Input
	findings []Finding // in the order of their packages, those of policies and callback last
}

func (e *Engine) judge(ctx context.Context, c *tool.Call) tool.Decision {
	r := e.current.Load()
	in, err := NewInput(c)
	if err != nil {
		return coreDeny(r.id, "core.input", err.Error())
	}
	seen := &evidence{revision: r, input: in}
	d := e.weigh(ctx, c, seen)
	d.Judged = seen
	return d
}

func (e *Engine) weigh(ctx context.Context, c *tool.Call, seen *evidence) tool.Decision {
	r, in := seen.revision, seen.input
	findings, err := r.evaluate(ctx, in, e.opts.Deadline)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		// A machine with much to do takes the time away; a rule that is slow is so twice.
		findings, err = r.evaluate(ctx, in, e.opts.Deadline)
	}
	if err != nil {
		return coreDeny(r.id, coreRule(err), err.Error())
	}
	seen.findings = r.withoutDisabled(findings)
	own, err := e.opinions(ctx, c)
	if err != nil {
		return coreDeny(r.id, "core.callback", err.Error())
	}
	seen.findings = append(seen.findings, own...)
	return combine(r.id, seen.findings, modeEffect(in, e.opts.RelaxReads), in)
}

// coreRule names the reserved rule for an evaluation that failed.
func coreRule(err error) string {
	var shape *shapeError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "core.timeout"
	case errors.As(err, &shape):
		return "core.shape"
	}
	return "core.evaluation"
}

func coreDeny(revision, rule, msg string) tool.Decision {
	return tool.Decision{
		Verdict: tool.Deny, By: tool.ByCore, Revision: revision,
		Reasons: []tool.Reason{{
			Rule: rule, Code: "policy_error",
			Message: fmt.Sprintf("the policy could not be evaluated, so the call is denied: %s", msg),
			Hint:    "sandboxd policy check finds mistakes in rules",
		}},
	}
}
