package budget

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"
)

// aloneAfter is how long nobody else must have sent a request until an account may compute on all
// processors. Whoever makes one call after the other is between two of them for less.
const aloneAfter = time.Second

// compute is who waits for a processor, and which accounts came last.
type compute struct {
	waiting []*computer // oldest first
	last    visit       // the last request
	before  visit       // the last one of another account than that
}

type visit struct {
	account string
	at      time.Time
}

type computer struct {
	a     *account
	ready chan struct{} // closed when it has a turn
}

// came notes a request. Whoever holds Budget.mu calls it.
func (c *compute) came(account string) {
	if c.last.account != account {
		c.before = c.last
	}
	c.last = visit{account, time.Now()}
}

// processors is on how many an account may compute now: on half of them while there are others, so
// that these always find one. Whoever holds b.mu calls it.
func (b *Budget) processors(a *account) int {
	other := b.compute.last
	if other.account == a.name {
		other = b.compute.before
	}
	n := cmp.Or(b.limits.Processors, runtime.GOMAXPROCS(0))
	if b.requests > a.requests || !other.at.IsZero() && time.Since(other.at) < aloneAfter {
		n = max(1, n/2)
	}
	return n
}

// Compute waits for a turn to use a processor, and returns what ends it. While other accounts send
// requests, one account has half of the processors at most. Whoever has a turn waits for nothing in
// it: not for a process, a person, a reader or another turn. When ctx ends first there is no turn, as
// the work is over then.
func (h *Hold) Compute(ctx context.Context) (done func()) { return h.computeAt(ctx, false) }

// ComputeNext is Compute before all others of the account that wait: for work after which the hold is given back, or
// for which others wait.
func (h *Hold) ComputeNext(ctx context.Context) (done func()) { return h.computeAt(ctx, true) }

func (h *Hold) computeAt(ctx context.Context, first bool) (done func()) {
	if h == nil {
		return func() {}
	}
	b := h.b
	w := &computer{a: h.a, ready: make(chan struct{})}
	at := 0
	b.mu.Lock()
	if !first {
		at = len(b.compute.waiting) // behind those of its account
	}
	b.compute.waiting = slices.Insert(b.compute.waiting, at, w)
	b.turn()
	b.mu.Unlock()
	done = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		w.a.turns--
		b.turn()
	}
	select {
	case <-w.ready:
		return done
	default:
	}
	select {
	case <-w.ready:
		return done
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.compute.waiting, w); i >= 0 {
		b.compute.waiting = slices.Delete(b.compute.waiting, i, i+1)
		return func() {}
	}
	return done // it came at the same moment
}

// turn lets those compute who may. Whoever holds b.mu calls it.
func (b *Budget) turn() {
	b.compute.waiting = slices.DeleteFunc(b.compute.waiting, func(w *computer) bool {
		if w.a.turns >= b.processors(w.a) {
			return false
		}
		w.a.turns++
		close(w.ready)
		return true
	})
}
