package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// heldFor is how long a call that was judged for another program can be run, as
// long as a late answer of a person stays usable.
const heldFor = 10 * time.Minute

// maxHeld bounds the calls that one account has judged and not run.
const maxHeld = 1000

// held keeps calls that were judged, and allowed by a person where one was asked,
// for a program that starts them itself. It outlives a reload; after a restart
// nothing is held, so such a call is judged anew.
type held struct {
	mu    sync.Mutex // guards what follows
	calls map[string]heldCall
	lent  map[string]chan Ended // each is buffered and receives once
}

type heldCall struct {
	*tool.Call
	until time.Time
}

func newHeld() *held { return &held{calls: map[string]heldCall{}, lent: map[string]chan Ended{}} }

// hold keeps a judged call for one [Pipeline.Lend].
func (p *Pipeline) hold(_ context.Context, c *tool.Call) error {
	if _, ok := c.Tool.(tool.Program); !ok {
		return &tool.Error{Code: "not_a_program", Msg: "a call of " + c.Spec.Name + " cannot be run by another program"}
	}
	if c.Spec.Results != "" && c.Spec.Results != tool.ResultNever {
		return &tool.Error{Code: "result_not_held_back", Msg: "a person must see the results of " + c.Spec.Name + " first, and another program would show them at once"}
	}
	h, now := p.held, time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := 0
	for id, o := range h.calls {
		switch {
		case !o.until.After(now):
			delete(h.calls, id)
		case o.Request.Account == c.Request.Account:
			mine++
		}
	}
	if mine >= maxHeld {
		return &tool.Error{Code: "too_many_held", Msg: fmt.Sprintf("%d calls of this account were judged and wait to be run", mine), Hint: "run them, or wait ten minutes"}
	}
	h.calls[c.ID] = heldCall{c, now.Add(heldFor)}
	return nil
}

// take gives a held call out, once.
func (h *held) take(account, id string) (*tool.Call, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.calls[id]
	if !ok || c.Request.Account != account || !c.until.After(time.Now()) {
		return nil, false
	}
	delete(h.calls, id)
	return c.Call, true
}

func (h *held) has(account, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.calls[id]
	return ok && c.Request.Account == account && c.until.After(time.Now())
}

// Ended is how a call that was lent ended, as whoever ran it says.
type Ended struct {
	Output tool.Output
	Report sandbox.Report
	Err    error
}

// Lend runs a held call by another program: start hands it out, and
// [Pipeline.Ended] tells the end. It is judged again first; where that asks and
// what it was allowed for has changed, a person is asked again. The rest is as in
// [Pipeline.Do], but that nothing is remembered, for the output is not here.
//
// A call of another account, an unknown one, one that was run or is too old is a
// [*tool.Error] with the code call_not_held.
func (p *Pipeline) Lend(ctx context.Context, account, id string, start func(*tool.Call) error) (tool.Result, error) {
	was, ok := p.held.take(account, id)
	if !ok {
		return tool.Result{}, NotHeld(id)
	}
	c := &tool.Call{
		ID: was.ID, NodeID: was.NodeID, Request: was.Request, Started: time.Now(),
		In: was.In, Origins: was.Origins, Advice: was.Advice,
		Result: tool.Result{CallID: was.ID, NodeID: was.NodeID, Tool: was.Request.Tool, ToolUseID: was.Request.ToolUseID},
	}
	c.Request.DryRun, c.Request.Hold = false, false
	return p.do(ctx, c, &loan{p, was, start}).Result, nil
}

// loan is a held call on its way to the program that runs it.
type loan struct {
	p     *Pipeline
	was   *tool.Call // as it was judged and approved
	start func(*tool.Call) error
}

// approve takes the answer that was given when the call was held, where it is to
// the question of now.
func (l *loan) approve(ctx context.Context, c *tool.Call) error {
	if a := l.was.Approval; c.Decision.Verdict == tool.Ask && a != nil && a.Approved && c.Digest == l.was.Digest {
		c.Approval = a
		return nil
	}
	return l.p.approve(ctx, c)
}

// run hands the call out and waits for its end.
func (l *loan) run(ctx context.Context, c *tool.Call) error {
	h := l.p.held
	ended := h.expect(c.ID)
	defer h.forget(c.ID)
	if err := l.start(c); err != nil {
		return err
	}
	select {
	case e := <-ended:
		c.Output, c.Report = e.Output, e.Report
		c.Report.Denials = append(c.Report.Denials, e.Output.Denials...)
		if e.Err != nil {
			return e.Err
		}
		return created(c.Report)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *held) expect(id string) <-chan Ended {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lent[id] = make(chan Ended, 1)
	return h.lent[id]
}

func (h *held) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lent, id)
}

// Ended tells how a call of this account that was lent ended; it reports whether
// there is such a call. Only the first is heard.
func (p *Pipeline) Ended(account, id string, e Ended) bool {
	if state, ok := p.Call(account, id); !ok || !state.Running {
		return false
	}
	h := p.held
	h.mu.Lock()
	defer h.mu.Unlock()
	ended, ok := h.lent[id]
	if !ok {
		return false
	}
	delete(h.lent, id)
	ended <- e
	return true
}

// NotHeld is the error of a call that cannot be lent.
func NotHeld(id string) error {
	return &tool.Error{
		Code: "call_not_held", Stage: "lookup", Msg: "call " + id + " is not held: it is unknown, was run already, or is older than ten minutes",
		Hint: "send the call again; it is judged anew",
	}
}
