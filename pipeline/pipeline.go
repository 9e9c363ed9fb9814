// Package pipeline is the request path: every call of every front door goes
// through [Pipeline.Do], and nothing else runs a tool. A call that another program
// runs takes the same path in two parts, [Pipeline.Decide] and [Pipeline.Lend].
//
//	p := pipeline.New(pipeline.Options{Sessions: …, Tools: …, Policy: …})
//	result := p.Do(ctx, tool.Request{Account: "default-admin", Session: id, Tool: "Bash", Args: args})
//
// A call moves forward through fixed stages; each fills its field of the
// [tool.Call] and later ones only read it. Stages never call each other.
//
// Guaranteed: any error between receive and run denies; what was judged is what
// runs; no begin record, no run; no end record, no result; a cancelled context
// stops the call before its next stage.
package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// Options are the stages.
type Options struct {
	Sessions  Sessions
	Tools     *tool.Registry
	Vars      Vars
	Hooks     Hooks
	Policy    Policy
	Approvals Approvals
	Record    Record
	Decisions Decisions // nil keeps none
	Meter     Meter
	Backend   sandbox.Backend
	Settings  sandbox.Settings // the floor of sessions that bring none
	Roots     []string         // workspaces: a session stays in them
	Log       *slog.Logger
}

// Pipeline is the request path. It is safe for concurrent use.
type Pipeline struct {
	Options
	confined bool // programs are isolated by namespaces, or by Landlock and seccomp
	running  *running
	held     *held
}

// New returns the request path over these stages; all of them are required
// but for Decisions.
func New(o Options) *Pipeline {
	return &Pipeline{Options: o, confined: confines(o.Backend.Probe()), running: &running{calls: map[string]*entry{}}, held: newHeld()}
}

// Next is a request path over other stages that takes the place of p, as after a
// reload. Calls that run finish on p; both know all of them.
func (p *Pipeline) Next(o Options) *Pipeline {
	n := New(o)
	n.running, n.held = p.running, p.held
	return n
}

// Do runs one call to its end and answers it. It never panics on what a tool or
// a formatter does, and never returns without a record.
func (p *Pipeline) Do(ctx context.Context, req tool.Request) tool.Result {
	return p.do(ctx, tool.NewCall(req), nil).Result
}

// Decide judges a call that somebody else will run; it runs nothing. The
// decision, the facts and the arguments as hooks and policies left them are in
// the returned call. With req.Ask it waits for a person where the verdict is ask,
// and the answer is in the call; with req.Hold a call that may run is kept for
// [Pipeline.Lend].
func (p *Pipeline) Decide(ctx context.Context, req tool.Request) *tool.Call {
	req.DryRun = true
	return p.do(ctx, tool.NewCall(req), nil)
}

// do is the whole path, top to bottom. A call that was held comes with its loan:
// its arguments were resolved and its hooks heard then, and another program runs it.
func (p *Pipeline) do(ctx context.Context, c *tool.Call, l *loan) *tool.Call {
	approve, run, lent := p.approve, p.run, l != nil
	if lent {
		approve, run = l.approve, l.run
	}
	ctx, leave := p.running.enter(ctx, c)
	defer leave(c)
	defer p.end(ctx, c) // on every path; if it fails the result is withheld

	if !p.step(ctx, c, "lookup", p.lookup) || // the tool exists and is enabled
		!lent && !p.step(ctx, c, "resolve", p.resolve) || // $VAR_REF in the arguments, once
		!lent && !p.step(ctx, c, "before", p.before) || // pre hooks: block, rewrite, tighten
		!p.step(ctx, c, "judge", p.judge) || // schema, uses, policies, floor
		c.Request.DryRun && !c.Request.Ask && c.Decision.Verdict == tool.Ask ||
		!p.step(ctx, c, "approve", approve) { // a person, where the verdict is ask; then judged again
		return c
	}
	if c.Request.DryRun {
		if c.Request.Hold {
			p.step(ctx, c, "hold", p.hold) // for Lend
		}
		return c
	}
	if !p.step(ctx, c, "begin", p.begin) { // no record, no run
		return c
	}
	ran := p.step(ctx, c, "run", run) && // the tool, in its Box
		p.step(ctx, c, "format", p.format) && // data to text for the model
		(lent || p.step(ctx, c, "remember", p.remember)) // result and arguments become variables; the output of a lent call is not here
	if ran || c.Result.Status == tool.StatusError {
		p.step(context.WithoutCancel(ctx), c, "after", p.after) // post hooks, release of the result
	}
	return c
}

// step runs one stage unless the call was cancelled, and turns its error into
// the result.
func (p *Pipeline) step(ctx context.Context, c *tool.Call, name string, stage func(context.Context, *tool.Call) error) bool {
	start := time.Now()
	err := context.Cause(ctx)
	if err == nil {
		err = p.contain(func() error { return stage(ctx, c) })
	}
	p.Meter.Stage(name, time.Since(start))
	if err == nil {
		return true
	}
	if ctx.Err() != nil {
		err = &tool.Error{Code: "cancelled", Msg: "the call was cancelled: " + context.Cause(ctx).Error()}
	}
	fail(c, name, err)
	return false
}

// contain turns a panic into an error: one tool must not take the daemon down.
func (p *Pipeline) contain(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.Log.Error("panic in a call", "panic", v, "stack", string(debug.Stack()))
			err = &tool.Error{Code: "panic", Msg: fmt.Sprintf("panic: %v", v)}
		}
	}()
	return f()
}

func (p *Pipeline) lookup(ctx context.Context, c *tool.Call) error {
	s, err := p.Sessions.Session(ctx, c.Request.Account, c.Request.Session)
	if err != nil {
		return err
	}
	t, err := p.Tools.Lookup(s, c.Request.Tool)
	if err != nil {
		return err
	}
	c.Session, c.Tool, c.Spec = s, t, p.Tools.Spec(t)
	c.In.Dir, c.In.Home = s.Dir, s.Home
	if c.Request.Dir != "" {
		c.In.Dir, c.Session.Dir = c.Request.Dir, c.Request.Dir
	}
	c.Result.Tool = c.Spec.Name
	return nil
}

func (p *Pipeline) resolve(ctx context.Context, c *tool.Call) (err error) {
	if len(c.In.Args) == 0 {
		c.In.Args = json.RawMessage("{}")
	}
	c.In.Args, c.Origins, err = p.Vars.Resolve(ctx, c.Session.ID, c.In.Args)
	c.In.Origins = c.Origins
	return err
}

func (p *Pipeline) before(ctx context.Context, c *tool.Call) error {
	advice, err := p.Hooks.Before(ctx, c)
	if err != nil {
		return err
	}
	c.Advice = advice
	c.Result.SystemMessages = advice.Messages
	if advice.Block {
		return &tool.Error{Code: "hook_blocked", Msg: or(advice.Reason, "Tool execution blocked by hook")}
	}
	if advice.Args != nil {
		c.In.Args = advice.Args
	}
	return nil
}

func (p *Pipeline) begin(ctx context.Context, c *tool.Call) error {
	if err := p.Record.Begin(ctx, c); err != nil {
		return &tool.Error{Code: "record_failed", Msg: "the call was not run, for it cannot be recorded: " + err.Error(), Hint: "the operator finds the cause in the daemon's log and in sandboxd audit verify"}
	}
	return nil
}

func (p *Pipeline) run(ctx context.Context, c *tool.Call) error {
	box, err := p.box(ctx, c)
	if err != nil {
		return err
	}
	defer box.Close()
	c.In.Judged = c.Facts.Uses.Paths
	out, err := c.Tool.Run(ctx, c.In, box)
	report := box.Report()
	report.Denials = append(report.Denials, out.Denials...)
	c.Output, c.Report = out, report
	if err == nil {
		err = created(report)
	}
	if err == nil && out.Dir != "" && out.Dir != c.Session.Dir {
		err = p.move(ctx, c, out.Dir)
	}
	if err == nil {
		c.Result.SystemMessages = append(c.Result.SystemMessages, p.Hooks.Changed(ctx, c)...)
	}
	return err
}

// created is the error of a call that made a denied path: the cage took it away.
func created(r sandbox.Report) error {
	for _, d := range r.Denials {
		if d.Layer == "denied_path_created" {
			return &tool.Error{Code: d.Layer, Msg: d.Act, Hint: or(d.Setting, "the file was moved to quarantine; an operator can release it")}
		}
	}
	return nil
}

// move keeps the directory that a shell was left in, for the next call of the
// session; a directory outside the workspace is not kept.
func (p *Pipeline) move(ctx context.Context, c *tool.Call, dir string) error {
	inside := func(root string) bool { return sandbox.Within(dir, root) }
	if !slices.ContainsFunc(p.Roots, inside) {
		return nil
	}
	_, err := p.Sessions.Patch(ctx, c.Session.Account, c.Session.ID, func(s *tool.Session) error {
		s.Dir = dir
		return nil
	})
	return err
}

func (p *Pipeline) box(ctx context.Context, c *tool.Call) (sandbox.Box, error) {
	box, err := p.Backend.Box(ctx, c.Session.ID, c.Session.Profile, c.Settings)
	var missing *sandbox.MissingError
	if errors.As(err, &missing) {
		return nil, &tool.Error{Code: "sandbox_missing", Msg: err.Error(), Hint: "sandboxd doctor says what this host cannot enforce; sandbox.require names what must hold"}
	}
	if err != nil {
		return nil, fmt.Errorf("make the sandbox: %w", err)
	}
	return box, nil
}

func (p *Pipeline) format(_ context.Context, c *tool.Call) error {
	r := &c.Result
	r.Status = tool.StatusSuccess
	r.Data, r.Content = c.Output.Data, c.Output.Content
	r.FormattedText = tool.Format(c.Tool, c.Spec, c.Output, c.In.Args)
	r.FinalText, r.Truncated = tool.Truncate(c.Tool, c.Spec, r.FormattedText, c.In.Args)
	return nil
}

func (p *Pipeline) remember(ctx context.Context, c *tool.Call) error {
	if err := p.Vars.Remember(ctx, c, p.pending(c)); err != nil {
		return err
	}
	if r := &c.Result; r.VarResult != "" {
		r.FinalText += tool.Hint(r.VarResult, r.FormattedText, r.FinalText, r.Truncated)
	}
	return nil
}

// pending reports whether somebody may still withhold the result.
func (p *Pipeline) pending(c *tool.Call) bool { return asksForResult(c) || p.Hooks.Posts() }

func asksForResult(c *tool.Call) bool {
	switch c.Spec.Results {
	case tool.ResultNever, "":
		return false
	case tool.ResultOnError:
		return c.Result.Status == tool.StatusError
	}
	return true
}

func (p *Pipeline) after(ctx context.Context, c *tool.Call) error {
	advice, err := p.Hooks.After(ctx, c)
	if err == nil && advice.Block {
		err = &tool.Error{Code: "result_withheld", Msg: or(advice.Reason, "the result was withheld by a hook")}
	}
	if err != nil {
		return p.withhold(ctx, c, err)
	}
	c.Result.SystemMessages = append(c.Result.SystemMessages, advice.Messages...)
	if asksForResult(c) {
		resume := tool.Park(ctx)
		answer, err := p.Approvals.Result(ctx, c)
		resume()
		if err != nil {
			return p.withhold(ctx, c, err)
		}
		if !answer.Approved {
			return p.withhold(ctx, c, rejection{tool.StatusResultRejected, answer})
		}
	}
	// The message of a tool that failed is shown too, and may be the words of a page.
	if p.pending(c) || c.Result.Status == tool.StatusError {
		return p.Vars.Publish(ctx, c)
	}
	return nil
}

// withhold deletes what was remembered, so that no variable gives away what the
// model may not see (CX-22).
func (p *Pipeline) withhold(ctx context.Context, c *tool.Call, why error) error {
	if c.Result.VarResult == "" {
		return why
	}
	return errors.Join(why, p.Vars.Discard(ctx, c))
}

// end writes the record and counts. A result that cannot be recorded is withheld.
func (p *Pipeline) end(ctx context.Context, c *tool.Call) {
	ctx = context.WithoutCancel(ctx)
	finish(c)
	if refused(c) {
		_ = p.contain(func() error {
			c.Result.SystemMessages = append(c.Result.SystemMessages, p.Hooks.Refused(ctx, c)...)
			return nil
		})
	}
	if err := p.Record.End(ctx, c); err != nil {
		withheld := &tool.Error{Code: "record_failed", Msg: "the result is withheld, for it cannot be recorded: " + err.Error()}
		fail(c, "end", p.withhold(ctx, c, withheld))
		finish(c)
	}
	if p.Decisions != nil {
		p.Decisions.Judged(c)
	}
	if !c.Request.Hold || c.Result.Status != tool.StatusSuccess { // what is held is counted when it ends
		p.Meter.Done(c)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
