package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/tool"
)

// keptResults is how many finished calls can still be asked for by id.
const keptResults = 256

var errCancelled = errors.New("somebody cancelled it")

// running knows the calls under way, and the last ones that ended.
type running struct {
	mu    sync.Mutex // guards what follows
	calls map[string]*entry
	ended []string // ids, oldest first
}

type entry struct {
	account, session string
	cancel           context.CancelCauseFunc
	result           *tool.Result // nil while it runs
}

// State is what is known of a call by its id.
type State struct {
	CallID    string       `json:"call_id"`
	SessionID string       `json:"session_id"`
	Running   bool         `json:"running"`
	Held      bool         `json:"held,omitempty"` // judged for another program, which has not run it yet
	Result    *tool.Result `json:"result,omitempty"`
}

func (r *running) enter(ctx context.Context, c *tool.Call) (context.Context, func(*tool.Call)) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls[c.ID] != nil { // it was held; as a call that runs it must not be dropped with the old ones
		r.ended = slices.DeleteFunc(r.ended, func(id string) bool { return id == c.ID })
	}
	r.calls[c.ID] = &entry{account: c.Request.Account, session: c.Request.Session, cancel: cancel}
	return ctx, r.leave
}

func (r *running) leave(c *tool.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.calls[c.ID]
	e.cancel(nil)
	res := c.Result
	res.Data = nil // the text is enough, and data may be large
	e.result = &res
	r.ended = append(r.ended, c.ID)
	if len(r.ended) > keptResults {
		delete(r.calls, r.ended[0])
		r.ended = r.ended[1:]
	}
}

// Call answers for a call of this account that runs, or ended lately.
func (p *Pipeline) Call(account, id string) (State, bool) {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	e, ok := p.running.calls[id]
	if !ok || e.account != account {
		return State{}, false
	}
	return State{CallID: id, SessionID: e.session, Running: e.result == nil, Held: p.held.has(account, id), Result: e.result}, true
}

// Calls lists the calls of this account that run now.
func (p *Pipeline) Calls(account string) []State {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	out := []State{}
	for id, e := range p.running.calls {
		if e.account == account && e.result == nil {
			out = append(out, State{CallID: id, SessionID: e.session, Running: true})
		}
	}
	slices.SortFunc(out, func(a, b State) int { return strings.Compare(a.CallID, b.CallID) })
	return out
}

// Cancel ends a call of this account; it reports whether there is such a call.
func (p *Pipeline) Cancel(account, id string) bool {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	e, ok := p.running.calls[id]
	if !ok || e.account != account {
		return false
	}
	e.cancel(errCancelled)
	return true
}

// CancelAll ends every call of every account, and says how many.
func (p *Pipeline) CancelAll(why error) int {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	n := 0
	for _, e := range p.running.calls {
		if e.result == nil {
			e.cancel(why)
			n++
		}
	}
	return n
}

// DoAll runs a batch: read-only calls side by side, then the others in order.
func (p *Pipeline) DoAll(ctx context.Context, session tool.Session, reqs []tool.Request) []tool.Result {
	readOnly := func(r tool.Request) bool {
		t, err := p.Tools.Lookup(session, r.Tool)
		return err == nil && t.Spec().ReadOnly
	}
	return tool.Batch(ctx, reqs, readOnly, p.Do)
}
