package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/audit"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/tool"
)

func (s *Server) health(*http.Request) (any, error) { return health{"ok"}, nil }

func (s *Server) status(*http.Request) (any, error) {
	p := s.Policy.Status()
	return daemonStatus{
		Version: s.Version, Uptime: int(time.Since(s.Started).Seconds()), Config: s.Daemon.Config(), RoleSplit: s.RoleSplit,
		Sandbox: s.Backend.Probe(), Policy: policyStatus{p.Profile, p.Revision, p.Failure}, Pending: s.Approvals.Pending(), Roots: s.Roots,
	}, nil
}

func (s *Server) listApprovals(r *http.Request) (any, error) {
	p, err := paging(r)
	if err != nil {
		return nil, err
	}
	f := approvals.Filter{Status: r.FormValue("status"), Session: r.FormValue("session_id"), Limit: p.Limit, Offset: p.Offset}
	found, err := s.Approvals.List(r.Context(), f)
	if err != nil {
		return nil, err
	}
	if found.Items == nil {
		found.Items = []approvals.Item{}
	}
	return p.list(found.Items, len(found.Items), found.Total), nil
}

func (s *Server) getApproval(r *http.Request) (any, error) {
	return s.Approvals.Get(r.Context(), r.PathValue("id"))
}

// answerRequest is a person's answer.
type answerRequest struct {
	Approved *bool           `json:"approved"`
	Reason   string          `json:"reason"`
	Remember string          `json:"remember"`
	Args     json.RawMessage `json:"args"`
}

func (s *Server) answerApproval(r *http.Request) (any, error) {
	var in answerRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.Approved == nil {
		return nil, badRequest("approved is missing")
	}
	return s.Approvals.Decide(r.Context(), r.PathValue("id"), approvals.Decision{
		Approved: *in.Approved, Reason: in.Reason, Remember: in.Remember, Args: in.Args, By: operatorName(r),
	})
}

func operatorName(r *http.Request) string { return fmt.Sprintf("uid:%d", caller(r).uid) }

func (s *Server) listGrants(r *http.Request) (any, error) {
	grants, err := s.Approvals.Grants(r.Context())
	if grants == nil {
		grants = []approvals.Grant{}
	}
	return grants, err
}

func (s *Server) revokeGrant(r *http.Request) (any, error) {
	id := r.PathValue("id")
	return deleted{id, true}, s.Approvals.Revoke(r.Context(), id, operatorName(r))
}

func (s *Server) policies(*http.Request) (any, error) { return s.Policy.Status(), nil }

func (s *Server) reloadPolicies(r *http.Request) (any, error) {
	err := s.Policy.Reload(r.Context())
	said := audit.Event{Name: "reload", Message: "policies reloaded by " + operatorName(r)}
	if err != nil {
		said.Message = "policies kept, for the new ones failed: " + err.Error()
	}
	if err := s.Record.Append(r.Context(), said); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, &tool.Error{Code: "policy_load_failed", Msg: err.Error(), Hint: "the last good policies stay in force"}
	}
	return s.Policy.Status(), nil
}

// reload reads the configuration again; the answer is that of the one in force.
func (s *Server) reload(r *http.Request) (any, error) {
	if err := s.Daemon.Reload(r.Context(), operatorName(r)); err != nil {
		var said *tool.Error
		if !errors.As(err, &said) {
			said = &tool.Error{Code: "config_invalid", Msg: err.Error(), Hint: "the configuration before stays in force"}
		}
		return nil, said
	}
	return s.Daemon.Config(), nil
}

func (s *Server) stopAll(r *http.Request) (any, error) {
	n, err := s.Daemon.StopAll(r.Context(), operatorName(r))
	return stopping{err == nil, n}, err
}

func (s *Server) listHooks(*http.Request) (any, error) {
	return append([]hooks.Info{}, s.Hooks.List()...), nil // none is a list too
}

// auditTail answers the newest lines of the record, oldest first.
func (s *Server) auditTail(r *http.Request) (any, error) {
	n := 50
	if text := r.FormValue("limit"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > 1000 {
			return nil, badRequest("limit is 1 to 1000")
		}
	}
	lines := []json.RawMessage{}
	err := audit.Tail(r.Context(), s.AuditPath, n, false, func(line []byte) error {
		if json.Valid(line) {
			lines = append(lines, append(json.RawMessage(nil), line...))
		}
		return nil
	})
	return lines, err
}

// recordRequest is the line of a command that ran without the daemon.
type recordRequest struct {
	Phase   string            `json:"phase"`
	CallID  string            `json:"call_id"`
	Tool    string            `json:"tool"`
	Digest  string            `json:"digest"`
	Message string            `json:"message"`
	Detail  map[string]string `json:"detail"`
}

// record takes the line of a command that ran without the daemon. It is marked
// with who reported it, for it is only as true as they are.
func (s *Server) record(r *http.Request) (any, error) {
	var in recordRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.Phase != "begin" && in.Phase != "end" {
		return nil, badRequest(`phase is "begin" or "end"`)
	}
	me := caller(r)
	detail := map[string]string{"reported_by": fmt.Sprintf("uid:%d", me.uid)}
	for k, v := range in.Detail {
		detail["said_"+k] = v
	}
	err := s.Record.Append(r.Context(), audit.Event{
		Name: "exec_" + in.Phase, Account: me.account, Call: in.CallID, Tool: in.Tool, Digest: in.Digest, Message: in.Message, Detail: detail,
	})
	return recorded{err == nil}, err
}
