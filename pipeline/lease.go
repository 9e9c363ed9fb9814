package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// leaseFor is how long a client may wait between the judgement of a call and its start. A person's answer that comes
// too late stays usable for the same time.
const leaseFor = 10 * time.Minute

// maxLeases bounds the calls of one account that were judged and have not started.
const maxLeases = 1000

// leases keeps the calls that clients run. Such a call is judged, and allowed by a
// person where one was asked, before there is a lease; the client may then start it
// once. A reload keeps all leases; a restart forgets them, and the calls are judged
// anew.
type leases struct {
	mu      sync.Mutex         // guards what follows
	offered map[string]offered // judged, not started
	started map[string]started
}

type offered struct {
	*tool.Call
	until time.Time
	hold  *budget.Hold
}

type started struct {
	runsAs      string
	ended       chan LeaseEnd // is buffered and receives once
	connections *connections
}

func newLeases() *leases {
	return &leases{offered: map[string]offered{}, started: map[string]started{}}
}

// offer keeps a call that may run for one [Pipeline.Lease].
func (p *Pipeline) offer(ctx context.Context, c *tool.Call) error {
	if c.Decision.Verdict != tool.Allow && (c.Approval == nil || !c.Approval.Approved) {
		return nil // nobody was asked yet
	}
	if _, ok := c.Tool.(tool.Program); !ok {
		return &tool.Error{Code: "not_a_program", Msg: "a call of " + c.Spec.Name + " cannot be run by another program"}
	}
	if c.Spec.Results != "" && c.Spec.Results != tool.ResultNever {
		return &tool.Error{
			Code: "result_not_held_back",
			Msg: "a person must see the results of " + c.Spec.Name +
				" first, and another program would show them at once",
		}
	}
	hold, err := roomToWait(ctx, c)
	if err != nil {
		return err
	}
	if err := p.leases.add(c, hold); err != nil {
		hold.Release()
		return err
	}
	time.AfterFunc(leaseFor, func() { p.leases.drop(c.ID) })
	return nil
}

func (l *leases) add(c *tool.Call, hold *budget.Hold) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := 0
	for _, o := range l.offered {
		if o.Request.Account == c.Request.Account {
			mine++
		}
	}
	if mine >= maxLeases {
		return &tool.Error{
			Code: "too_many_held", Msg: fmt.Sprintf("%d calls of this account were judged and wait to be run", mine),
			Hint: "run them, or wait ten minutes",
		}
	}
	l.offered[c.ID] = offered{c, time.Now().Add(leaseFor), hold}
	return nil
}

// drop removes a call that the client did not start in time.
func (l *leases) drop(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o, ok := l.offered[id]; ok {
		delete(l.offered, id)
		o.hold.Release()
	}
}

// get returns a call of this account that can still be started. The caller holds mu.
func (l *leases) get(account, id string) (offered, bool) {
	o, ok := l.offered[id]
	return o, ok && o.Request.Account == account && o.until.After(time.Now())
}

// accept returns the call as get does, and removes it, so that only one caller can
// start it. It must have the rights that the call was judged for.
func (l *leases) accept(account, runsAs, id string) (*tool.Call, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok := l.get(account, id)
	if !ok || o.Request.RunsAs != runsAs {
		return nil, false
	}
	delete(l.offered, id)
	o.hold.Release() // the request that starts it takes its own
	return o.Call, true
}

func (l *leases) has(account, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.get(account, id)
	return ok
}

// start returns the channel that receives the end of the call.
func (l *leases) start(c *tool.Call, j *connections) <-chan LeaseEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := started{c.Request.RunsAs, make(chan LeaseEnd, 1), j}
	l.started[c.ID] = s
	return s.ended
}

func (l *leases) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.started, id)
}

// end passes on how a call with these rights ended, once; it reports whether somebody waits for it.
func (l *leases) end(runsAs, id string, e LeaseEnd) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.started[id]
	if !ok || s.runsAs != runsAs {
		return false
	}
	delete(l.started, id)
	s.ended <- e
	return true
}

// running returns the call with this id and these rights that a client runs.
func (l *leases) running(runsAs, id string) (*connections, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.started[id]
	return s.connections, ok && s.runsAs == runsAs
}

// LeaseEnd is how a leased call ended, as the client that ran it says.
type LeaseEnd struct {
	Output  tool.Output
	Report  sandbox.Report
	Network egress.Ledger
	Err     error
}

// Lease runs an offered call at a client: start hands it out, [Pipeline.EndLease] reports
// the end, and emit gets events in between, unless it is nil. The call is judged again
// first. If the verdict is ask, and the question differs from the answered one, a person
// is asked again. The rest is as in [Pipeline.Do], except that nothing is remembered,
// because the output is not here.
//
// The error is a [*tool.Error] with the code call_not_held if the call is unknown, belongs to another account, was
// judged for other rights, has run, or is too old.
func (p *Pipeline) Lease(
	ctx context.Context, account, runsAs, id string, start func(*tool.Call) error, emit func(tool.Progress),
) (tool.Result, error) {
	was, ok := p.leases.accept(account, runsAs, id)
	if !ok {
		return tool.Result{}, NoLease(id)
	}
	if emit == nil {
		emit = func(tool.Progress) {}
	}
	req := was.Request
	req.DryRun, req.Lease, req.Emit = false, false, emit
	c := &tool.Call{
		ID: was.ID, NodeID: was.NodeID, Request: req, Started: time.Now(),
		In: was.In, Origins: was.Origins, Advice: was.Advice,
		Result: tool.Result{CallID: was.ID, NodeID: was.NodeID, Tool: req.Tool, ToolUseID: req.ToolUseID},
	}
	c.In.Emit = emit
	l := lease{p, was, start}
	return p.do(ctx, c, l.admission(), l).Result, nil
}

// EndLease says how a leased call of this account ended. Only a caller with the rights of its program
// (runsAs) may say so. It reports whether there is such a call. Only the first end counts.
func (p *Pipeline) EndLease(account, runsAs, id string, e LeaseEnd) bool {
	if state, ok := p.Call(account, id); !ok || !state.Running {
		return false
	}
	return p.leases.end(runsAs, id, e)
}

// ConnectLease judges a connection of a running lease of this account, like one of a call that
// runs here. It reports whether there is such a lease. If a connection is forbidden later, the
// client is told ([tool.Closed]) and ends it.
func (p *Pipeline) ConnectLease(ctx context.Context, account, runsAs, id string, conn egress.Connection) (
	egress.Verdict, bool,
) {
	if state, ok := p.Call(account, id); !ok || !state.Running {
		return egress.Verdict{}, false
	}
	j, ok := p.leases.running(runsAs, id)
	if !ok {
		return egress.Verdict{}, false
	}
	return j.judge(ctx, conn), true
}

// NoLease is the error of a call that no client can start.
func NoLease(id string) error {
	return &tool.Error{
		Code: "call_not_held", Stage: "lookup",
		Msg:  "call " + id + " cannot be started: it is unknown, was run already, or is older than ten minutes",
		Hint: "send the call again; it is judged anew",
	}
}

// lease is the executor of a call that a client runs.
type lease struct {
	p     *Pipeline
	was   *tool.Call // as it was judged and approved
	start func(*tool.Call) error
}

// admission admits the call once more. Its references were resolved and its hooks ran
// when it was offered; hooks that are new since then run now.
func (l lease) admission() []stage {
	return []stage{
		{"lookup", l.p.lookup},
		{"before", l.p.beforeAgain},
		{"judge", l.p.judge},
		{"approve", l.approve},
	}
}

// approve accepts the answer that was given before the offer, if the question is
// still the same.
func (l lease) approve(ctx context.Context, c *tool.Call) error {
	if a := l.was.Approval; c.Decision.Verdict == tool.Ask && a != nil && a.Approved && c.Digest == l.was.Digest &&
		!newlyAsks(c.Advice, l.was.Advice) {
		c.Approval = a
		return nil
	}
	return l.p.approve(ctx, c)
}

// Run hands the call out and waits for its end.
func (l lease) Run(ctx context.Context, c *tool.Call) error {
	j := newConnections(l.p, c)
	j.stale = make(chan struct{}, 1)
	l.p.running.connects(c.ID, j)
	defer l.p.running.connects(c.ID, nil)
	ended := l.p.leases.start(c, j)
	defer l.p.leases.forget(c.ID)
	if err := l.start(c); err != nil {
		return err
	}
	for {
		select {
		case <-j.stale:
			for _, conn := range j.takeClosed() {
				c.In.Emit(tool.Progress{Closed: &tool.Closed{Host: conn.Host, Port: conn.Port}})
			}
		case e := <-ended:
			c.Output, c.Report, c.Network = e.Output, e.Report, e.Network
			c.Report.Denials = append(c.Report.Denials, e.Output.Denials...)
			c.Changes.Undo = &tool.Undo{Why: "another program ran the command, and what it changed is not kept"}
			if e.Err != nil {
				return e.Err
			}
			return created(c.Report)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Remember does nothing: the output of the call went to the client.
func (lease) Remember(context.Context, *tool.Call) error { return nil }
