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
	// takeTime bounds how long a reader may take to accept takeBytes of an answer or a stream. A slower one loses
	// the connection.
	takeTime  = 30 * time.Second
	takeBytes = 64 << 10

	// maxHead bounds the head of a request: a path, and few headers.
	maxHead = 16 << 10
	// headFactor is how much memory a byte of a head takes if every header is as short as possible. It was measured
	// with 5,000 headers.
	headFactor = 32

	// spareFiles is how many descriptors are kept for operators: for a connection, and for what its answer opens.
	spareFiles = 8
	// refusedAtOnce bounds the refused connections that wait for an answer at the same time.
	refusedAtOnce = 16
)

// listener counts the connections of agents against the budget, and keeps descriptors for operators.
type listener struct {
	net.Listener
	front *Front
	role  tool.Role
	spare spares // descriptors for operators
	turns chan struct{}
}

func (f *Front) listen(l net.Listener, role tool.Role) *listener {
	own := &listener{Listener: l, front: f, role: role, turns: make(chan struct{}, refusedAtOnce)}
	if role == tool.RoleOperator {
		own.spare.fill()
	}
	return own
}

// Accept returns the next connection for which there is room.
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

// Close closes the socket and the descriptors that were kept for it.
func (l *listener) Close() error {
	l.spare.end()
	return l.Listener.Close()
}

// conn is a connection to one of the sockets. A connection of an agent counts in the budget of its account, which also
// pays for the bytes of a request head while they are read. One of an operator has no budget. A peer that does not read
// a piece of an answer within patience is cut off.
type conn struct {
	net.Conn
	peer     peer
	account  string
	budget   *budget.Conn  // nil for operators
	patience time.Duration // for each piece that is written
	serving  atomic.Bool
	head     int // bytes read of the head; for the goroutine that reads while no request is served
	closing  sync.Once
	ended    func() // called once, when the connection ends
	holds    bool   // small writes wait in held; both are for the goroutine that writes
	held     []byte // the writes that wait
}

// Read reads, and takes the memory for the head of a request from the budget.
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

// heldBytes is the size of the buffer that net/http has for a connection. net/http itself writes the beginning of a
// larger piece.
const heldBytes = 4 << 10

// hold lets small writes wait until a large one, and sends them together in one system call, so that the reader
// wakes once. release sends what still waits.
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

// Write writes in pieces. The reader must accept each piece in time.
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

// begin says that a request is served from now on. It reports false if the connection was closed to make room.
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

// Close ends the connection. It frees the descriptor before it gives back the place of the connection.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() {
		c.budget.Close()
		c.ended()
	})
	return err
}

// CloseWrite lets the client read everything that was written before the connection ends.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// refuse answers a connection for which there is no room. It waits until the client has sent something, because only
// then does the client wait for an answer.
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
		strconv.Itoa(len(said))+"\r\n\r\n"+said) // a client that has left needs no answer
}

// openFiles returns how many descriptors this process may have.
func openFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}

// spares are open descriptors that can be closed when one is needed.
type spares struct {
	mu    sync.Mutex // guards the fields below
	files []*os.File
	ended bool
}

// fill opens the descriptors that are missing, as far as it can.
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

// drop closes all of them. It reports whether there were any.
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
