package egress

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Paces bound how fast accounts connect and pass bytes: each account has one [Pace].
type Paces struct {
	connections int
	bytes       int64

	mu sync.Mutex
	of map[string]*Pace // guarded by mu; one for each account that has connected
}

// NewPaces bounds what one account does in a second; 0 is no bound.
func NewPaces(connections int, bytes int64) *Paces {
	return &Paces{connections: connections, bytes: bytes, of: map[string]*Pace{}}
}

// Of returns the pace of an account, which all its calls share; nil: nothing bounds it.
func (p *Paces) Of(account string) *Pace {
	if p == nil || p.connections == 0 && p.bytes == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[account] == nil {
		p.of[account] = &Pace{connections: limiter(int64(p.connections)), bytes: limiter(p.bytes)}
	}
	return p.of[account]
}

// limiter lets n through in a second, and as many at once; nil: all.
func limiter(n int64) *rate.Limiter {
	if n == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(n), int(n))
}

// Pace makes new connections and bytes wait that come too fast. It refuses nothing, so a
// program is slow and does not fail.
type Pace struct{ connections, bytes *rate.Limiter }

// connect waits until one more connection may be made.
func (p *Pace) connect(ctx context.Context) (waited time.Duration) {
	if p == nil {
		return 0
	}
	return wait(ctx, p.connections, 1)
}

// pass waits for bytes that have passed, so that the next ones come later.
func (p *Pace) pass(ctx context.Context, n int64) (waited time.Duration) {
	if p == nil {
		return 0
	}
	return wait(ctx, p.bytes, n)
}

// wait takes n from a limiter. It ends with ctx.
func wait(ctx context.Context, l *rate.Limiter, n int64) (waited time.Duration) {
	if l == nil {
		return 0
	}
	for n > 0 && ctx.Err() == nil {
		part := min(n, int64(l.Burst()))
		n -= part
		delay := l.ReserveN(time.Now(), int(part)).Delay()
		if delay <= 0 {
			continue
		}
		began := time.Now()
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		waited += time.Since(began)
	}
	return waited
}
