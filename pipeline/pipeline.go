// Package pipeline is the request path. Every call of every front door goes through [Pipeline.Do],
// [Pipeline.Decide] or [Pipeline.Lease], and nothing else runs a tool for an agent.
//
//	p := pipeline.New(pipeline.Options{Sessions: …, Tools: …, Policy: …})
//	result := p.Do(ctx, tool.Request{Account: "ann", Session: id, Tool: "Bash", Args: args})
//
// A call moves forward through fixed stages, which fill the fields of its [tool.Call]: lookup,
// resolve, before (hooks), judge, approve; then, by an [Executor], begin (record), run, settle,
// format, remember, after (hooks), end (record). Hooks and policies may replace the arguments; they
// are judged as replaced. After a person has answered, the call is judged again. stages.go has what
// each stage needs.
//
// A client that runs the program itself calls Decide with Request.Lease and, within ten minutes,
// Lease, which judges again, hands the call out and waits. [Pipeline.ConnectLease] judges its
// connections. [Pipeline.EndLease] tells Lease how the program ended; without it, Lease waits until
// its context ends. What another agent runs by itself is only judged, by Decide: the guarantees about
// records and results do not hold for it.
//
// After a reload, call [Pipeline.Next] and send new calls to the path that it returns.
//
// Guaranteed:
//   - Any error before run denies.
//   - What was judged is what runs.
//   - No begin record, no run. No end record, no result: Do and Lease return none. What was streamed
//     already cannot be taken back. A call that goes on as a job is answered at once; its result comes
//     only after its end record.
//   - A cancelled context stops the call before its next stage. But once a tool has run, what it
//     changed is still judged.
//
// A refusal or a failure is no Go error: it is in the [tool.Result] of the call, with a status, a code
// and the stage. To the methods that take an account and the id of a call, a call of another account is
// like one that does not exist.
//
// Beside the path: [Pipeline.DoAll] runs a batch; running.go knows the calls that run (list, follow,
// cancel); connect.go judges connections; [Companions] makes the cages of programs that live longer than
// a call, such as language servers; room.go bounds the memory that judging takes.
//
// A new step is a method of [Pipeline] that takes the call, in a file of its own, and an element of admission or
// a line of perform. What it needs of other packages is an interface in stages.go. What it finds out stays in its
// own package, by the id of the call; tool.Call has only what later stages need.
package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// Options are what the stages need: the packages behind them, and settings.
type Options struct {
	Sessions  Sessions
	Tools     *catalog.Registry
	Vars      Vars
	Hooks     Hooks
	Policy    Policy
	Approvals Approvals
	Undoable  bool   // nobody is asked about changes that can be undone
	UndoBy    string // the command that undoes a call; "" is sandboxd undo
	Record    Record
	Decisions Decisions // nil keeps none
	Journal   Journal   // nil keeps none
	Meter     Meter
	Jobs      tool.Jobs // nil: no call goes on when it has been answered
	Backend   sandbox.Backend
	// Workspaces say what sessions may work in.
	Workspaces Workspaces
	// DiskRoom says whether the disk has room for a call now; nil: always.
	DiskRoom func(c *tool.Call) error
	// Own reports whether an address is one where the daemon listens; nil: it does on none.
	Own func(netip.AddrPort) bool
	// Paces bound how fast the programs of an account connect and pass bytes; nil: nothing does.
	Paces *egress.Paces
	// Connected is told of each decision about a connection of a call that runs; nil is nobody.
	Connected func(*tool.Call, egress.Connection, egress.Verdict)
	Log       *slog.Logger
}

// Pipeline is the request path. It is safe for concurrent use.
type Pipeline struct {
	Options
	confined bool // programs are isolated by namespaces, or by Landlock and seccomp
	floor    guard.Prepared
	running  *running
	leases   *leases
	made     *made
}

// New returns the request path over these stages. All are required except those of which the
// field says what nil or "" is.
func New(o Options) *Pipeline {
	p := &Pipeline{
		Options: o, confined: confines(o.Backend.Probe()),
		running: &running{calls: map[string]*entry{}}, leases: newLeases(), made: newMade(),
	}
	p.running.newest = p
	return p
}

// Next returns a request path over other stages that replaces p, for example after a
// reload. Calls that run finish on p, and both paths know all calls; a call that a
// person approves from now on is judged by the new path before it runs.
func (p *Pipeline) Next(o Options) *Pipeline {
	n := New(o)
	n.running, n.leases, n.made = p.running, p.leases, p.made
	n.running.succeed(n)
	return n
}

// Do runs one call to its end and answers it. It never panics on what a tool or
// a formatter does, and never returns a result that is not recorded.
func (p *Pipeline) Do(ctx context.Context, req tool.Request) tool.Result {
	if req.DryRun {
		req.Hypothetical = true
		return p.Decide(ctx, req).Result
	}
	return p.do(ctx, tool.NewCall(req), p.admission(), here{p}).Result
}

// Decide judges a call that somebody else will run; it runs nothing. Unless the call is hypothetical,
// it counts for rules that count. The decision, the facts and the arguments as hooks and policies left
// them are in the returned call. With req.Ask it waits for a person where the verdict is ask, and the
// answer is in the call; with req.Lease a call that may run is kept for [Pipeline.Lease].
func (p *Pipeline) Decide(ctx context.Context, req tool.Request) *tool.Call {
	req.DryRun = true
	admit := p.admission()
	if !req.Ask { // without approve: nobody is asked
		admit = admit[:len(admit)-1]
	}
	if req.Lease {
		admit = append(admit, stage{"hold", p.offer})
	}
	return p.do(ctx, tool.NewCall(req), admit, nil)
}

// stage is one step of a call. Its error ends the call, and names the stage.
type stage struct {
	name string
	run  func(context.Context, *tool.Call) error
}

// admission returns what a call goes through before it may run. Approve is the last.
func (p *Pipeline) admission() []stage {
	return []stage{
		{"lookup", p.lookup},   // session, workspace and tool; room on the disk and in memory
		{"resolve", p.resolve}, // $VAR_REF in the arguments, once
		{"before", p.before},   // pre hooks: block, rewrite, tighten
		{"judge", p.judge},     // schema, uses, policies, floor
		{"approve", p.approve}, // a person, where the verdict is ask; then judged again
	}
}

// do runs the whole path, top to bottom: the stages admit the call, the executor performs it. Without an executor
// the call is only judged.
func (p *Pipeline) do(ctx context.Context, c *tool.Call, admit []stage, by Executor) *tool.Call {
	if p.Decisions != nil {
		ctx = p.Decisions.Follow(ctx)
	}
	ctx, leave := p.running.enter(ctx, c)
	memory := budget.Of(ctx).Part()
	ctx = budget.With(ctx, memory)
	job := job{p: p, c: c, by: by}
	defer func() {
		if job.Job == nil { // otherwise the job does this at its own end
			p.end(ctx, c)                    // on every path; if it fails the result is withheld
			memory.Shrink(heldBy(&c.Result)) // until it is answered
			leave(c)
		}
	}()

	if !p.pass(ctx, c, admit...) {
		return c
	}
	p.made.beforeRun(c)
	if by == nil || !p.pass(ctx, c, stage{"job", job.open}) {
		return c
	}
	if job.Job != nil {
		return job.run(ctx, leave)
	}
	p.perform(ctx, c, by)
	return c
}

// perform is the second half of the path.
func (p *Pipeline) perform(ctx context.Context, c *tool.Call, by Executor) {
	if !p.pass(ctx, c, stage{"begin", p.begin}) { // no record, no run
		return
	}
	ran := p.pass(ctx, c, stage{"run", by.Run}) // the tool, here or at a client
	p.made.afterRun(c)
	// Policies and people judge what it changed, whatever ended it; what they refuse is undone.
	settle := stage{"settle", func(_ context.Context, c *tool.Call) error { return p.settle(ctx, c) }}
	if !p.pass(context.WithoutCancel(ctx), c, settle) {
		return
	}
	if ran { // what it changed stays
		c.Result.SystemMessages = append(c.Result.SystemMessages, p.Hooks.Changed(ctx, c)...)
	}
	ran = ran && p.pass(ctx, c,
		stage{"format", p.format},      // data to text for the model
		stage{"remember", by.Remember}, // result and arguments become variables
	)
	if !ran && c.Result.Status != tool.StatusError {
		return
	}
	p.pass(context.WithoutCancel(ctx), c, stage{"after", p.after}) // post hooks, release of the result
}

// pass takes the call through these stages. It reports whether it passed them all.
func (p *Pipeline) pass(ctx context.Context, c *tool.Call, stages ...stage) bool {
	for _, s := range stages {
		if !p.step(ctx, c, s) {
			return false
		}
	}
	return true
}

// step runs one stage unless the call was cancelled, and turns its error into
// the result.
func (p *Pipeline) step(ctx context.Context, c *tool.Call, s stage) bool {
	start := time.Now()
	err := context.Cause(ctx)
	if err == nil {
		err = p.contain(func() error { return s.run(ctx, c) })
	}
	p.Meter.Stage(s.name, time.Since(start))
	if err == nil {
		return true
	}
	if ctx.Err() != nil {
		err = cancelled(ctx, err)
	}
	fail(c, s.name, err)
	return false
}

// cancelled is the error of a call that was cancelled: why, and what the tool says of what was
// done until then.
func cancelled(ctx context.Context, err error) error {
	why := &tool.Error{Code: "cancelled", Msg: "the call was cancelled: " + context.Cause(ctx).Error()}
	if own, ok := errors.AsType[*tool.Error](err); ok && own.Code == why.Code {
		why.Msg += "; " + own.Msg
	}
	return why
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
	c.Session = s
	if p.DiskRoom != nil {
		if err := p.DiskRoom(c); err != nil {
			return err
		}
	}
	if c.Request.Dir != "" {
		c.Session.Dir = c.Request.Dir
	}
	// Before the workspace is checked: if a person takes it back now, CancelIn finds this call.
	p.running.in(c.ID, c.Session.Dir)
	if err := p.find(c); err != nil {
		return err
	}
	return memoryRoom(ctx, c)
}

// find fills where a call works, and what its tool says of itself. The session is known.
func (o Options) find(c *tool.Call) error {
	t, err := o.tool(c)
	if err != nil {
		return err
	}
	if c.Workspace, err = o.Workspaces.Of(c.Session.Dir); err != nil {
		return err
	}
	c.Tool, c.Spec = t, o.Tools.Spec(t)
	c.In.SessionMade = c.Session.Created
	c.In.Dir, c.In.Home, c.In.Roots = c.Session.Dir, cmp.Or(c.Request.Home, c.Session.Home), c.Workspace.Roots
	c.Result.Tool = c.Spec.Name
	return nil
}

func (o Options) tool(c *tool.Call) (tool.Tool, error) {
	if c.Request.Outside || c.Request.Own != nil {
		if !c.Session.May(c.Request.Tool) {
			return nil, catalog.NotGiven(c.Request.Tool)
		}
		if !c.Session.Lets(c.Request.Tool) {
			return nil, c.Session.SkillRestricted(c.Request.Tool, nil)
		}
		if c.Request.Own != nil {
			return c.Request.Own, nil
		}
		return outsideTool(c.Request.Tool)
	}
	return o.Tools.Lookup(c.Session, c.Request.Tool)
}

func (p *Pipeline) resolve(ctx context.Context, c *tool.Call) (err error) {
	if len(c.In.Args) == 0 {
		c.In.Args = json.RawMessage("{}")
	}
	c.In.Args, c.Origins, err = p.Vars.Resolve(ctx, c.Session.ID, c.In.Args)
	if s := c.Request.Scheduled; s != nil {
		for field, found := range c.Origins.Args {
			c.Origins.Args[field] = append(found, missing(s.By, found)...)
		}
	}
	c.In.Origins = c.Origins
	return err
}

// missing returns those that are not among them.
func missing(wanted, among []tool.Origin) (left []tool.Origin) {
	for _, o := range wanted {
		if !slices.Contains(among, o) {
			left = append(left, o)
		}
	}
	return left
}

func (p *Pipeline) before(ctx context.Context, c *tool.Call) error {
	saw := c.In.Args
	advice, err := p.Hooks.Before(ctx, c)
	if err != nil {
		return err
	}
	// After Before, in which a hook may say something of the tool.
	if advice.Basis, err = p.Hooks.Basis(ctx, c); err != nil {
		return err
	}
	advice.Saw = saw
	c.Advice = advice
	c.Result.SystemMessages = advice.Messages
	if advice.Block {
		return &tool.Error{Code: "hook_blocked", Msg: cmp.Or(advice.Reason, "Tool execution blocked by hook")}
	}
	if advice.Args != nil {
		c.In.Args = advice.Args
	}
	return nil
}

// beforeAgain asks the hooks again after a wait, if they are others than those that advised. They see the arguments
// that those saw, so that a hook which rewrites does not rewrite twice.
func (p *Pipeline) beforeAgain(ctx context.Context, c *tool.Call) error {
	basis, err := p.Hooks.Basis(ctx, c)
	if err != nil || basis == c.Advice.Basis {
		return err
	}
	c.In.Args = c.Advice.Saw
	return p.before(ctx, c)
}

func (p *Pipeline) begin(ctx context.Context, c *tool.Call) error {
	if err := p.Record.Begin(ctx, c); err != nil {
		return &tool.Error{
			Code: "record_failed", Msg: "the call was not run, for it cannot be recorded: " + err.Error(),
			Hint: "the operator finds the cause in the daemon's log and in sandboxd audit verify",
		}
	}
	c.In.Emit(tool.Progress{Began: &tool.Began{CallID: c.ID, Tool: c.Spec.Name}})
	if p.mayWithhold(c) {
		c.In.Emit = quiet(c.In.Emit)
	}
	return nil
}

// mayWithhold reports whether a hook or a person may withhold what the call returns. Then
// nobody hears of its output before they have seen it.
func (p *Pipeline) mayWithhold(c *tool.Call) bool {
	return c.Spec.Results != "" && c.Spec.Results != tool.ResultNever || p.Hooks.Posts()
}

// quiet passes on everything but output.
func quiet(emit func(tool.Progress)) func(tool.Progress) {
	return func(p tool.Progress) {
		if p.Stream == "" {
			emit(p)
		}
	}
}

func (p *Pipeline) format(ctx context.Context, c *tool.Call) error {
	defer budget.Of(ctx).Compute(ctx)()
	r := &c.Result
	r.Status = tool.StatusSuccess
	r.Data, r.Content = c.Output.Data, c.Output.Content
	r.FormattedText = tool.Format(c.Tool, c.Output, c.In.Args)
	if notes := refusedConnections(c); notes != "" && !succeeded(c) {
		r.FormattedText = strings.TrimRight(r.FormattedText, "\n") + "\n" + notes
	}
	r.FinalText, r.Truncated = tool.Truncate(c.Tool, c.Spec, r.FormattedText, c.In.Args)
	return nil
}

// pending reports whether a hook or a person may still withhold the result.
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
		err = &tool.Error{Code: "result_withheld", Msg: cmp.Or(advice.Reason, "the result was withheld by a hook")}
	}
	if err != nil {
		return p.withhold(ctx, c, err)
	}
	c.Result.SystemMessages = append(c.Result.SystemMessages, advice.Messages...)
	if asksForResult(c) {
		resume := tool.YieldSlot(ctx)
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
		withheld := &tool.Error{
			Code: "record_failed", Msg: "the result is withheld, for it cannot be recorded: " + err.Error(),
		}
		fail(c, "end", p.withhold(ctx, c, withheld))
		finish(c)
	}
	if p.Decisions != nil {
		p.Decisions.Judged(ctx, c)
	}
	if !c.Request.Lease || c.Result.Status != tool.StatusSuccess { // a lease is counted when it ends
		p.Meter.Done(c)
	}
}
