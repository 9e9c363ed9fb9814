package sandbox

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/launch"
)

// Judged returns this box with another judge of its connections.
func (b *box) Judged(j egress.Judge) Box {
	other := *b
	other.judge = j
	return &other
}

// bySettings allows what the settings list.
func bySettings(n guard.Network) egress.Judge {
	return func(_ context.Context, c egress.Connection) egress.Verdict {
		v, rule := n.Connect(c.Host, c.Port)
		if v == guard.Allow {
			return egress.Verdict{Allow: true, Rule: rule}
		}
		return egress.Verdict{Rule: rule, Reason: "the settings do not list it, and nobody can be asked"}
	}
}

// connecting says how a call of the box may connect.
func (b *box) connecting(ctx context.Context, l guard.Limits) egress.CallOptions {
	return egress.CallOptions{
		Context: ctx, Judge: b.judge, Network: b.prepared.settings.Network,
		Limits: egress.Limits{Bytes: l.NetworkBytes, Connections: l.NetworkConnections},
	}
}

// Dial connects to a host for the daemon itself.
func (b *box) Dial(ctx context.Context, to egress.Connection) (net.Conn, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, net.ErrClosed
	}
	if b.dialled == nil {
		limits := b.prepared.settings.Limits.WithDefaults()
		b.dialled = egress.NewCall(b.cage.opts.Dialer, b.connecting(context.WithoutCancel(ctx), limits))
	}
	call := b.dialled
	b.mu.Unlock()
	return call.Dial(ctx, to)
}

// Ledger ends the connections of Dial, and returns what they have done.
func (b *box) Ledger() egress.Ledger {
	b.mu.Lock()
	call := b.dialled
	b.dialled = nil
	b.mu.Unlock()
	if call != nil {
		b.connected(call.End())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.ledger
	l.Connections = slices.Clone(l.Connections)
	return l
}

// connected adds connections that have ended to the ledger of the box.
func (b *box) connected(l egress.Ledger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.Merge(l)
}

// callOf returns the call to which a connection of a [launch.Network] belongs.
func callOf(c net.Conn) uint32 {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0
	}
	return launch.Mark(tcp)
}

// clock ends a call when its time is over. It stops while a person is asked.
type clock struct {
	mu     sync.Mutex
	timer  *time.Timer   // guarded by mu; nil before start
	left   time.Duration // guarded by mu; what was left at since
	since  time.Time     // guarded by mu
	paused int           // guarded by mu: how many pauses hold; it runs at 0
	over   bool          // guarded by mu: it never runs again
}

// newClock returns a clock that does not run before start.
func newClock() *clock { return &clock{paused: 1} }

func (c *clock) start(left time.Duration, end func()) {
	c.mu.Lock()
	c.left = left
	c.timer = time.AfterFunc(time.Hour, end)
	c.timer.Stop()
	c.mu.Unlock()
	c.resume()
}

// Pause implements [egress.Clock].
func (c *clock) Pause() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused == 1 && !c.over {
		c.timer.Stop() // if this comes too late, the time was over
		c.left -= time.Since(c.since)
	}
	return sync.OnceFunc(c.resume)
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused == 0 && !c.over {
		c.since = time.Now()
		c.timer.Reset(c.left)
	}
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil { // nil for a job, which has no limit
		c.timer.Stop()
	}
}
