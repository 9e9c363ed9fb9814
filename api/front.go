package api

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/tool"
)

// Front holds the sockets while the server behind them is exchanged: a request
// begins and ends on the [Server] that was there when it came in.
//
//	f := api.NewFront(server)
//	go f.Serve(ctx, agents, tool.RoleAgent)
//	f.Swap(other) // after a reload
type Front struct {
	now   atomic.Pointer[Server]
	loads load
	body  time.Duration // in which the body of a request must arrive
}

// endTime is how long calls that were cancelled get to end their trees and to be
// recorded.
const endTime = 5 * time.Second

// ErrStopAll is the cause of a stop without a grace.
var ErrStopAll = errors.New("an operator stops everything")

// NewFront returns a front before s.
func NewFront(s *Server) *Front {
	f := &Front{body: bodyTime}
	f.Swap(s)
	return f
}

// Swap gives new requests to s.
func (f *Front) Swap(s *Server) { f.now.Store(s) }

// Serve answers on a listener until ctx ends. Then it takes no more requests and
// ends the streams; calls that run may finish within Options.StopGrace, and are
// cancelled after it.
func (f *Front) Serve(ctx context.Context, l net.Listener, role tool.Role) error {
	base, cancelCalls := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), stopKey{}, ctx))
	defer cancelCalls()
	srv := &http.Server{
		Handler:           f.handler(role),
		ConnContext:       withPeer,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(f.now.Load().Log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		if !errors.Is(context.Cause(ctx), ErrStopAll) && shutdown(srv, f.now.Load().StopGrace) == nil {
			return
		}
		cancelCalls()
		if shutdown(srv, endTime) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(l)
	if stop() {
		return err // it ended by itself
	}
	<-stopped // the last calls are still being recorded
	return nil
}

func shutdown(srv *http.Server, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return srv.Shutdown(ctx)
}

// stopKey is where a request finds the context that ends when the daemon begins
// to stop; its own context ends later, after the grace.
type stopKey struct{}

// handler gives each request an id and the server of the moment.
func (f *Front) handler(role tool.Role) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, start := f.now.Load(), time.Now()
		id := "req_" + rand.Text()
		w.Header().Set("X-Request-Id", id)
		said := &status{ResponseWriter: w}
		r.Body = &timedBody{ReadCloser: r.Body, c: http.NewResponseController(w), limit: f.body}
		leave, err := f.loads.enter(s, r, role)
		if err != nil {
			writeError(said, err)
		} else {
			s.handlers[role].ServeHTTP(said, r)
			leave()
		}
		level := slog.LevelDebug
		if said.code >= http.StatusInternalServerError {
			level = slog.LevelError
		}
		if s.Log.Enabled(r.Context(), level) {
			s.Log.Log(r.Context(), level, "request", "request_id", id, "role", role, "method", r.Method,
				"path", r.URL.Path, "status", said.code, "ms", time.Since(start).Milliseconds())
		}
	})
}

// status remembers the status of an answer, for the log.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader keeps the status.
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
