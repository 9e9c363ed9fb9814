package store

import (
	"context"
	"slices"
	"sync"
)

// ShareBy makes accounts take turns: while several wait to write, each has its turn, however much one of them writes.
// The account of a context is the one that asked for the work, "" for the daemon itself and for operators. It is called
// before the database is used.
func (db *DB) ShareBy(account func(context.Context) string) { db.turns.account = account }

// turns lets one after the other write: the accounts in turn, and those of one account in the order in which they
// came.
type turns struct {
	account func(context.Context) string // nil: all are one
	mu      sync.Mutex
	taken   bool
	last    string    // the account that has the turn, or had it
	waiting []waiting // an account is here while somebody of it waits; the first has waited for longest
}

// waiting is who of an account waits, each until its channel is closed.
type waiting struct {
	account string
	writers []chan struct{}
}

// take waits for the turn. Whoever gets it calls give.
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
	if i < 0 || !slices.Contains(t.waiting[i].writers, ready) { // it got the turn at the same moment
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

// of is where an account waits; -1 where it does not. Whoever holds mu calls it.
func (t *turns) of(account string) int {
	return slices.IndexFunc(t.waiting, func(w waiting) bool { return w.account == account })
}

// give passes the turn on.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.taken = false
		return
	}
	next := 0
	if len(t.waiting) > 1 && t.waiting[0].account == t.last {
		next = 1 // who came while the last one wrote does not wait for another write of the same account
	}
	w := t.waiting[next]
	t.waiting = slices.Delete(t.waiting, next, next+1)
	if len(w.writers) > 1 {
		t.waiting = append(t.waiting, waiting{w.account, w.writers[1:]})
	}
	t.last = w.account
	close(w.writers[0])
}
