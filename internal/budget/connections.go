package budget

import "slices"

// Conn is one connection of an account.
type Conn struct {
	hold  *Hold
	close func() // what ends it
	state connState
}

type connState int

const (
	idle    connState = iota // no request is under way: nothing came yet, half a head, or all was answered
	busy                     // a request is under way
	evicted                  // closed to make room, or by itself
)

// Connect admits a connection of an account. Where there is no room, the connection that
// is idle for longest goes, of the account that has most; end is what closes it. It reports
// false when there is still no room.
func (b *Budget) Connect(name string, end func()) (*Conn, bool) {
	c := &Conn{close: end}
	var gone []*Conn
	defer func() {
		for _, x := range gone { // without the lock: closing may take a while
			x.close()
		}
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(name)
	c.hold = &Hold{b: b, a: a}
	bytes := b.fits(c.hold, connectionBytes) // first: what others have idle is not what takes them
	for !bytes || !b.room(a) {
		x := b.oldestIdle(a, bytes)
		if x == nil {
			b.refused[byConnections]++
			b.give(c.hold, c.hold.bytes)
			b.drop(a)
			return nil, false
		}
		b.refused[byIdle]++
		b.leave(x)
		gone = append(gone, x)
		bytes = bytes || b.fits(c.hold, connectionBytes)
	}
	a.conns++
	b.conns++
	a.idle = append(a.idle, c)
	return c, true
}

// room reports whether the account may have one connection more.
func (b *Budget) room(a *account) bool {
	n := b.limits.Connections
	return n <= 0 || a.conns < max(0, n-(b.conns-a.conns))/2
}

// oldestIdle returns the connection to close for one more of the account: of the account that has most, and never of
// one that has less than it. Without bytes for it, it is one of its own.
func (b *Budget) oldestIdle(newcomer *account, bytes bool) *Conn {
	most := newcomer
	for _, a := range b.accounts {
		if !bytes {
			break
		}
		if len(a.idle) > 0 && (a.conns > most.conns || len(most.idle) == 0 && a.conns >= most.conns) {
			most = a
		}
	}
	if len(most.idle) == 0 {
		return nil
	}
	return most.idle[0]
}

// leave takes a connection out of the budget.
func (b *Budget) leave(c *Conn) {
	if c.state == evicted {
		return
	}
	a := c.hold.a
	if c.state == idle {
		a.idle = slices.DeleteFunc(a.idle, func(x *Conn) bool { return x == c })
	}
	c.state = evicted
	a.conns--
	b.conns--
	b.give(c.hold, c.hold.bytes)
	c.hold.released = true
	b.drop(a)
	b.serve()
}

// Begin says that a request came. It reports false when the connection was closed
// meanwhile to make room: the request must not be served.
func (c *Conn) Begin() bool {
	if c == nil {
		return true
	}
	b := c.hold.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.state != idle {
		return false
	}
	c.state = busy
	a := c.hold.a
	a.idle = slices.DeleteFunc(a.idle, func(x *Conn) bool { return x == c })
	return true
}

// End says that the request was answered: the connection is idle from now on, and costs
// what it did before.
func (c *Conn) End() {
	if c == nil {
		return
	}
	b := c.hold.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.state != busy {
		return
	}
	c.state = idle
	c.hold.a.idle = append(c.hold.a.idle, c)
	b.give(c.hold, c.hold.bytes-connectionBytes)
	b.serve()
}

// Hold returns what the connection has taken; the head of a request is taken from it.
func (c *Conn) Hold() *Hold {
	if c == nil {
		return nil
	}
	return c.hold
}

// Close says that the connection has ended.
func (c *Conn) Close() {
	if c == nil {
		return
	}
	c.hold.b.mu.Lock()
	defer c.hold.b.mu.Unlock()
	c.hold.b.leave(c)
}
