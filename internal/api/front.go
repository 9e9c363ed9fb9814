package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Front holds the sockets while the server behind them is exchanged: a request
// begins and ends on the [Server] that was there when it came in.
//
//	f := api.NewFront(server)
//	go f.Serve(ctx, agents, tool.RoleAgent)
//	f.Swap(other) // after a reload
type Front struct {
	now    atomic.Pointer[Server]
	budget *budget.Budget // outlives a reload, so that a reload does not reset it
	body   time.Duration  // how long the body of a request may take to arrive
	take   time.Duration  // how long a reader may take to accept a piece of an answer
}

// endTime is how long cancelled calls may take to end their processes and to be recorded.
const endTime = 5 * time.Second

// ErrStopAll is the cause of a stop that gives running calls no time.
var ErrStopAll = errors.New("an operator stops everything")

// NewFront returns a front for s.
func NewFront(s *Server) *Front {
	f := &Front{body: bodyTime, take: cmp.Or(s.testOnlyTake, takeTime), budget: budget.New(budget.Limits{})}
	f.Swap(s)
	return f
}

// Swap passes new requests to s from now on.
func (f *Front) Swap(s *Server) {
	limits := s.Limits
	limits.Connections = cmp.Or(s.testOnlyOpenFiles, openFiles()) / connectionsOf
	f.budget.Limit(limits)
	f.now.Store(s)
}

// connectionsOf is the divisor of the open files of this process that gives the number of agents' connections. A
// call opens further files: pipes, and what it reads.
const connectionsOf = 4

// Use returns what agents take of the budget now.
func (f *Front) Use() budget.Use { return f.budget.Use() }

// Admit takes a place in the budget of an account, and returns a context that carries it.
func (f *Front) Admit(ctx context.Context, account string) (admitted context.Context, release func(), err error) {
	hold, err := f.budget.Request(account)
	if err != nil {
		return nil, nil, err
	}
	return budget.With(ctx, hold), hold.Release, nil
}

// account returns the account of a peer. All peers that are refused share one account, and so do all that come by a
// port.
func (f *Front) account(p peer) string {
	if !p.known {
		return "(not known)"
	}
	name, _ := f.now.Load().Account(p.uid)
	return name
}

// Serve answers on a listener until ctx ends. Then it takes no further requests and ends the streams. Running calls
// may finish within Options.StopGrace; after that it cancels them.
func (f *Front) Serve(ctx context.Context, l net.Listener, role tool.Role) error {
	return f.serveOn(ctx, f.listen(l, role), f.handler(role))
}

// ServeAgents is Serve for agents on a listener that does not tell who connects: nothing is known of the calling
// process.
func (f *Front) ServeAgents(ctx context.Context, l net.Listener, who route.LetIn) error {
	h := f.handler(tool.RoleAgent)
	return f.serveOn(ctx, f.listen(l, tool.RoleAgent), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, err := who(w, r)
		if err != nil {
			w.Header().Set("Connection", "close")
			writeError(w, err)
			return
		}
		p := peer{uid: by.UID, gid: by.GID, groups: by.Groups, known: !nameless(by.UID)}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, p)))
	}))
}

func (f *Front) serveOn(ctx context.Context, l net.Listener, h http.Handler) error {
	base, cancelCalls := context.WithCancel(route.WithStop(context.WithoutCancel(ctx), ctx))
	defer cancelCalls()
	srv := &http.Server{
		Handler:           h,
		ConnContext:       withPeer,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHead,
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
		return err // the listener has failed
	}
	<-stopped // the last calls are still being recorded
	return nil
}

func shutdown(srv *http.Server, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return srv.Shutdown(ctx)
}

// As returns the routes of operators for somebody whom a part has let in on its own listener. Only by says who that
// is.
func (f *Front) As(by route.Caller) http.Handler {
	by.Name, by.Home = nameAndHome(by.UID)
	h := f.handler(tool.RoleOperator)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), letInKey{}, by)))
	})
}

// handler gives each request an id, and passes it to the current server.
func (f *Front) handler(role tool.Role) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, start := f.now.Load(), time.Now()
		c := connOf(r)
		if !c.begin() {
			panic(http.ErrAbortHandler)
		}
		defer c.end()
		id := "req_" + rand.Text()
		w.Header().Set("X-Request-Id", id)
		body := &timedBody{ReadCloser: r.Body, c: http.NewResponseController(w), limit: f.body}
		r.Body = body
		defer body.end(r)
		said := &status{ResponseWriter: w, ends: func() bool { return body.left(r) }}
		f.serve(s, said, r, role)
		level, what := slog.LevelDebug, "request"
		switch {
		case said.code < http.StatusInternalServerError:
		// A lack of room is no failure of the daemon, and a client that is refused may ask without end: neither is
		// logged.
		case w.Header().Get("Retry-After") != "", said.code == http.StatusInsufficientStorage:
		case r.Context().Err() != nil: // the client has left, which ended the reading for the answer
			what = "request whose client left"
		default:
			level = slog.LevelError
		}
		if s.Log.Enabled(r.Context(), level) {
			s.Log.Log(r.Context(), level, what, "request_id", id, "role", role, "method", r.Method,
				"path", r.URL.Path, "status", said.code, "ms", time.Since(start).Milliseconds())
		}
	})
}

// serve answers a request if the budget of its account admits it. That check comes first, because everything else
// about the caller costs more to find out. Operators have no budget: they must get through when an agent runs wild.
func (f *Front) serve(s *Server, w http.ResponseWriter, r *http.Request, role tool.Role) {
	r, p := s.withAccount(r)
	if role != tool.RoleOperator && p.known {
		ctx, release, err := f.Admit(r.Context(), p.account)
		if err != nil {
			writeError(w, err)
			return
		}
		defer release()
		r = r.WithContext(ctx)
	}
	s.handlers[role].ServeHTTP(w, r)
}

// status remembers the status of an answer for the log.
type status struct {
	http.ResponseWriter
	code int
	ends func() bool // whether the connection ends with the answer
}

// WriteHeader keeps the status.
func (s *status) WriteHeader(code int) {
	s.code = code
	if s.ends() {
		s.Header().Set("Connection", "close")
	}
	s.ResponseWriter.WriteHeader(code)
}

// Write keeps the status 200 of an answer that names none.
func (s *status) Write(p []byte) (int, error) {
	s.begin()
	return s.ResponseWriter.Write(p)
}

// FlushError is Write of nothing.
func (s *status) FlushError() error {
	s.begin()
	return http.NewResponseController(s.ResponseWriter).Flush()
}

func (s *status) begin() {
	if s.code == 0 {
		s.WriteHeader(http.StatusOK)
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
