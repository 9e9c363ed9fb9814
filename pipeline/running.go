package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/internal/output"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// keptResults is how many finished calls can still be asked for by id, and keptBytes how
// much memory they may take.
const (
	keptResults = 256
	keptBytes   = 4 << 20
)

// shownArgs is how large arguments may be that are told of a call while it runs.
const shownArgs = 8 << 10

var errCancelled = errors.New("somebody cancelled it")

// running knows the calls under way, and the last ones that ended. All request
// paths of one daemon share it.
type running struct {
	mu     sync.Mutex // guards what follows
	calls  map[string]*entry
	ended  []string  // ids, oldest first
	size   int64     // bytes of the results of these
	newest *Pipeline // the path of new calls
	bound  int64     // bytes of the files that are bound for calls
}

type entry struct {
	account, session string
	dir              string // of the session; "" before it is looked up
	user             sandbox.User
	cancel           context.CancelCauseFunc
	job              *job         // nil before it goes on without its caller
	connections      *connections // while programs of it run here
	result           *tool.Result // nil while it runs
	log              *output.Log  // of the client that made the call; nil: it does not follow it
	// live is a log for others, of what a call says from a moment on. It is made when somebody wants it, where
	// log is nil or has no output.
	live     atomic.Pointer[output.Log]
	noOutput bool // log has none
	tool     string
	args     json.RawMessage // as they were sent; nil when it has ended, or where they are large
	size     int64           // bytes of the result and the log, when it has ended
	ended    chan struct{}
}

// State is what is known of a call by its id.
type State struct {
	CallID    string `json:"call_id"`
	SessionID string `json:"session_id"`
	Running   bool   `json:"running"`
	Tool      string `json:"tool,omitempty"`
	// Args are those that were sent, of a call that runs, unless they are large.
	Args   json.RawMessage `json:"args,omitempty"`
	Leased bool            `json:"held,omitempty"` // a client can start it
	Result *tool.Result    `json:"result,omitempty"`
}

func (e *entry) state(id string) State {
	return State{CallID: id, SessionID: e.session, Running: e.result == nil, Tool: e.tool, Args: e.args}
}

func (r *running) succeed(p *Pipeline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = p
}

func (r *running) inForce() *Pipeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// user returns whose rights a call has. Of one that is not known it is nobody.
func (r *running) user(id string) sandbox.User {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.calls[id]; e != nil {
		return e.user
	}
	return sandbox.User{}
}

func (r *running) enter(ctx context.Context, c *tool.Call) (context.Context, func(*tool.Call)) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.Request.Log != nil {
		c.Request.Log.Of(c.ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls[c.ID] != nil { // judged for a client before, runs now: it must not be dropped with those that ended
		r.forget(c.ID)
	}
	e := &entry{
		account: c.Request.Account, session: c.Request.Session, user: c.Request.User, cancel: cancel,
		log: c.Request.Log, noOutput: c.Request.NoOutput, tool: c.Request.Tool, ended: make(chan struct{}),
	}
	if len(c.Request.Args) <= shownArgs && json.Valid(c.Request.Args) {
		e.args = c.Request.Args
	}
	if e.log == nil || c.Request.NoOutput {
		emit := c.In.Emit
		c.In.Emit = func(p tool.Progress) {
			emit(p)
			if l := e.live.Load(); l != nil {
				tool.Tell(l)(p)
			}
		}
	}
	r.calls[c.ID] = e
	return ctx, r.leave
}

// in notes the directory of a call. One that is only judged again has no entry.
func (r *running) in(id, dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.calls[id]; e != nil {
		e.dir = dir
	}
}

func (r *running) leave(c *tool.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.calls[c.ID]
	e.cancel(nil)
	// It holds the context of the call, and with that what the policies saw: megabytes for a long line.
	e.cancel = func(error) {}
	e.job, e.args = nil, nil
	res := c.Result
	res.Data, res.Content = nil, nil // the text is enough, and these may be large
	if res.VarResult != "" {
		res.FormattedText = "" // it is in the variable
	}
	e.result = &res
	e.size = heldBy(&res)
	if l := e.live.Load(); l != nil {
		l.Close()
	}
	if e.log != nil {
		e.log.Close()
		e.size += int64(e.log.Size())
	}
	close(e.ended)
	r.ended = append(r.ended, c.ID)
	r.size += e.size
	for len(r.ended) > 1 && (len(r.ended) > keptResults || r.size > keptBytes) {
		r.forget(r.ended[0])
	}
}

// forget drops a call that has ended. The caller holds mu.
func (r *running) forget(id string) {
	r.size -= r.calls[id].size
	delete(r.calls, id)
	r.ended = slices.DeleteFunc(r.ended, func(x string) bool { return x == id })
}

// Call answers for a call of this account that runs, or ended lately.
func (p *Pipeline) Call(account, id string) (State, bool) {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	e, ok := p.running.calls[id]
	if !ok || e.account != account {
		return State{}, false
	}
	s := e.state(id)
	s.Result = e.result
	s.Leased = p.leases.has(account, id)
	return s, true
}

// detach says that a call goes on when it has been answered, and what cancels it.
func (r *running) detach(id string, cancel context.CancelCauseFunc, j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.calls[id]
	if l := e.live.Load(); l != nil {
		l.Close()
	}
	e.cancel, e.log, e.job = cancel, nil, j // its client has the log
}

// jobs returns the calls that go on without their callers.
func (r *running) jobs() (all []*job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.calls {
		if e.job != nil {
			all = append(all, e.job)
		}
	}
	return all
}

// Follow returns the log of a call of this account, if there is one, and a channel that is
// closed when the call has ended. While the call runs there is always a log, with what it says from now on if nobody
// wanted more: most is how many bytes such a one keeps. It is gone when the call has ended.
func (p *Pipeline) Follow(account, id string, most int) (log *output.Log, ended <-chan struct{}, ok bool) {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	e, ok := p.running.calls[id]
	if !ok || e.account != account {
		return nil, nil, false
	}
	runs := e.result == nil && e.job == nil // a job has its own routes
	if !runs || e.log != nil && !e.noOutput {
		return e.log, e.ended, true
	}
	if e.live.Load() == nil {
		l := output.NewLog(most)
		l.Of(id)
		e.live.Store(l)
	}
	return e.live.Load(), e.ended, true
}

// Answered says that the caller has the whole log of a call. So the log is not needed any more.
func (p *Pipeline) Answered(id string) {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	if e := p.running.calls[id]; e != nil && e.result != nil && e.log != nil {
		held := heldBy(e.result)
		p.running.size += held - e.size
		e.log, e.size = nil, held
	}
}

// Owner returns the account of a call that runs, or ended lately.
func (p *Pipeline) Owner(id string) (account string, ok bool) {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	e, ok := p.running.calls[id]
	if !ok {
		return "", false
	}
	return e.account, true
}

// Calls lists the calls of this account that run now.
func (p *Pipeline) Calls(account string) []State {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	out := []State{}
	for id, e := range p.running.calls {
		if e.account == account && e.result == nil {
			out = append(out, e.state(id))
		}
	}
	slices.SortFunc(out, func(a, b State) int { return strings.Compare(a.CallID, b.CallID) })
	return out
}

// Running says how many calls of all accounts run.
func (p *Pipeline) Running() int {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	return len(p.running.calls) - len(p.running.ended)
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
	return p.cancel(why, func(*entry) bool { return true })
}

// CancelIn ends every call of a session in a directory for which gone holds, and says how
// many. A call that has not looked for its workspace yet is told there.
func (p *Pipeline) CancelIn(gone func(dir string) bool, why error) int {
	return p.cancel(why, func(e *entry) bool { return e.dir != "" && gone(e.dir) })
}

func (p *Pipeline) cancel(why error, which func(*entry) bool) int {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	n := 0
	for _, e := range p.running.calls {
		if e.result == nil && which(e) {
			e.cancel(why)
			n++
		}
	}
	return n
}
