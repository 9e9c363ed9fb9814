package egress

import (
	"cmp"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// client is a program's end of a connection.
type client struct {
	net.Conn // tcp as an interface: its other methods, such as WriteTo, would skip before
	tcp      *net.TCPConn
	call     *Call
	before   []byte // what was read of it and is still to be served
	proxy    bool   // it speaks to the proxy, and has not said where to
	host     string // else where it goes to
	port     int
	via      string
	secure   bool      // it speaks TLS with the daemon, and its requests are read
	once     sync.Once // the first Close

	silent Row         // its row in the ledger if no request comes; none without a host
	asked  atomic.Bool // a request came

	mu   sync.Mutex    // guards wake
	wake chan struct{} // closed while the deadline for reading has passed
}

// halfClosed is how long a program that has ended its direction may wait for an answer.
const halfClosed = 10 * time.Second

// Read is called by a web server, which reads a byte ahead while it answers a request, and drops
// the request at the end of the data. But a program may end its direction and wait for the
// answer, or be gone: nothing tells which.
func (cl *client) Read(p []byte) (int, error) {
	if len(cl.before) > 0 {
		n := copy(p, cl.before)
		cl.before = cl.before[n:]
		return n, nil
	}
	n, err := cl.tcp.Read(p)
	if len(p) != 1 || err != io.EOF {
		return n, err
	}
	select {
	case <-cl.woken():
		return 0, os.ErrDeadlineExceeded
	case <-cl.call.ctx.Done():
	case <-time.After(cmp.Or(cl.call.testOnlyHalfClosed, halfClosed)):
	}
	return n, err
}

// SetReadDeadline in the past ends a Read.
func (cl *client) SetReadDeadline(t time.Time) error {
	past := !t.IsZero() && time.Until(t) <= 0
	cl.mu.Lock()
	select {
	case <-cl.wake:
		if !past {
			cl.wake = make(chan struct{})
		}
	default:
		if past {
			close(cl.wake)
		}
	}
	cl.mu.Unlock()
	return cl.tcp.SetReadDeadline(t)
}

func (cl *client) woken() <-chan struct{} {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.wake
}

func (cl *client) CloseWrite() error { return cl.tcp.CloseWrite() }

// Close ends what serves the client; each way of serving calls it.
func (cl *client) Close() error {
	err := cl.tcp.Close()
	cl.once.Do(func() {
		if cl.silent.Host != "" && !cl.asked.Load() {
			cl.call.note(cl.silent)
		}
		cl.call.mu.Lock()
		delete(cl.call.clients, cl)
		cl.call.mu.Unlock()
		cl.call.serving.Done()
	})
	return err
}

// enter takes a connection of a program, or refuses it.
func (c *Call) enter(conn *net.TCPConn, host string, port int, via string) (*client, bool) {
	cl := &client{
		Conn: conn, tcp: conn, call: c, host: host, port: port, via: via, proxy: host == "", wake: make(chan struct{}),
	}
	c.mu.Lock()
	v := Verdict{}
	switch {
	case c.ended:
		c.mu.Unlock()
		reset(conn)
		return nil, false
	case c.spent:
		v = tooMuch
	case len(c.clients)+c.direct >= c.o.Limits.Connections:
		v = tooMany
	default:
		c.clients[cl] = struct{}{}
		c.serving.Add(1)
		c.mu.Unlock()
		return cl, true
	}
	c.mu.Unlock()
	c.refuse(Connection{Host: host, Port: port, Protocol: c.protocolOf(host, port), Via: via}, v)
	reset(conn)
	return nil, false
}

var (
	tooMany = Verdict{
		Rule: "limits.networkConnections", Reason: "the call has as many connections as it may",
		Hint: "close connections that are not used, or use fewer at once",
	}
	tooMuch = Verdict{
		Rule: "limits.networkBytes", Reason: "the call has sent and received as much as it may",
		Hint: "fetch less, or in several calls",
	}
)

// protocol returns what is spoken on a port: what can be checked there.
func protocol(port int) string {
	switch port {
	case 443:
		return ProtocolTLS
	case 80:
		return ProtocolHTTP
	}
	return ProtocolTCP
}
