package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// runHeld lends a held call to the client: an event run with what to start, and
// an event result when it has ended. The connection stays open in between, so
// that when one side goes, the other notices.
func (s *Server) runHeld(r *http.Request) (any, error) {
	id, account := r.PathValue("id"), caller(r).account
	if state, ok := s.Pipeline.Call(account, id); !ok || !state.Held {
		return nil, pipeline.NotHeld(id)
	}
	return stream(func(w *sse) error {
		// With the context of the request: a call that runs has the grace of a stop,
		// which a stream has not.
		result, err := s.Pipeline.Lend(r.Context(), account, id, func(c *tool.Call) error {
			return s.lend(w, c)
		})
		if err != nil { // somebody was faster
			result = tool.Result{CallID: id, Status: tool.StatusError, Error: err.(*tool.Error), FinalText: err.Error()}
		}
		return w.send("result", result)
	}), nil
}

func (s *Server) lend(w *sse, c *tool.Call) error {
	argv, err := c.Tool.(tool.Program).Argv(c.In)
	if err != nil {
		return err
	}
	return w.send("run", tool.Lent{
		CallID: c.ID, Session: c.Session.ID, Argv: argv, Dir: c.In.Dir, Home: c.In.Home, Profile: c.Session.Profile,
		Settings: c.Settings, Private: s.Private, Roots: s.Roots,
	})
}

// heldEnded takes how a lent call ended. It is as true as the client is.
func (s *Server) heldEnded(r *http.Request) (any, error) {
	var in tool.LentEnd
	if err := read(r, &in); err != nil {
		return nil, err
	}
	id, end := r.PathValue("id"), pipeline.Ended{Report: in.Report}
	if in.Failure != "" {
		end.Err = &tool.Error{Code: "not_started", Msg: in.Failure}
	}
	end.Output = tool.Output{
		Data: in, Text: fmt.Sprintf("exit status %d", in.ExitCode),
		Usage: &sandbox.Usage{CPU: time.Duration(in.CPUMS) * time.Millisecond, MaxRSSBytes: in.MaxRSS},
	}
	if !s.Pipeline.Ended(caller(r).account, id, end) {
		return nil, pipeline.NotHeld(id)
	}
	return recorded{true}, nil
}
