// Package budget bounds the memory, connections and requests that agents take of the daemon, and
// shares the processors among their accounts.
//
// There is one budget of bytes and connections for all accounts, and a limit of requests for each
// account. Code that works for an account takes bytes before it uses memory, and gives them back
// when the memory is free again:
//
//	b := budget.New(budget.Limits{Bytes: 64 << 20, Connections: 1000, Concurrent: 1000})
//	h, err := b.Request("team") // one more request; the error has a code and a hint
//	defer h.Release()           // gives back everything that h has taken
//	err = h.Take(8 << 20)       // before a body of 8 MiB is read
//
// When an account takes more, it may then have at most half of what the others leave. What it holds
// already stays when others come. So one account alone gets half of the limit, and a second one half
// of the rest. No single account can use everything up. With many busy accounts the share of the
// next one becomes small, and its request fails with agents_busy.
//
// Errors are *tool.Error. After one nothing more is held, and the work must not be done. With too_large
// it never can be; with account_busy, agents_busy, too_many_requests and rate_limited it may be later.
//
// [Hold.Take] fails at once; [Hold.Wait] waits: wait once, for all that is needed. [Hold.Part] is given
// back with h at the latest, [Hold.Keep] outlives h. Long work takes a turn of a processor:
//
//	done := h.Compute(ctx) // if ctx ends first, without a turn
//	defer done()
//
// Within a turn wait for nothing: not for a person, a process, Wait or another turn.
//
// A listener calls [Budget.Connect] for a connection, Begin and End of what it returns around each
// request, and Close. A connection without a request may be closed to make room for another one;
// then Begin returns false.
//
// What is taken travels with the context of the request ([With], [Of]). A nil [Hold] takes nothing
// and refuses nothing: operators and commands without a daemon have none.
//
// The package measures nothing. Callers say how much they take, so they must take the most that a
// step may need, before the step. Everything is safe for concurrent use.
package budget

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/time/rate"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Limits are how much there is; 0 is no bound.
type Limits struct {
	Bytes       int64 // of all accounts; one has at most half
	Connections int   // of all accounts; one has at most half
	PerSecond   int   // requests of one account; as many again may come at once
	Concurrent  int   // requests of one account under way, streams and waiting questions included
	Processors  int   // of which one account has half while there are others; 0 is those of the Go runtime
}

// Least is the smallest Limits.Bytes with which everything that is permitted can be done:
// half of it holds the largest request.
const Least = 64 << 20

// What a connection and a request cost before anybody says more: stacks, buffers, and what
// is kept of them. Measured with connections that send nothing, and with calls that wait.
const (
	connectionBytes = 24 << 10
	requestBytes    = 24 << 10
)

// Budget is what all accounts share.
type Budget struct {
	mu       sync.Mutex // guards what follows, accounts and holds included
	limits   Limits
	accounts map[string]*account
	bytes    int64
	conns    int
	requests int
	waiting  []*waiter // oldest first
	refused  [reasons]uint64
	compute  compute
}

// account is what one account has.
type account struct {
	name     string
	bytes    int64
	requests int
	conns    int
	idle     []*Conn // connections without a request, the one idle for longest first
	rate     *rate.Limiter
	turns    int // processors that it computes on
}

// New returns an empty budget.
func New(l Limits) *Budget { return &Budget{limits: l, accounts: map[string]*account{}} }

// Limit puts other limits in force. What is held stays.
func (b *Budget) Limit(l Limits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits = l
	b.serve()
}

// Request admits one more request of an account, or says why not.
func (b *Budget) Request(name string) (*Hold, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(name)
	if n := b.limits.Concurrent; n > 0 && a.requests >= n {
		b.refused[byRequests]++
		return nil, &tool.Error{
			Code: "too_many_requests", Hint: "limits are set by api.concurrent",
			Msg: fmt.Sprintf("%d requests of account %s are under way, %d at most", a.requests, name, n),
		}
	}
	if err := b.perSecond(a); err != nil {
		return nil, err
	}
	h := &Hold{b: b, a: a, request: true}
	if err := b.take(h, requestBytes); err != nil {
		return nil, err
	}
	a.requests++
	b.requests++
	b.compute.came(name)
	return h, nil
}

func (b *Budget) perSecond(a *account) error {
	n := b.limits.PerSecond
	if n <= 0 {
		return nil
	}
	if a.rate == nil || a.rate.Limit() != rate.Limit(n) {
		a.rate = rate.NewLimiter(rate.Limit(n), n)
	}
	again := a.rate.Reserve()
	if again.Delay() <= 0 {
		return nil
	}
	wait := again.Delay()
	again.Cancel()
	b.refused[byRate]++
	return &tool.Error{
		Code: "rate_limited", Hint: "limits are set by api.perSecond",
		Msg: fmt.Sprintf("account %s sends more than %d requests a second; come again in %v", a.name, n, wait),
	}
}

// account returns the account of this name. Whoever holds b.mu calls it.
func (b *Budget) account(name string) *account {
	a := b.accounts[name]
	if a == nil {
		a = &account{name: name}
		b.accounts[name] = a
	}
	return a
}

// drop forgets an account that has nothing any more; there are as many as uids.
func (b *Budget) drop(a *account) {
	full := a.rate == nil || a.rate.Tokens() >= float64(a.rate.Burst())
	if a.bytes == 0 && a.requests == 0 && a.conns == 0 && full && b.accounts[a.name] == a {
		delete(b.accounts, a.name)
	}
}

// share returns the most bytes that the account may hold now: half of what others leave.
func (b *Budget) share(a *account) int64 {
	if b.limits.Bytes <= 0 {
		return math.MaxInt64
	}
	return max(0, b.limits.Bytes-(b.bytes-a.bytes)) / 2
}

// fits gives n bytes to a hold, if they are there.
func (b *Budget) fits(h *Hold, n int64) bool {
	a := h.a
	if h.released {
		return true // nobody would give them back
	}
	if n > b.share(a)-a.bytes {
		return false
	}
	h.bytes += n
	a.bytes += n
	b.bytes += n
	return true
}

// never reports whether a hold can not have n bytes more, however long it waits.
func (b *Budget) never(h *Hold, n int64) bool { return h.bytes+n > b.limits.Bytes/2-connectionBytes }

// take gives n bytes to a hold, or says why not.
func (b *Budget) take(h *Hold, n int64) error {
	if b.fits(h, n) {
		return nil
	}
	b.refused[byBytes]++
	a, half := h.a, b.limits.Bytes/2
	const hint = "wait until other requests have ended, or have an operator raise limits.agentBytes"
	switch {
	case b.never(h, n):
		return &tool.Error{
			Code: "too_large", Hint: "do it in parts, or have an operator raise limits.agentBytes",
			Msg: fmt.Sprintf("the request needs %d bytes of memory, and one account has %d", h.bytes+n, half),
		}
	case a.bytes+n > half:
		return &tool.Error{
			Code: "account_busy", Hint: hint,
			Msg: fmt.Sprintf("the requests of account %s hold %d bytes of memory, and %d more are needed: %d at most",
				a.name, a.bytes, n, half),
		}
	}
	return &tool.Error{
		Code: "agents_busy", Hint: hint,
		Msg: fmt.Sprintf("the requests of all agents hold %d bytes of memory, which leaves too little for %d more",
			b.bytes, n),
	}
}

// give takes n bytes back from a hold.
func (b *Budget) give(h *Hold, n int64) {
	h.bytes -= n
	h.a.bytes -= n
	b.bytes -= n
}

// waiter is somebody who waits for bytes.
type waiter struct {
	h     *Hold
	n     int64
	ready chan struct{} // closed when it has them
}

// serve gives bytes to those who wait for them, in the order in which they came: of one
// account nobody overtakes another.
func (b *Budget) serve() {
	behind := map[*account]bool{}
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		if behind[w.h.a] || !b.fits(w.h, w.n) {
			behind[w.h.a] = true
			return false
		}
		close(w.ready)
		return true
	})
}

// Hold is what one request has taken. The zero value of a pointer takes nothing.
type Hold struct {
	b        *Budget
	a        *account
	bytes    int64
	request  bool // counts as one of the requests under way
	released bool
	parts    map[*Hold]bool // released with it
	whole    *Hold          // nil, or what it is a part of
}

// Take takes n bytes, or says why that cannot be: `too_large` when it never can,
// `account_busy` and `agents_busy` when it may later.
func (h *Hold) Take(n int64) error {
	if h == nil {
		return nil
	}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	return h.b.take(h, n)
}

// Wait is Take that waits until the bytes are there. When ctx ends first it is Take. Whoever waits while
// it holds much can keep others waiting: take all that is needed in one step.
func (h *Hold) Wait(ctx context.Context, n int64) error {
	if h == nil {
		return nil
	}
	w, err := h.queue(n)
	if w == nil {
		return err
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b := h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		b.serve() // those behind it may fit
		return b.take(h, n)
	}
	return nil // it came at the same moment
}

// queue takes n bytes, or says that it never can, or returns who waits for them.
func (h *Hold) queue(n int64) (*waiter, error) {
	b := h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &waiter{h: h, n: n, ready: make(chan struct{})}
	if b.waiting = append(b.waiting, w); !b.never(h, n) { // behind those of its account
		b.serve()
		if !slices.Contains(b.waiting, w) {
			return nil, nil
		}
		return w, nil
	}
	b.waiting = b.waiting[:len(b.waiting)-1]
	return nil, b.take(h, n)
}

// Give gives n bytes back before Release.
func (h *Hold) Give(n int64) {
	if h == nil || n == 0 {
		return
	}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	h.b.give(h, min(n, h.bytes))
	h.b.serve()
}

// Shrink gives back what is held beyond n bytes.
func (h *Hold) Shrink(n int64) {
	if h == nil {
		return
	}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	if h.bytes > n {
		h.b.give(h, h.bytes-n)
		h.b.serve()
	}
}

// Part returns a hold of the same account that may be released before h is, and is released
// with h at the latest.
func (h *Hold) Part() *Hold {
	if h == nil {
		return nil
	}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	p := &Hold{b: h.b, a: h.a, whole: h, released: h.released}
	if !h.released {
		if h.parts == nil {
			h.parts = map[*Hold]bool{}
		}
		h.parts[p] = true
	}
	return p
}

// Keep returns a hold of n bytes of the same account that outlives h: for what is kept when
// the request has ended.
func (h *Hold) Keep(n int64) (*Hold, error) {
	if h == nil {
		return nil, nil
	}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	k := &Hold{b: h.b, a: h.a}
	if err := h.b.take(k, n); err != nil {
		return nil, err
	}
	return k, nil
}

// Release gives everything back. It may be called more than once.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	h.b.release(h)
	if h.whole != nil {
		delete(h.whole.parts, h)
	}
	h.b.drop(h.a)
	h.b.serve()
}

func (b *Budget) release(h *Hold) {
	for p := range h.parts {
		b.release(p)
	}
	b.give(h, h.bytes)
	h.released, h.parts = true, nil
	if h.request {
		h.request = false
		h.a.requests--
		b.requests--
	}
}

type holdKey struct{}

// With returns ctx with what its request has taken.
func With(ctx context.Context, h *Hold) context.Context { return context.WithValue(ctx, holdKey{}, h) }

// Of returns the hold of a request; nil without one.
func Of(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// Account returns the account of a request; "" without one.
func Account(ctx context.Context) string {
	if h := Of(ctx); h != nil {
		return h.a.name
	}
	return ""
}
