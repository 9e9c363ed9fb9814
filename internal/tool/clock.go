package tool

import (
	"context"
	"sync"
	"time"
)

// Clock is the time that a call runs. It stands still while a person is asked about what the
// call does. The zero value is ready, and it is safe for concurrent use.
type Clock struct {
	mu     sync.Mutex // guards what follows
	pauses int
	timers map[*timer]bool
}

// timer is one timeout that the clock measures.
type timer struct {
	*time.Timer
	left  time.Duration // when it was last started
	since time.Time     // when that was
}

// Pause stops the clock until resume is called. It may be stopped several times at once.
func (k *Clock) Pause() (resume func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pauses++; k.pauses == 1 {
		for t := range k.timers {
			if t.Stop() {
				t.left -= time.Since(t.since)
			}
		}
	}
	return sync.OnceFunc(k.resume)
}

func (k *Clock) resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pauses--; k.pauses == 0 {
		for t := range k.timers {
			t.start()
		}
	}
}

func (t *timer) start() {
	t.since = time.Now()
	t.Reset(max(t.left, 0))
}

// Timeout returns a context that ends after this time of the clock of ctx, or of the wall
// where ctx has none. Its cause is then [context.DeadlineExceeded].
func Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	k, ok := ctx.Value(clockKey{}).(*Clock)
	if !ok {
		k = &Clock{}
	}
	ctx, end := context.WithCancelCause(ctx)
	t := &timer{left: d}
	k.mu.Lock()
	defer k.mu.Unlock()
	t.Timer = time.AfterFunc(time.Hour, func() { end(context.DeadlineExceeded) })
	t.Stop()
	if k.timers == nil {
		k.timers = map[*timer]bool{}
	}
	k.timers[t] = true
	if k.pauses == 0 {
		t.start()
	}
	return ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		t.Stop()
		delete(k.timers, t)
		end(context.Canceled)
	}
}

type clockKey struct{}

// WithClock gives a call its clock.
func WithClock(ctx context.Context, k *Clock) context.Context {
	return context.WithValue(ctx, clockKey{}, k)
}
