// Package frame filters the lines of JSON-RPC that another program writes, before the MCP SDK reads
// them.
//
// The SDK closes a connection for good at the first line that is no message of JSON-RPC, is too
// long or nests too deep. [New] puts a filter before it:
//
//	conn := frame.New(os.Stdin, os.Stdout, frame.Limits{})
//	transport := &mcp.IOTransport{Reader: conn, Writer: conn.Writer()}
//	conn.Close()          // closes stdin and ends reading
//	conn.Writer().Close() // closes stdout
//
// All answers must go through Writer: the filter writes there too. Each Write must be exactly one
// message with its line feed: with Limits.Requests, Read waits while that many requests have no
// answer, and each Write of an answer frees one place.
//
// Guarantees, of each line that Read returns: it is one JSON object that the SDK decodes. It has at
// most Limits.Line bytes and about Limits.Values values, and nests at most Limits.Depth deep.
// (Small values take thirty times their bytes once decoded.) The filter holds at most
// Limits.Line bytes of a line, and a buffer of 64 KiB.
//
// A line that is no JSON object, such as a banner, is dropped and counted ([Conn.Dropped]). An
// object that is too large or no message fails alone and is counted ([Conn.Failed]). If it is a
// request, the other program gets an error. If it is an answer, the reader gets an error with its
// id instead. If it has no id, or one of more than 256 bytes, nobody gets an error.
//
// The package does not know the messages of MCP, and does not check that ids are of somebody's
// request.
package frame

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Limits bounds a line, and how much waits. A zero Line or Depth is the limit of the SDK: 16 MiB less one byte, and
// 1000.
type Limits struct {
	Line   int // bytes, without the line break
	Depth  int // how deep objects and arrays may nest
	Values int // about how many values a message may have; 0 is 200,000
	// Requests of the other side that may wait for an answer; Read waits while there are more. The SDK handles each
	// at once, so that one who asks and never reads would fill the memory with answers. 0: no bound.
	Requests int
}

const (
	defaultLine   = 16<<20 - 1
	defaultDepth  = 1000
	defaultValues = 200_000
)

// Conn is one filtered connection. Read may run beside Close and the methods of the writer.
type Conn struct {
	in     *bufio.Reader
	closer io.Closer
	out    *writer
	limits Limits

	ready   []byte // the part of a line that passed and was not read yet
	closing sync.Once
	closed  chan struct{}
	dropped atomic.Int64
	failed  atomic.Int64
}

// New filters what is read from in. It writes the errors for refused requests to out. All answers must go to Writer,
// so that lines do not mix.
func New(in io.ReadCloser, out io.WriteCloser, l Limits) *Conn {
	if l.Line <= 0 {
		l.Line = defaultLine
	}
	if l.Depth <= 0 {
		l.Depth = defaultDepth
	}
	if l.Values <= 0 {
		l.Values = defaultValues
	}
	w := &writer{to: out}
	if l.Requests > 0 {
		w.unanswered = make(chan struct{}, l.Requests)
	}
	return &Conn{in: bufio.NewReaderSize(in, 64<<10), closer: in, out: w, limits: l, closed: make(chan struct{})}
}

// Writer returns the writer to the other side. Each Write must be exactly one message with its line feed: with
// Limits.Requests, each Write of an answer frees one place.
func (c *Conn) Writer() io.WriteCloser { return c.out }

// Dropped returns how many lines were no JSON object.
func (c *Conn) Dropped() int64 { return c.dropped.Load() }

// Failed returns how many lines were JSON objects that were too large, or no messages.
func (c *Conn) Failed() int64 { return c.failed.Load() }

// Close ends reading.
func (c *Conn) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.closer.Close()
}

// Read returns bytes of lines that passed. The bytes of one Read belong to one line. Its error is that of in, of out if
// an error for a refused request cannot be written there, or io.ErrClosedPipe if Close ends its wait for answers.
func (c *Conn) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// next reads one line, and makes it ready if it passes. The end of the input also ends a line.
func (c *Conn) next() error {
	var line []byte
	var s scan
	for {
		piece, err := c.in.ReadSlice('\n')
		s.feed(piece)
		if len(line) == 0 { // s.length does not count blanks in front
			piece = bytes.TrimLeft(piece, " \t\r\n")
		}
		if room := c.limits.Line + len("\r\n") - len(line); room > 0 {
			line = append(line, piece[:min(len(piece), room)]...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && s.bytes == 0:
			return err
		}
		return c.judge(bytes.TrimSpace(line), &s)
	}
}

// judge decides whether a line passes, is dropped, or is answered with an error.
func (c *Conn) judge(line []byte, s *scan) error {
	why := ""
	switch {
	case !s.any:
		return nil // an empty line
	case !s.object():
		c.dropped.Add(1)
		return nil
	case s.length() > c.limits.Line:
		why = fmt.Sprintf("the message has more than %d bytes", c.limits.Line)
	case s.deepest > c.limits.Depth:
		why = fmt.Sprintf("the message nests more than %d deep", c.limits.Depth)
	case s.values > c.limits.Values:
		why = fmt.Sprintf("the message has more than %d values", c.limits.Values)
	case !json.Valid(line):
		c.dropped.Add(1)
		return nil
	default:
		if msg, err := jsonrpc.DecodeMessage(line); err == nil {
			if r, ok := msg.(*jsonrpc.Request); ok && r.IsCall() && c.out.unanswered != nil {
				select {
				case c.out.unanswered <- struct{}{}:
				case <-c.closed:
					return io.ErrClosedPipe
				}
			}
			c.ready = append(line, '\n')
			return nil
		}
		why = "the message is not JSON-RPC 2.0" // the SDK would close the connection
	}
	c.failed.Add(1)
	id := s.id()
	if id == nil {
		return nil // nobody waits for an answer to a notification
	}
	instead := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":%q}}`+"\n", id, why)
	if s.method {
		_, err := c.out.write(instead)
		return err
	}
	c.ready = instead
	return nil
}

// writer writes one message with each Write.
type writer struct {
	mu sync.Mutex // guards to
	to io.WriteCloser

	unanswered chan struct{} // one entry for each request that waits for an answer; nil if nobody counts
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.write(p)
	if len(w.unanswered) > 0 && answers(p) {
		select {
		case <-w.unanswered:
		default: // a second answer to the same request
		}
	}
	return n, err
}

// answers reports whether a message is an answer.
func answers(line []byte) bool {
	var s scan
	s.feed(line)
	return !s.method
}

func (w *writer) write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

func (w *writer) Close() error { return w.to.Close() }
