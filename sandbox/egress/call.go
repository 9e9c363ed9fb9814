package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress/mask"
)

// CallOptions are how one call may connect.
type CallOptions struct {
	// Context ends the call's connections; what it holds reaches the judge (see WithClock).
	// nil: the call ends with End alone.
	Context context.Context
	Judge   Judge // nil refuses everything
	Network guard.Network
	Limits  Limits
	// Authority signs for the hosts that are intercepted. nil: connections to them are refused.
	Authority *Authority
	// Seen is called when a connection or an HTTP request has been decided, before its bytes
	// are known. It must not block. nil: nobody wants to know.
	Seen func(Row)
}

// Limits bound the connections of one call, all together. Zero allows none.
type Limits struct {
	Bytes       int64 // in both directions; each connection that is open may pass its part of the rest
	Connections int   // at once
}

// Call is the connections of one call.
type Call struct {
	dialer *Dialer
	o      CallOptions
	ctx    context.Context
	cancel context.CancelFunc
	leave  func()       // of the network; the connections of the source are refused from then on
	names  *names       // of the network; nil: of none
	left   atomic.Int64 // bytes
	waited atomic.Int64 // nanoseconds, for the pace of the account
	web    web
	// testOnlyPatience is how long a program may take to say what it wants. 0: patience.
	testOnlyPatience time.Duration
	// testOnlyHalfClosed is how long a half-closed client waits. 0: halfClosed.
	testOnlyHalfClosed time.Duration

	mu      sync.Mutex // guards what follows
	ended   bool
	spent   bool // the bytes
	clients map[*client]struct{}
	flows   map[*flow]struct{}
	watches map[<-chan struct{}]*watch
	direct  int // connections of Dial that are open
	ledger  Ledger
	sent    []string                  // secrets
	hidden  *mask.Set                 // of sent
	secrets map[string][]guard.Secret // of intercepted hosts and ports
	serving sync.WaitGroup            // one for each client, and each that is being dialled
}

// NewCall begins a call that connects with Dial alone, without a network of its own.
func NewCall(d *Dialer, o CallOptions) *Call { return newCall(d, o, func() {}) }

func newCall(d *Dialer, o CallOptions, leave func()) *Call {
	if o.Context == nil {
		o.Context = context.Background()
	}
	ctx, cancel := context.WithCancel(o.Context)
	c := &Call{
		dialer: d, o: o, ctx: ctx, cancel: cancel, leave: leave,
		clients: map[*client]struct{}{}, flows: map[*flow]struct{}{}, watches: map[<-chan struct{}]*watch{},
	}
	c.left.Store(o.Limits.Bytes)
	c.web.call = c
	context.AfterFunc(ctx, c.closeAll)
	return c
}

// End closes every connection of the call and says what there was. Calling it again says the
// same.
func (c *Call) End() Ledger {
	c.leave()
	c.cancel()
	c.closeAll()
	c.serving.Wait()
	c.web.close()
	for _, f := range c.open() { // of requests that have ended, and of Dial
		f.end()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Ledger{
		Connections: append([]Row{}, c.ledger.Connections...), Omitted: c.ledger.Omitted,
		WaitedMS: time.Duration(c.waited.Load()).Milliseconds(),
	}
}

// closeAll resets what is open, so that nobody takes a part for the whole.
func (c *Call) closeAll() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.resetAll()
}

func (c *Call) resetAll() {
	c.mu.Lock()
	clients := slices.Collect(maps.Keys(c.clients))
	c.mu.Unlock()
	for _, f := range c.open() {
		reset(f.up)
	}
	for _, cl := range clients {
		reset(cl.tcp)
	}
}

func (c *Call) open() []*flow {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.flows))
}

// reset ends a connection so that the other side sees an error and no end of the data.
func reset(conn *net.TCPConn) {
	conn.SetLinger(0)
	conn.Close()
}

// Dial connects to a host for the daemon itself, with the same judge and limits. A
// [RefusedError] says why not.
func (c *Call) Dial(ctx context.Context, k Connection) (net.Conn, error) {
	if !c.reserve() {
		return nil, c.refuse(k, tooMany)
	}
	f, err := c.connect(ctx, k)
	if err != nil {
		c.release()
		return nil, err
	}
	return &dialled{flow: f, in: mask.New(c.toldProxy(ctx, k)).Reader(f)}, nil
}

// dialled is a connection of Dial.
type dialled struct {
	*flow
	in     io.Reader
	closed sync.Once
}

func (d *dialled) Read(p []byte) (int, error) { return d.in.Read(p) }

func (d *dialled) Close() error {
	d.closed.Do(d.call.release)
	return d.flow.Close()
}

func (c *Call) reserve() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.clients)+c.direct >= c.o.Limits.Connections {
		return false
	}
	c.direct++
	return true
}

func (c *Call) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.direct--
}

// RefusedError is a connection that may not be.
type RefusedError struct {
	Connection Connection
	Verdict    Verdict
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("%s is refused", guard.Endpoint(e.Connection.Host, e.Connection.Port))
	if e.Verdict.Reason != "" {
		text += ": " + e.Verdict.Reason
	}
	if e.Verdict.Rule != "" {
		text += " (" + e.Verdict.Rule + ")"
	}
	return text
}

// judge asks, and writes a refusal down.
func (c *Call) judge(ctx context.Context, k Connection) (Verdict, error) {
	v := c.verdict(ctx, k)
	if !v.Allow {
		return Verdict{}, c.refuse(k, v)
	}
	return v, nil
}

func (c *Call) verdict(ctx context.Context, k Connection) Verdict {
	if c.o.Judge == nil {
		return Verdict{Reason: "nothing may connect"}
	}
	ctx, cancel := c.until(ctx)
	defer cancel()
	return c.o.Judge(ctx, k)
}

// until returns a context that ends with the call too.
func (c *Call) until(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// refuse writes a refusal down.
func (c *Call) refuse(k Connection, v Verdict) error {
	v.Allow = false
	c.note(Row{
		Host: k.Host, Port: k.Port, Protocol: k.Protocol, Via: k.Via, Verdict: Denied, Rule: v.Rule, Reason: v.Reason,
		Count: 1,
	})
	return &RefusedError{Connection: k, Verdict: v}
}

// note puts what was decided into the ledger.
func (c *Call) note(r Row) {
	c.mu.Lock()
	c.ledger.Add(r)
	c.mu.Unlock()
	if c.o.Seen != nil {
		c.o.Seen(r)
	}
}

// connect judges and dials. What it returns is in the ledger as one connection.
func (c *Call) connect(ctx context.Context, k Connection) (*flow, error) {
	v, err := c.judge(ctx, k)
	if err != nil {
		return nil, err
	}
	return c.dial(ctx, k, v, 1)
}

// dial connects to what was allowed and counts it as so many connections: a request over
// HTTP has been counted before.
func (c *Call) dial(ctx context.Context, k Connection, v Verdict, count int) (*flow, error) {
	if !c.begin() {
		return nil, net.ErrClosed
	}
	defer c.serving.Done()
	ctx, cancel := c.until(ctx)
	defer cancel()
	c.waited.Add(int64(v.Pace.connect(ctx)))
	row := row(k, v)
	row.Count = count
	up, err := c.dialer.Dial(ctx, c.o.Network, k.Host, k.Port)
	var wrong *AddressError
	switch {
	case errors.As(err, &wrong):
		return nil, c.refuse(k, Verdict{
			Rule: "network.hosts", Reason: wrong.Error(),
			Hint: "only network.hosts can lead a name to such an address; an operator may add it there",
		})
	case err != nil && count == 0:
		return nil, err
	case err != nil:
		row.Reason = Failure(err)
		c.note(row)
		return nil, err
	}
	row.Address = up.RemoteAddr().String()
	f := &flow{call: c, up: up, row: row, pace: v.Pace, began: time.Now()}
	f.unwatch = c.watch(v.Ended, func() { reset(up) })
	c.mu.Lock()
	open := !c.ended && !c.spent
	if open {
		c.flows[f] = struct{}{}
	}
	c.mu.Unlock()
	if !open {
		f.unwatch()
		reset(up)
		return nil, net.ErrClosed
	}
	if count > 0 {
		c.note(row)
	}
	return f, nil
}

// begin keeps End waiting, unless the call has ended.
func (c *Call) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.serving.Add(1)
	}
	return !c.ended
}

// row is one connection that was allowed.
func row(k Connection, v Verdict) Row {
	return Row{
		Host: k.Host, Port: k.Port, Protocol: k.Protocol, Via: k.Via, Verdict: Allowed,
		Rule: v.Rule, Reason: v.Reason, Count: 1,
	}
}

// Failure returns an error of the network in the words of the kernel or the resolver, without the addresses of this
// machine and its resolver.
func Failure(err error) string {
	var lookup *net.DNSError
	if errors.As(err, &lookup) {
		// What was asked of the resolver, and from where, stands before the last colon.
		return "look-up: " + strings.TrimSpace(lookup.Err[strings.LastIndex(lookup.Err, ": ")+1:])
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// spend counts bytes that passed. It reports false when they were too many; every connection
// of the call has been reset then.
func (c *Call) spend(n int64, k Connection) bool {
	if c.left.Add(-n) >= 0 {
		return true
	}
	c.mu.Lock()
	first := !c.spent
	c.spent = true
	c.mu.Unlock()
	if first {
		c.refuse(k, tooMuch)
		c.resetAll()
	}
	return false
}

// chunk returns how much one connection may pass before it counts again.
func (c *Call) chunk() int64 { return min(max(c.left.Load()/256, 32<<10), 1<<20) }
