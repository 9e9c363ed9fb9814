package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/tool"
)

// decision is the record of one call: what was judged then, by the policies of
// then.
func (s *Server) decision(r *http.Request) (any, error) {
	rec, err := s.Decisions.Find(r.Context(), caller(r).account, r.PathValue("id"))
	if errors.Is(err, policy.ErrNoDecision) {
		return nil, missing("not_found", err.Error())
	}
	return rec, err
}

// explainRequest is a call to explain.
type explainRequest struct {
	Session string          `json:"session_id"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Nearest bool            `json:"nearest"`
}

// explain judges a call again, as it would be judged now, and searches for the
// nearest change after which it would be allowed. It runs nothing but hooks before
// the call.
func (s *Server) explain(r *http.Request) (any, error) {
	var in explainRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	me := caller(r)
	if _, err := s.Sessions.Session(r.Context(), me.account, in.Session); err != nil {
		return nil, err
	}
	req, err := s.request(r, oneCall{Tool: in.Tool, Args: in.Args})
	if err != nil {
		return nil, err
	}
	req.Session = in.Session
	c := s.Pipeline.Decide(r.Context(), req)
	x, err := policy.Explain(c.Decision)
	if err != nil {
		return nil, err
	}
	x.Decision = decisionOf(c)
	if in.Nearest && x.Decision.Verdict != tool.Allow && c.Tool != nil {
		x.Nearest = policy.Nearest(c, func(change policy.Change) bool {
			d, err := s.Pipeline.Rejudge(r.Context(), c, change.Args, change.Mode)
			return err == nil && d.Verdict == tool.Allow && d.Args == nil
		})
	}
	return x, r.Context().Err()
}
