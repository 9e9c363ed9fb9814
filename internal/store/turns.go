package store

import (
	"context"
	"slices"
	"sync"
)

// ShareBy makes accounts take turns: if several wait to write, each gets its turn, however much one of them writes.
// account returns the account that asked for the work of a context, "" for the daemon itself and for operators. It
// is called before the database is used.
func (db *DB) ShareBy(account func(context.Context) string) { db.turns.account = account }

// turns lets one writer after the other write: accounts take turns, and the writers of one account go in the order
// in which they came.
type turns struct {
	account func(context.Context) string // nil: all writers are one account
	mu      sync.Mutex
	taken   bool
	last    string    // the account that has the turn, or had it last
	waiting []waiting // accounts with waiting writers; the first has waited longest
}

// waiting are the waiting writers of an account. The channel of a writer is closed when its turn comes.
type waiting struct {
	account string
	writers []chan struct{}
}

// take waits for the turn. A caller that got it calls give.
func (t *turns) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	account := t.accountOf(ctx)
	t.mu.Lock()
	if !t.taken {
		t.taken, t.last = true, account
		t.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	if i := t.of(account); i >= 0 {
		t.waiting[i].writers = append(t.waiting[i].writers, ready)
	} else {
		t.waiting = append(t.waiting, waiting{account, []chan struct{}{ready}})
	}
	t.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := t.of(account)
	if i < 0 || !slices.Contains(t.waiting[i].writers, ready) { // its turn came at the same moment
		t.mu.Unlock()
		t.give()
		return ctx.Err()
	}
	defer t.mu.Unlock()
	w := &t.waiting[i]
	w.writers = slices.DeleteFunc(w.writers, func(c chan struct{}) bool { return c == ready })
	if len(w.writers) == 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	return ctx.Err()
}

func (t *turns) accountOf(ctx context.Context) string {
	if t.account == nil {
		return ""
	}
	return t.account(ctx)
}

// of returns where an account stands in waiting, or -1. The caller holds mu.
func (t *turns) of(account string) int {
	return slices.IndexFunc(t.waiting, func(w waiting) bool { return w.account == account })
}

// give ends the turn of the caller, which take gave it. The next account in the order writes; an account with more
// writers goes to the end. The account that wrote last comes after an account that began to wait meanwhile. If nobody
// waits, the next writer gets the turn at once.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.taken = false
		return
	}
	next := 0
	if len(t.waiting) > 1 && t.waiting[0].account == t.last {
		next = 1 // an account that came while the last one wrote does not wait for a second write of that account
	}
	w := t.waiting[next]
	t.waiting = slices.Delete(t.waiting, next, next+1)
	if len(w.writers) > 1 {
		t.waiting = append(t.waiting, waiting{w.account, w.writers[1:]})
	}
	t.last = w.account
	close(w.writers[0])
}
