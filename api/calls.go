package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// maxBatch is how many calls one request may hold.
const maxBatch = 1000

// oneCall is one call on the wire.
type oneCall struct {
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
	ToolUseID string          `json:"tool_use_id"`
	Context   tool.Host       `json:"context"`
	DryRun    bool            `json:"dry_run"`
}

// callRequest is one call, or several.
type callRequest struct {
	oneCall
	Calls []oneCall `json:"calls"`
}

func (s *Server) call(r *http.Request) (any, error) {
	var in callRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	if in.Calls == nil {
		req, err := s.request(r, in.oneCall)
		if err != nil {
			return nil, err
		}
		return s.Pipeline.Do(r.Context(), req), nil
	}
	if in.Tool != "" || in.Args != nil {
		return nil, badRequest("a request holds either one call or calls, not both")
	}
	if len(in.Calls) > maxBatch {
		return nil, badRequest(fmt.Sprintf("%d calls in one request, %d at most", len(in.Calls), maxBatch))
	}
	reqs := make([]tool.Request, len(in.Calls))
	for i, c := range in.Calls {
		if reqs[i], err = s.request(r, c); err != nil {
			return nil, fmt.Errorf("calls[%d]: %w", i, err)
		}
	}
	return s.Pipeline.DoAll(r.Context(), sess, reqs), nil
}

func (s *Server) request(r *http.Request, c oneCall) (tool.Request, error) {
	if c.Tool == "" {
		return tool.Request{}, badRequest("tool is missing")
	}
	if len(c.Args) > 0 && c.Args[0] != '{' {
		return tool.Request{}, badRequest("args must be an object")
	}
	me := caller(r)
	return tool.Request{
		Account: me.account, Role: me.role, Session: r.PathValue("id"),
		Tool: c.Tool, Args: c.Args, ToolUseID: c.ToolUseID, Host: c.Context, DryRun: c.DryRun,
	}, nil
}

func (s *Server) listCalls(r *http.Request) (any, error) {
	return s.Pipeline.Calls(caller(r).account), nil
}

func (s *Server) getCall(r *http.Request) (any, error) {
	state, ok := s.Pipeline.Call(caller(r).account, r.PathValue("id"))
	if !ok {
		return nil, missing("not_found", "no call "+r.PathValue("id")+" runs or ended lately")
	}
	return state, nil
}

func (s *Server) cancelCall(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if !s.Pipeline.Cancel(caller(r).account, id) {
		return nil, missing("not_found", "no call "+id+" runs or ended lately")
	}
	return cancelled{id, true}, nil
}

// decideRequest is a call that somebody else runs.
type decideRequest struct {
	Session string          `json:"session_id"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Dir     string          `json:"cwd"`
	Home    string          `json:"home"`
	Wait    bool            `json:"wait"` // where the verdict is ask, for a person
	Hold    bool            `json:"hold"` // keep what may run for POST /calls/{id}/run
}

// decide judges a call that somebody else runs. It runs nothing.
func (s *Server) decide(r *http.Request) (any, error) {
	var in decideRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	me := caller(r)
	if in.Session == "" {
		return nil, badRequest("session_id is missing")
	}
	if _, err := s.Sessions.Session(r.Context(), me.account, in.Session); err != nil {
		return nil, err
	}
	dir := in.Dir
	if dir != "" {
		var err error
		if dir, err = s.directory(dir, me.home); err != nil {
			return nil, err
		}
	}
	req, err := s.request(r, oneCall{Tool: in.Tool, Args: in.Args})
	if err != nil {
		return nil, err
	}
	req.Session, req.Dir, req.Ask, req.Hold = in.Session, dir, in.Wait, in.Hold
	c := s.Pipeline.Decide(r.Context(), req)
	out := decided{CallID: c.ID, Decision: decisionOf(c), Approval: c.Approval}
	if facts, err := policy.NewInput(c); err == nil {
		out.Facts = facts
	}
	if string(c.In.Args) != string(in.Args) {
		out.Args = c.In.Args
	}
	return out, nil
}

// decisionOf is the decision of a judged call with a person's answer in it; what
// failed before it is a denial.
func decisionOf(c *tool.Call) tool.Decision {
	d := c.Decision
	if e := c.Result.Error; e != nil && (d.Verdict != tool.Deny || len(d.Reasons) == 0) {
		why := or(c.Result.RejectReason, e.Msg) // of a person, for the model
		return tool.Decision{
			Verdict: tool.Deny, Revision: d.Revision, By: tool.ByCore,
			Reasons: []tool.Reason{{Rule: "core." + e.Code, Code: e.Code, Message: why, Hint: e.Hint}},
		}
	}
	if a := c.Approval; a != nil && a.Approved && d.Verdict == tool.Ask {
		d.Verdict = tool.Allow
		d.Reasons = append([]tool.Reason{{Rule: "person", Message: "allowed by " + a.By}}, d.Reasons...)
	}
	return d
}

// checkRequest is what the guard is shown.
type checkRequest struct {
	Command  *string         `json:"command"`
	Path     *string         `json:"path"`
	Op       sandbox.Op      `json:"op"`
	Dir      string          `json:"cwd"`
	Home     string          `json:"home"`
	Settings json.RawMessage `json:"settings"`
}

// check says what the guard alone sees under given settings; no policy is asked.
func (s *Server) check(r *http.Request) (any, error) {
	var in checkRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	settings := s.Settings
	if in.Settings != nil {
		var err error
		if settings, err = sandbox.ParseSettings(in.Settings); err != nil {
			return nil, badRequest("settings: " + err.Error())
		}
	}
	dir, home := or(in.Dir, s.Roots[0]), or(in.Home, caller(r).home)
	if !filepath.IsAbs(dir) || !filepath.IsAbs(home) {
		return nil, badRequest("cwd and home must be absolute")
	}
	switch {
	case in.Command != nil && in.Path == nil:
		return sandbox.JudgeCommand(*in.Command, dir, home, settings).CommandAnswer(), nil
	case in.Path != nil && in.Command == nil && (in.Op == sandbox.Read || in.Op == sandbox.Write):
		return sandbox.JudgePath(*in.Path, in.Op, dir, home, settings).PathAnswer(), nil
	}
	return nil, badRequest(`give either command, or path and op ("read" or "write")`)
}
