package egress

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandboxd/sandboxd/guard"
)

const (
	maxListeners = 1024 // of one network; each is a descriptor
	maxLookups   = 64   // DNS over TCP, at once
	lookupRate   = 2000 // a second: who floods the resolver waits, and the daemon does not work for it
)

// Network is the way out of one network namespace: the names that its programs can look up,
// and what listens at their addresses.
type Network struct {
	dialer *Dialer
	names  *names
	callOf func(net.Conn) uint32
	done   chan struct{}
	paced  *rate.Limiter // look-ups

	mu        sync.Mutex // guards what follows
	closed    bool
	calls     map[uint32]*Call
	at        map[netip.AddrPort]io.Closer // what listens where
	listeners map[io.Closer]struct{}
	serving   sync.WaitGroup
}

// NewNetwork makes the way out of one namespace. callOf is the call that has made an accepted
// connection; 0: none of them. It opens nothing; Close ends it.
func NewNetwork(d *Dialer, callOf func(net.Conn) uint32) *Network {
	return &Network{
		dialer: d, names: newNames(), callOf: callOf, done: make(chan struct{}),
		paced: limiter(lookupRate),
		calls: map[uint32]*Call{}, at: map[netip.AddrPort]io.Closer{}, listeners: map[io.Closer]struct{}{},
	}
}

// Begin takes the connections of a call until it ends. The id is not 0, and no other call
// that runs has it; else, and after Close, the call has ended already.
func (n *Network) Begin(id uint32, o CallOptions) *Call {
	var c *Call
	c = newCall(n.dialer, o, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.calls[id] == c {
			delete(n.calls, id)
		}
	})
	c.names = n.names
	n.mu.Lock()
	taken := n.closed || id == 0 || n.calls[id] != nil
	if !taken {
		n.calls[id] = c
	}
	n.mu.Unlock()
	if taken {
		c.cancel()
		c.closeAll()
	}
	return c
}

// Wants reports whether something should listen at an address to which a call connects. If
// not, the call's ledger says why. It does not wait.
func (n *Network) Wants(id uint32, to netip.AddrPort) bool {
	c := n.call(id)
	host, known := n.names.name(to.Addr())
	if c == nil || !known {
		return false
	}
	port := int(to.Port())
	k := Connection{Host: host, Port: port, Protocol: c.protocolOf(host, port), Via: ViaTransparent}
	if v, rule := c.o.Network.Connect(host, port); v == guard.Deny {
		c.refuse(k, Verdict{Rule: rule, Reason: "the settings do not allow it"})
		return false
	}
	n.mu.Lock()
	room := n.at[to] != nil || len(n.at) < maxListeners
	n.mu.Unlock()
	if !room {
		c.refuse(k, Verdict{
			Rule:   "network",
			Reason: "the session has connected to as many hosts and ports as it may: use fewer, or another session",
		})
	}
	return room
}

// RefuseUDP writes down that a call connects a UDP socket to an address. No datagram leaves.
func (n *Network) RefuseUDP(id uint32, to netip.AddrPort) {
	host, known := n.names.name(to.Addr())
	if c := n.call(id); c != nil && known {
		c.refuse(Connection{Host: host, Port: int(to.Port()), Protocol: ProtocolUDP, Via: ViaTransparent}, Verdict{
			Rule: "network", Reason: "UDP is never relayed: use TCP",
		})
	}
}

// Serve takes connections to a synthetic address. It returns at once and owns the listener.
func (n *Network) Serve(to netip.AddrPort, l net.Listener) {
	host, known := n.names.name(to.Addr())
	if !known {
		l.Close()
		return
	}
	n.listen(l, &to, func(c *Call, conn *net.TCPConn) {
		if cl, ok := c.enter(conn, host, int(to.Port()), ViaTransparent); ok {
			c.transparent(cl)
		}
	})
}

// ServeProxy takes connections of programs that want a proxy: CONNECT, requests with an
// absolute address, and SOCKS5. It returns at once and owns the listener.
func (n *Network) ServeProxy(l net.Listener) {
	n.listen(l, nil, func(c *Call, conn *net.TCPConn) {
		if cl, ok := c.enter(conn, "", 0, ViaProxy); ok {
			c.proxied(cl)
		}
	})
}

// Close ends all calls, closes what listens and waits until nothing is served.
func (n *Network) Close() {
	n.mu.Lock()
	already := n.closed
	n.closed = true
	calls, listeners := slices.Collect(maps.Values(n.calls)), slices.Collect(maps.Keys(n.listeners))
	n.mu.Unlock()
	if !already {
		close(n.done)
	}
	for _, l := range listeners {
		l.Close()
	}
	for _, c := range calls {
		c.End()
	}
	n.serving.Wait()
}

// own keeps what Close closes. It reports false after Close.
func (n *Network) own(l io.Closer, to *netip.AddrPort) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	if to != nil {
		n.at[*to] = l // one before it was closed
	}
	n.listeners[l] = struct{}{}
	n.serving.Add(1)
	return true
}

// disown closes what is served no longer.
func (n *Network) disown(l io.Closer, to *netip.AddrPort) {
	l.Close()
	n.mu.Lock()
	delete(n.listeners, l)
	if to != nil && n.at[*to] == l {
		delete(n.at, *to)
	}
	n.mu.Unlock()
	n.serving.Done()
}

// listen serves each connection of a call that runs, and resets all others.
func (n *Network) listen(l net.Listener, to *netip.AddrPort, serve func(*Call, *net.TCPConn)) {
	if !n.own(l, to) {
		l.Close()
		return
	}
	go func() {
		defer n.disown(l, to)
		n.accept(l, func(conn net.Conn) {
			tcp, ok := conn.(*net.TCPConn)
			if !ok {
				conn.Close()
				return
			}
			if c := n.call(n.callOf(conn)); c != nil {
				go serve(c, tcp)
				return
			}
			reset(tcp)
		})
	}()
}

// accept calls serve with each connection until the listener is closed. Out of descriptors it
// waits: the connections wait in the kernel.
func (n *Network) accept(l net.Listener, serve func(net.Conn)) {
	for wait := time.Duration(0); ; {
		conn, err := l.Accept()
		switch {
		case err == nil:
			wait = 0
			serve(conn)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		wait = min(max(2*wait, 5*time.Millisecond), time.Second)
		select {
		case <-n.done:
			return
		case <-time.After(wait):
		}
	}
}

func (n *Network) call(id uint32) *Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[id]
}

// transparent serves a connection to a synthetic address.
func (c *Call) transparent(cl *client) {
	k := Connection{Host: cl.host, Port: cl.port, Protocol: c.protocolOf(cl.host, cl.port), Via: cl.via}
	v := c.verdict(c.ctx, k)
	if !v.Allow {
		c.tell(cl, k, v)
		return
	}
	if c.o.Network.Intercepts(k.Host, k.Port) {
		c.intercept(cl, k, v)
		return
	}
	switch k.Protocol {
	case ProtocolHTTP:
		c.web.serveHost(cl, k, v)
		return
	case ProtocolTLS:
		if c.hello(cl, k) != nil {
			cl.Close()
			return
		}
	}
	defer cl.Close()
	f, err := c.dial(c.ctx, k, v, 1)
	var refused *RefusedError
	switch {
	case err == nil:
		f.relay(cl)
	case errors.As(err, &refused) && k.Protocol == ProtocolTLS && context.Cause(c.ctx) == nil:
		alert(cl, accessDenied)
	default:
		reset(cl.tcp)
	}
}

// tell ends a connection that is refused: by what its protocol has for that, if the program
// speaks it, else by a reset.
func (c *Call) tell(cl *client, k Connection, v Verdict) {
	spoke := false
	if k.Protocol != ProtocolTCP {
		cl.tcp.SetReadDeadline(time.Now().Add(cmp.Or(c.testOnlyPatience, manners)))
		first := make([]byte, 1)
		n, _ := cl.tcp.Read(first)
		cl.before, spoke = first[:n], n > 0
	}
	if spoke && k.Protocol == ProtocolHTTP { // each request gets an answer, and is written down
		cl.tcp.SetReadDeadline(time.Time{})
		c.web.serveHost(cl, k, v)
		return
	}
	defer cl.Close()
	c.refuse(k, v)
	if spoke {
		if _, _, err := serverName(cl); err == nil {
			alert(cl, accessDenied)
			return
		}
	}
	reset(cl.tcp)
}

// manners is how long a program that is refused may take to speak, so that it is told why.
const manners = time.Second

// destination judges what a program has named to the proxy. Where its requests are not judged by themselves it
// connects too.
func (c *Call) destination(ctx context.Context, k Connection) (*flow, Verdict, error) {
	v, err := c.judge(ctx, k)
	if err != nil || k.Protocol == ProtocolHTTP || c.o.Network.Intercepts(k.Host, k.Port) {
		return nil, v, err
	}
	f, err := c.dial(ctx, k, v, 1)
	return f, v, err
}

// tunnel serves a connection whose destination the program has named to the proxy, and has
// been told that it is open. f is where it goes; nil: each request is judged by itself, after v.
func (c *Call) tunnel(cl *client, k Connection, f *flow, v Verdict) {
	if f == nil {
		cl.proxy, cl.host, cl.port, cl.via = false, k.Host, k.Port, k.Via
		if k.Protocol == ProtocolTLS {
			c.intercept(cl, k, v)
			return
		}
		c.web.serveHost(cl, k, v)
		return
	}
	defer cl.Close()
	if k.Protocol == ProtocolTLS && c.hello(cl, k) != nil {
		f.Close()
		return
	}
	f.relay(cl)
}
