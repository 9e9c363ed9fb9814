package route

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/jsonout"
)

// ssePing is how often a comment is sent, so that both sides notice when the
// other is gone.
const ssePing = 15 * time.Second

// Stream is the answer of a route that sends server-sent events. A route checks
// its request first, so that a wrong one is answered like any other, then returns
// the function that writes:
//
//	return route.Stream(func(w *route.Writer) error {
//		return route.Copy(w, ch, func(v T) error { return w.Send("name", v) })
//	}), nil
type Stream func(*Writer) error

// Writer writes server-sent events to one client.
type Writer struct {
	Context context.Context // ends with the client or the daemon
	w       http.ResponseWriter
	c       *http.ResponseController
	own     *bufio.Writer // nil: a buffer is borrowed for each event
}

// bufferBytes is how much of an event is written at once.
const bufferBytes = 32 << 10

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, bufferBytes) }}

// ServeStream runs write. Copy sends the head at once, so that a client which
// has it misses nothing that happens afterwards.
func ServeStream(w http.ResponseWriter, r *http.Request, write Stream) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if stopping, ok := ctx.Value(stopKey{}).(context.Context); ok {
		defer context.AfterFunc(stopping, cancel)() // a stream has no grace
	}
	out := &Writer{Context: ctx, w: w, c: http.NewResponseController(w)}
	_ = write(out) // the client is gone, or the daemon stops: nobody is left to tell
}

// SendID writes one event that a client can name, to get those behind it.
func (s *Writer) SendID(id, event string, v any) error {
	if err := s.Add(id, event, v); err != nil {
		return err
	}
	return s.Flush()
}

// Send writes one event with v as JSON.
func (s *Writer) Send(event string, v any) error { return s.SendID("", event, v) }

// Add is SendID for one of several events: Flush sends them.
func (s *Writer) Add(id, event string, v any) error {
	b := s.own
	if b == nil {
		b = borrow(s.w)
		defer buffers.Put(b)
	}
	return encode(b, id, event, v)
}

// Encode returns an event as [Writer.Raw] sends it, for those that many clients get.
func Encode(id, event string, v any) ([]byte, error) {
	var out bytes.Buffer
	b := borrow(&out)
	defer buffers.Put(b)
	err := encode(b, id, event, v)
	return out.Bytes(), err
}

func borrow(to io.Writer) *bufio.Writer {
	b := buffers.Get().(*bufio.Writer)
	b.Reset(to)
	return b
}

// encode writes one event with v as JSON, and the id if there is one.
func encode(b *bufio.Writer, id, event string, v any) error {
	if id != "" {
		b.WriteString("id: ")
		b.WriteString(id)
		b.WriteString("\n")
	}
	b.WriteString("event: ")
	b.WriteString(event)
	b.WriteString("\ndata: ")
	if err := jsonout.Write(b, v); err != nil { // of one line
		return err
	}
	b.WriteString("\n\n")
	return b.Flush()
}

// Buffer gives the stream a buffer of its own, for events that are larger than usual.
func (s *Writer) Buffer(n int) {
	if s.own == nil {
		s.own = bufio.NewWriterSize(s.w, n)
	}
}

// Flush sends the head of the answer, and what was written.
func (s *Writer) Flush() error { return s.c.Flush() }

// Raw sends what Encode has made.
func (s *Writer) Raw(event []byte) error {
	if _, err := s.w.Write(event); err != nil {
		return err
	}
	return s.c.Flush()
}

// NoGrace ends also what is being written when the daemon begins to stop: it would wait for a
// client that takes nothing. It returns what calls that off.
func (s *Writer) NoGrace() (stop func() bool) {
	return context.AfterFunc(s.Context, func() { _ = s.c.SetWriteDeadline(time.Now()) })
}

// Copy hands each value to send until the client leaves, the daemon stops or
// the channel is closed. Whoever calls has subscribed already.
func Copy[T any](s *Writer, from <-chan T, send func(T) error) error {
	defer s.NoGrace()()
	if err := s.Raw([]byte(": ready\n\n")); err != nil {
		return err
	}
	ping := time.NewTicker(ssePing)
	defer ping.Stop()
	for {
		var err error
		select {
		case <-s.Context.Done():
			return s.Context.Err()
		case v, open := <-from:
			if !open {
				return nil
			}
			err = send(v)
		case <-ping.C:
			err = s.Raw([]byte(": ping\n\n"))
		}
		if err != nil {
			return err
		}
	}
}

// stopKey is where a request finds the context that ends when the daemon begins
// to stop; its own context ends later, after the grace.
type stopKey struct{}

// WithStop returns ctx with the context that ends when the daemon begins to stop.
func WithStop(ctx, stopping context.Context) context.Context {
	return context.WithValue(ctx, stopKey{}, stopping)
}

// AcceptsEvents reports whether the client asks for server-sent events. An older
// client does not, and gets one answer as before.
func AcceptsEvents(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(header, ",") {
			if kind, _, err := mime.ParseMediaType(one); err == nil && kind == "text/event-stream" {
				return true
			}
		}
	}
	return false
}
