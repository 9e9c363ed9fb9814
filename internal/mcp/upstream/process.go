package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/internal/mcp/frame"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Start starts a program with the given standard streams. The pipes belong to the caller.
type Start func(stdin *os.File, stdout, stderr io.Writer) (sandbox.Proc, error)

// Process is the program of a server.
type Process struct {
	proc   sandbox.Proc
	frames *frame.Conn
	stderr *ring
	stdin  *os.File
	exited chan struct{}
	deaf   atomic.Bool // it did not read a message in time

	mu   sync.Mutex
	exit sandbox.Exit // guarded by mu
	err  error        // guarded by mu
}

// How long a program may take to end: after the end of its input, and after SIGTERM.
const (
	closeTime = 2 * time.Second
	termTime  = 2 * time.Second
)

// maxRequests bounds the requests of a server that are not answered yet. At the bound, nothing more is read until
// the server reads its answers.
const maxRequests = 64

// leastPatience is the shortest patience. A message that the server does not read stays in memory.
const leastPatience = 10 * time.Second

// hurried is a pipe whose other end must read each write within a time.
type hurried struct {
	*os.File
	patience time.Duration
	late     func()      // ends the connection
	over     atomic.Bool // late was called, so that later writes do not wait again
}

func (h *hurried) Write(b []byte) (int, error) {
	if h.over.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	if err := h.SetWriteDeadline(time.Now().Add(h.patience)); err != nil {
		return 0, err
	}
	n, err := h.File.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		h.over.Store(true)
		h.late()
	}
	return n, err
}

// Program starts a server and connects to it. The connection ends with lasting; began bounds the time until it is
// established.
func Program(lasting, began context.Context, o Options, start Start) (*Conn, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	p := &Process{stderr: &ring{}, stdin: inW, exited: make(chan struct{})}
	p.proc, err = start(inR, outW, p.stderr)
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, err
	}
	go func() {
		exit, err := p.proc.Wait()
		p.mu.Lock()
		p.exit, p.err = exit, err
		p.mu.Unlock()
		close(p.exited)
	}()
	in := &hurried{File: inW, patience: max(o.Patience, leastPatience), late: func() {
		p.deaf.Store(true)
		p.frames.Close()
	}}
	p.frames = frame.New(&paced{File: outR}, in, frame.Limits{Line: o.Line, Requests: maxRequests})
	t := &mcp.IOTransport{Reader: p.frames, Writer: p.frames.Writer(), MaxLineLength: -1} // frame bounds the lines
	c, err := connect(lasting, began, o, t, func() {
		p.end()
		p.frames.Close()
	})
	if err != nil {
		return nil, p.explain(err)
	}
	c.server = p
	return c, nil
}

// end ends the program: by the end of its input, then SIGTERM, then the end of its namespace.
func (p *Process) end() {
	p.stdin.Close()
	select {
	case <-p.exited:
		return
	case <-time.After(closeTime):
	}
	p.proc.Terminate(termTime)
	<-p.exited
}

// explain adds to an error how the program ended and the last line of its standard error.
func (p *Process) explain(err error) error {
	p.mu.Lock()
	exit, failed := p.exit, p.err
	p.mu.Unlock()
	if failed != nil {
		return failed
	}
	text := err.Error()
	select {
	case <-p.exited:
		if exit.Code != 0 || exit.Limit != "" {
			text += fmt.Sprintf("; it ended with status %d", exit.Code)
		}
		if exit.Limit != "" {
			text += ", because of its limit " + exit.Limit
		}
	default:
	}
	if last := p.stderr.last(); last != "" {
		text += fmt.Sprintf("; it said last: %.300q", last)
	}
	return errors.New(text)
}

// Stderr returns the end of the program's standard error.
func (p *Process) Stderr() string { return p.stderr.String() }

// Why returns the reason of the connection's end.
func (p *Process) Why() error {
	if p.deaf.Load() {
		return errDeaf
	}
	return p.explain(errors.New("the connection ended"))
}

var errDeaf = errors.New("the connection was ended, because the server did not read its input")

// Noise returns the number of output lines that were no messages, and of messages that were too large or invalid.
func (p *Process) Noise() (dropped, failed int64) { return p.frames.Dropped(), p.frames.Failed() }

// Sweep removes files that the program has created and that must not exist.
func (p *Process) Sweep() []sandbox.Denial { return p.proc.Sweep() }

// ringBytes bounds the standard error that is kept of a server.
const ringBytes = 16 << 10

// The bytes per second that a server may print before it has to wait, so that a flood does not keep a processor
// busy.
const (
	outRate = 64 << 20
	errRate = 1 << 20
)

// ring keeps the last bytes that were written to it.
type ring struct {
	mu   sync.Mutex
	kept []byte // guarded by mu
	rate rate   // guarded by mu
}

func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.kept = append(r.kept, p[max(0, len(p)-ringBytes):]...)
	if n := len(r.kept) - ringBytes; n > 0 {
		r.kept = append(r.kept[:0], r.kept[n:]...)
	}
	wait := r.rate.take(len(p), errRate)
	r.mu.Unlock()
	time.Sleep(wait)
	return len(p), nil
}

func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.ToValidUTF8(string(r.kept), "\uFFFD")
}

// last returns the last line.
func (r *ring) last() string {
	text := strings.TrimSpace(r.String())
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// paced is a pipe that is read at most outRate bytes per second.
type paced struct {
	*os.File
	rate rate
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.File.Read(b)
	time.Sleep(p.rate.take(n, outRate))
	return n, err
}

// rate counts bytes within the current second.
type rate struct {
	since time.Time
	bytes int
}

// take counts n bytes and returns how long to wait.
func (r *rate) take(n, most int) time.Duration {
	now := time.Now()
	if now.Sub(r.since) >= time.Second {
		r.since, r.bytes = now, 0
	}
	r.bytes += n
	if r.bytes <= most {
		return 0
	}
	return time.Second - now.Sub(r.since)
}
