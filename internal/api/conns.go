package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	// takeTime is how long a reader may take to accept takeBytes of an answer or of a
	// stream; one that takes longer loses the connection.
	takeTime  = 30 * time.Second
	takeBytes = 64 << 10

	// maxHead bounds the head of a request: a path, and few headers.
	maxHead = 16 << 10
	// headFactor is what a byte of a head costs when every header is as short as can be;
	// measured with 5,000 of them.
	headFactor = 32

	// spareFiles is how many descriptors are kept for operators: a connection, and what
	// answering it opens.
	spareFiles = 8
	// refusedAtOnce is how many connections without room get an answer that says so.
	refusedAtOnce = 16
)

// listener counts the connections of agents in the budget, and keeps descriptors for
// operators.
type listener struct {
	net.Listener
	front *Front
	role  tool.Role
	spare spares // of operators
	turns chan struct{}
}

func (f *Front) listen(l net.Listener, role tool.Role) *listener {
	own := &listener{Listener: l, front: f, role: role, turns: make(chan struct{}, refusedAtOnce)}
	if role == tool.RoleOperator {
		own.spare.fill()
	}
	return own
}

// Accept returns the next connection that there is room for.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if errors.Is(err, unix.EMFILE) && l.spare.drop() {
			continue
		}
		if err != nil {
			return nil, err
		}
		who := credentials(c, l.front.now.Load().Peer)
		own := &conn{Conn: c, peer: who, patience: l.front.take, ended: l.spare.fill}
		if l.role == tool.RoleOperator {
			return own, nil
		}
		own.ended = func() {}
		var ok bool
		own.account = l.front.account(own.peer)
		if own.budget, ok = l.front.budget.Connect(own.account, func() { c.Close() }); ok {
			return own, nil
		}
		select {
		case l.turns <- struct{}{}:
			go func() {
				defer func() { <-l.turns }()
				own.refuse()
			}()
		default:
			c.Close()
		}
	}
}

// Close closes the socket and what was kept for it.
func (l *listener) Close() error {
	l.spare.end()
	return l.Listener.Close()
}

// conn is a connection that is counted. What is read before a request is served is the head
// of one, and is taken from the budget; what is written must be accepted in time.
type conn struct {
	net.Conn
	peer     peer
	account  string
	budget   *budget.Conn // nil of operators
	patience time.Duration
	serving  atomic.Bool
	head     int // bytes read of the head; used by whoever reads while nothing is served
	closing  sync.Once
	ended    func()
	holds    bool   // small writes wait in held; used by whoever writes, as held is
	held     []byte // what waits
}

// Read reads, and takes what the head of a request costs.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n <= 0 || c.budget == nil || c.serving.Load() || c.head >= maxHead {
		return n, err
	}
	c.head += n
	if c.budget.Hold().Take(int64(n*headFactor)) != nil {
		c.refuse()
		return 0, io.EOF
	}
	return n, err
}

// heldBytes is the buffer that net/http has for a connection: it writes the begin of a large piece by itself.
const heldBytes = 4 << 10

// hold lets small writes wait for a large one, which goes out with them in one system call: the reader is
// woken once. release sends what waits.
func (c *conn) hold() {
	if c != nil {
		c.holds = true
	}
}

func (c *conn) release() error {
	if c == nil {
		return nil
	}
	c.holds = false
	if len(c.held) == 0 {
		return nil
	}
	_, err := c.Write(nil)
	return err
}

// Write writes in pieces, each of which the reader must accept in time.
func (c *conn) Write(p []byte) (int, error) {
	if c.holds && len(c.held)+len(p) <= heldBytes {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	if len(c.held) > 0 {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
			return 0, err
		}
		first := min(len(p), takeBytes-len(c.held))
		both := net.Buffers{c.held, p[:first]}
		n, err := both.WriteTo(c.Conn)
		done := max(0, int(n)-len(c.held))
		if c.held = c.held[:0]; err != nil || done == len(p) {
			return done, err
		}
		rest, err := c.Write(p[done:])
		return done + rest, err
	}
	done := 0
	for {
		piece := p[done:min(len(p), done+takeBytes)]
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
			return done, err
		}
		n, err := c.Conn.Write(piece)
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

// begin says that a request is served from now on. It reports false when the connection was
// closed to make room.
func (c *conn) begin() bool {
	if c == nil {
		return true
	}
	c.serving.Store(true)
	return c.budget.Begin()
}

func (c *conn) end() {
	if c == nil {
		return
	}
	c.head = 0
	c.budget.End()
	c.serving.Store(false)
}

// Close ends the connection; its descriptor is free before it is given away again.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() {
		c.budget.Close()
		c.ended()
	})
	return err
}

// CloseWrite lets the client read what was written before the connection ends.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// refuse answers a connection for which there is no room, once its client has sent
// something: then it waits for an answer.
func (c *conn) refuse() {
	defer c.Close()
	if c.Conn.SetDeadline(time.Now().Add(time.Second)) != nil {
		return
	}
	if c.head == 0 {
		if _, err := c.Conn.Read(make([]byte, 4<<10)); err != nil {
			return
		}
	}
	said := fmt.Sprintf(`{"error":{"code":"too_many_connections","message":"there is no room for one more `+
		`connection of account %s","hint":"use one connection for several requests; limits.agentBytes and the `+
		`limit of open files bound them"}}`+"\n", c.account)
	_, _ = io.WriteString(c.Conn, "HTTP/1.1 "+strconv.Itoa(http.StatusServiceUnavailable)+" Service Unavailable\r\n"+
		"Content-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: "+
		strconv.Itoa(len(said))+"\r\n\r\n"+said) // whoever is gone needs no answer
}

// openFiles is how many descriptors this process may have.
func openFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}

// spares are descriptors that are kept so that they can be given away.
type spares struct {
	mu    sync.Mutex // guards what follows
	files []*os.File
	ended bool
}

// fill opens what is missing, as far as it can.
func (s *spares) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended && len(s.files) < spareFiles {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		s.files = append(s.files, f)
	}
}

// drop gives all of them away; it reports whether there were any.
func (s *spares) drop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.files)
	for _, f := range s.files {
		f.Close()
	}
	s.files = nil
	return n > 0
}

func (s *spares) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.drop()
}
