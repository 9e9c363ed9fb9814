package api

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

func (s *Server) leaseRoutes() []route.Route {
	return []route.Route{
		{
			Pattern: "POST /calls/{id}/run", Role: tool.RoleAgent, Keeps: true, Handle: s.runLease,
			Spec: route.Spec{
				ID: "runLease",
				Summary: "Run a call that /decide kept, in a cage of the client: a run event with a call to start, " +
					"then its result",
				Events: route.OneOf{tool.Lease{}, tool.Waiting{}, tool.Closed{}, tool.Result{}},
			},
		},
		{
			Pattern: "POST /calls/{id}/ended", Role: tool.RoleAgent, Handle: s.endLease,
			Spec: route.Spec{
				ID:      "endLease",
				Summary: "How a call that the client runs has ended", In: tool.LeaseEnd{},
				Out: route.Recorded{},
			},
		},
		{
			Pattern: "POST /calls/{id}/connect", Role: tool.RoleAgent, Handle: s.connectLease,
			Spec: route.Spec{
				ID:      "connectLease",
				Summary: "Whether a call that the client runs may connect; waits while a person is asked",
				In:      tool.LeaseConnection{}, Out: tool.LeaseVerdict{},
			},
		},
	}
}

// runLease gives an offered call to the client: first an event run, which says what to start, and after the end an
// event result. The connection stays open in between, so that each side notices when the other one is gone.
func (s *Server) runLease(r *http.Request) (any, error) {
	me := route.CallerOf(r)
	id, account := r.PathValue("id"), me.Account
	if state, ok := s.Pipeline.Call(account, id); !ok || !state.Leased {
		return nil, pipeline.NoLease(id)
	}
	return route.Stream(func(w *route.Writer) error {
		var emit func(tool.Progress)
		if route.AcceptsEvents(r) { // an older client takes every event except result for a call to start
			emit = tell(w)
		}
		// This is the context of the request, not of the stream: when the daemon stops, running calls get time to
		// finish, and streams do not.
		start := func(c *tool.Call) error { return s.sendLease(w, c) }
		result, err := s.Pipeline.Lease(r.Context(), account, clientRights(me), id, start, emit)
		if err != nil { // another client was faster
			result = tool.Result{CallID: id, Status: tool.StatusError, Error: err.(*tool.Error), FinalText: err.Error()}
		}
		return w.Send("result", result)
	}), nil
}

func (s *Server) sendLease(w *route.Writer, c *tool.Call) error {
	argv, err := c.Tool.(tool.Program).Argv(c.In)
	if err != nil {
		return err
	}
	var bound []sandbox.Approved
	var siblings []guard.Sibling
	if c.Approved() {
		bound, siblings = c.Binding.Files, c.Facts.Uses.Siblings
	}
	settings := c.Settings
	settings.Network = settings.Network.Withheld() // the client gets no secret, so it need not know where secrets are
	return w.Send("run", tool.Lease{
		Bound: bound, Siblings: siblings,
		CallID: c.ID, Session: c.Session.ID, Argv: argv, Dir: c.In.Dir, Home: c.In.Home, Profile: c.Session.Profile,
		Settings: settings, Private: s.Private, Roots: c.Workspace.Roots,
	})
}

// endLease takes the end of a leased call from the client. The daemon cannot check what the client reports.
func (s *Server) endLease(r *http.Request) (any, error) {
	var in tool.LeaseEnd
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	id, end := r.PathValue("id"), pipeline.LeaseEnd{Report: in.Report}
	if in.Network != nil {
		end.Network.Merge(*in.Network)
	}
	if in.Failure != "" {
		end.Err = &tool.Error{Code: "not_started", Msg: in.Failure}
	}
	end.Output = tool.Output{
		Data: in, Text: fmt.Sprintf("exit status %d", in.ExitCode),
		Usage: &sandbox.Usage{CPU: time.Duration(in.CPUMS) * time.Millisecond, MaxRSSBytes: in.MaxRSS},
	}
	me := route.CallerOf(r)
	if !s.Pipeline.EndLease(me.Account, clientRights(me), id, end) {
		return nil, pipeline.NoLease(id)
	}
	return route.Recorded{Recorded: true}, nil
}

// tell writes progress as events. A client that has left has ended its call thereby, so a failed write needs no
// further handling.
func tell(w *route.Writer) func(tool.Progress) {
	var mu sync.Mutex
	return func(p tool.Progress) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case p.Began != nil:
			_ = w.Send("begin", p.Began)
		case p.Waiting != nil:
			_ = w.Send("waiting", p.Waiting)
		case p.Closed != nil:
			_ = w.Send("closed", p.Closed)
		}
	}
}

// connectLease judges a connection of a program that the client runs. The cage of the client enforces the decision.
func (s *Server) connectLease(r *http.Request) (any, error) {
	var in tool.LeaseConnection
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	host, err := guard.CanonicalHost(in.Host)
	if err != nil {
		return nil, route.BadRequest(err.Error())
	}
	me, id := route.CallerOf(r), r.PathValue("id")
	v, ok := s.Pipeline.ConnectLease(r.Context(), me.Account, clientRights(me), id, egress.Connection{
		Host: host, Port: in.Port, Protocol: in.Protocol, Method: in.Method, Path: in.Path, Via: in.Via,
	})
	if !ok {
		return nil, pipeline.NoLease(id)
	}
	return tool.LeaseVerdict{Allow: v.Allow, Rule: v.Rule, Reason: v.Reason, Hint: v.Hint}, nil
}
