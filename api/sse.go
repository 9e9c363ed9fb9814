package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// sseWrite is how long a reader may take to accept one event; one that takes
	// longer loses the connection.
	sseWrite = 10 * time.Second
	// ssePing is how often a comment is sent, so that both sides notice when the
	// other is gone.
	ssePing = 15 * time.Second
)

// stream is the answer of a route that sends server-sent events. A route checks
// its request first, so that a wrong one is answered like any other, then returns
// the function that writes:
//
//	return stream(func(w *sse) error { return copySSE(w, ch, func(v T) error { return w.send("name", v) }) }), nil
type stream func(*sse) error

// sse writes server-sent events to one client.
type sse struct {
	ctx context.Context // ends with the client or the daemon
	w   http.ResponseWriter
	c   *http.ResponseController
}

// serveStream runs write. copySSE sends the head at once, so that a client which
// has it misses nothing that happens afterwards.
func serveStream(w http.ResponseWriter, r *http.Request, write stream) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if stopping, ok := ctx.Value(stopKey{}).(context.Context); ok {
		defer context.AfterFunc(stopping, cancel)() // a stream has no grace
	}
	out := &sse{ctx: ctx, w: w, c: http.NewResponseController(w)}
	_ = write(out) // the client is gone, or the daemon stops: nobody is left to tell
}

// send writes one event with v as JSON.
func (s *sse) send(event string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, data))
}

func (s *sse) write(text string) error {
	if err := s.c.SetWriteDeadline(time.Now().Add(sseWrite)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.c.Flush()
}

// copySSE hands each value to send until the client leaves, the daemon stops or
// the channel is closed. Whoever calls has subscribed already.
func copySSE[T any](s *sse, from <-chan T, send func(T) error) error {
	if err := s.write(": ready\n\n"); err != nil {
		return err
	}
	ping := time.NewTicker(ssePing)
	defer ping.Stop()
	for {
		var err error
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case v, open := <-from:
			if !open {
				return nil
			}
			err = send(v)
		case <-ping.C:
			err = s.write(": ping\n\n")
		}
		if err != nil {
			return err
		}
	}
}
