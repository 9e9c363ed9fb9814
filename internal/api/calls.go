package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

func (s *Server) callRoutes() []route.Route {
	return []route.Route{
		{
			Pattern: "POST /sessions/{id}/calls", Role: tool.RoleAgent, Keeps: true, Handle: s.call,
			Spec: route.Spec{
				ID:      "call",
				Summary: "Run one call, or several; several are answered by a list",
				Query:   []route.Param{{Name: "output", Type: "boolean"}}, // false: no events with output
				In:      route.OneOf{oneCall{}, severalCalls{}},
				Out:     route.OneOf{tool.Result{}, []tool.Result{}}, Events: callEvents(tool.Result{}),
			},
		},
		{
			Pattern: "GET /calls", Role: tool.RoleAgent, Results: true, Handle: s.listCalls,
			Spec: route.Spec{
				ID: "listCalls", Summary: "Calls of this account, or of one session, that run",
				Query: []route.Param{{Name: "session_id"}}, Out: []pipeline.State{},
			},
		},
		{
			Pattern: "GET /calls/{id}", Role: tool.RoleAgent, Results: true, Handle: s.getCall,
			Spec: route.Spec{
				ID: "getCall", Summary: "A call that runs, or ended lately; as events, what comes of it",
				Out: pipeline.State{}, Events: callEvents(tool.Result{}),
			},
		},
		{
			Pattern: "POST /calls/{id}/cancel", Role: tool.RoleAgent, Handle: s.cancelCall,
			Spec: route.Spec{ID: "cancelCall", Summary: "Cancel a call", Out: cancelled{}},
		},
		{
			Pattern: "POST /decide", Role: tool.RoleAgent, Keeps: true, Handle: s.decide,
			Spec: route.Spec{
				ID:      "decide",
				Summary: "Judge a call that somebody else runs, and wait for a person if wanted; nothing runs",
				In:      decideRequest{}, Out: decided{}, Events: callEvents(decided{}),
			},
		},
		{
			Pattern: "POST /check", Role: tool.RoleAgent, Handle: s.check,
			Spec: route.Spec{
				ID: "check", Summary: "What the guard alone sees in a command or a path",
				In:  route.OneOf{checkCommand{}, checkPath{}},
				Out: route.OneOf{guard.CommandAnswer{}, guard.PathAnswer{}},
			},
		},
	}
}

// maxBatch is how many calls one request may hold, and maxWord how many bytes a name or an
// id in it may have.
const (
	maxBatch = 1000
	maxWord  = 256
)

// oneCall is the request for one call.
type oneCall struct {
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Context   tool.Host       `json:"context,omitempty"`
	DryRun    bool            `json:"dry_run,omitempty"`
}

// callRequest is one call, or several.
type callRequest struct {
	oneCall
	Calls []oneCall `json:"calls,omitempty"`
}

// severalCalls is the form of a callRequest with several calls; oneCall is the form with one.
type severalCalls struct {
	Calls []oneCall `json:"calls"`
}

func (s *Server) call(r *http.Request) (any, error) {
	var in callRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" && route.AcceptsEvents(r) {
		return s.resume(r, "", last) // the call was made before; it does not run again
	}
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	if err := userOf(route.CallerOf(r)).Missing(); err != nil {
		return nil, rightsNotTaken(err)
	}
	if in.Calls == nil {
		req, err := s.request(r, in.oneCall)
		if err != nil {
			return nil, err
		}
		return s.follow(r, req, func(ctx context.Context, req tool.Request) any { return s.Pipeline.Do(ctx, req) })
	}
	if route.AcceptsEvents(r) {
		return nil, route.BadRequest("events are sent of one call, not of several: send each by itself, or accept JSON")
	}
	if one := in.oneCall; one.Tool != "" || one.Args != nil || one.ToolUseID != "" || one.DryRun ||
		one.Context != (tool.Host{}) { // a dry run of calls would run them
		return nil, route.BadRequest("a request holds either one call or calls, not both")
	}
	if len(in.Calls) > maxBatch {
		return nil, route.BadRequest(fmt.Sprintf("%d calls in one request, %d at most", len(in.Calls), maxBatch))
	}
	reqs := make([]tool.Request, len(in.Calls))
	for i, c := range in.Calls {
		if reqs[i], err = s.request(r, c); err != nil {
			return nil, fmt.Errorf("calls[%d]: %w", i, err)
		}
	}
	return route.Items(func(yield func(any, error) bool) {
		for result := range s.Pipeline.DoAll(r.Context(), sess, reqs) {
			if !yield(result, nil) {
				return
			}
		}
	}), nil
}

func (s *Server) request(r *http.Request, c oneCall) (tool.Request, error) {
	if c.Tool == "" {
		return tool.Request{}, route.BadRequest("tool is missing")
	}
	for name, s := range map[string]string{
		"tool": c.Tool, "tool_use_id": c.ToolUseID, "context.branch_id": c.Context.Branch,
		"context.floor_id": c.Context.Floor, "context.page_id": c.Context.Page,
	} {
		if len(s) > maxWord { // records, events and messages keep them
			return tool.Request{}, route.BadRequest(fmt.Sprintf("%s has %d bytes, %d at most", name, len(s), maxWord))
		}
	}
	if len(c.Args) > 0 && c.Args[0] != '{' {
		return tool.Request{}, route.BadRequest("args must be an object")
	}
	me := route.CallerOf(r)
	user := userOf(me)
	return tool.Request{
		Account: me.Account, Role: me.Role, User: user, RunsAs: user.Rights(), Session: r.PathValue("id"),
		By:   &tool.Identity{UID: me.UID, GID: me.GID, Groups: me.Groups, Name: me.Name, Home: me.Home},
		Tool: c.Tool, Args: c.Args, ToolUseID: c.ToolUseID, Host: c.Context, DryRun: c.DryRun,
	}, nil
}

// requestIn returns the request for a call in a session that the body names, not the path.
func (s *Server) requestIn(r *http.Request, session string, c oneCall) (tool.Request, error) {
	me, err := s.ownerOf(r.Context(), route.CallerOf(r), session)
	if err != nil {
		return tool.Request{}, err
	}
	sess, err := s.Sessions.Session(r.Context(), me.Account, session)
	if err != nil {
		return tool.Request{}, err
	}
	req, err := s.request(r, c)
	req.Account, req.Session = sess.Account, session
	return req, err
}

func (s *Server) listCalls(r *http.Request) (any, error) {
	me, session := route.CallerOf(r), r.URL.Query().Get("session_id")
	if session == "" {
		return s.Pipeline.Calls(me.Account), nil
	}
	me, err := s.ownerOf(r.Context(), me, session)
	if err != nil {
		return nil, err
	}
	all := s.Pipeline.Calls(me.Account)
	return slices.DeleteFunc(all, func(c pipeline.State) bool { return c.SessionID != session }), nil
}

func (s *Server) getCall(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if route.AcceptsEvents(r) {
		return s.resume(r, id, r.Header.Get("Last-Event-ID"))
	}
	state, ok := s.Pipeline.Call(route.CallerOf(r).Account, id)
	if !ok {
		return nil, noCall(id)
	}
	return state, nil
}

func (s *Server) cancelCall(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if !s.Pipeline.Cancel(route.CallerOf(r).Account, id) {
		return nil, noCall(id)
	}
	return cancelled{id, true}, nil
}

// decideRequest is a call that the client runs itself.
type decideRequest struct {
	Session string          `json:"session_id"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args,omitempty"`
	Dir     string          `json:"cwd,omitempty"`
	Home    string          `json:"home,omitempty"`    // HOME of the client, where ~ leads
	Wait    bool            `json:"wait,omitempty"`    // if the verdict is ask, wait until a person answers
	Lease   bool            `json:"hold,omitempty"`    // keep what may run for POST /calls/{id}/run
	Typed   bool            `json:"typed,omitempty"`   // the client may type into the program, unjudged
	Outside bool            `json:"outside,omitempty"` // the client's own tool: only its name and its host are judged
}

// decide judges a call that the client runs itself. The daemon runs nothing.
func (s *Server) decide(r *http.Request) (any, error) {
	var in decideRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	me := route.CallerOf(r)
	if in.Session == "" {
		return nil, route.BadRequest("session_id is missing")
	}
	if in.Outside && in.Lease {
		return nil, route.BadRequest("outside and hold: the daemon cannot run a tool that it does not have")
	}
	req, err := s.requestIn(r, in.Session, oneCall{Tool: in.Tool, Args: in.Args})
	if err != nil {
		return nil, err
	}
	if in.Dir != "" {
		if req.Dir, err = s.directory(in.Dir, me.Home); err != nil {
			return nil, err
		}
	}
	req.RunsAs = clientRights(me)
	if in.Home != "" && in.Home != me.Home {
		if in.Lease {
			return nil, route.BadRequest("home and hold: in the sandbox, the home is that of the session, " + me.Home)
		}
		if !filepath.IsAbs(in.Home) || len(in.Home) >= unix.PathMax {
			return nil, route.BadRequest(
				fmt.Sprintf("home must be an absolute path of less than %d bytes", unix.PathMax))
		}
		req.Home = in.Home
		// Nobody's answer about ~ of one home is one for another.
		req.RunsAs = cmp.Or(req.RunsAs, "the daemon") + " with HOME=" + in.Home
	}
	req.Ask, req.Lease, req.Outside, req.Typed = in.Wait, in.Lease, in.Outside, in.Typed
	req.Theirs = !in.Lease
	return s.follow(r, req, func(ctx context.Context, req tool.Request) any {
		return decidedOf(ctx, s.Pipeline.Decide(ctx, req), in.Args)
	})
}

// decidedOf returns the answer about a judged call that came with these arguments.
func decidedOf(ctx context.Context, c *tool.Call, args json.RawMessage) decided {
	out := decided{CallID: c.ID, Decision: decisionOf(c), Approval: c.Approval}
	if pipeline.RoomToTell(ctx, c) { // the facts are made and encoded once more
		if facts, err := input.New(c); err == nil {
			out.Facts = facts
		}
	}
	if string(c.In.Args) != string(args) {
		out.Args = c.In.Args
	}
	return out
}

// decisionOf returns the decision about a judged call, with the answer of a person in it. If judging failed, the
// decision is a denial.
func decisionOf(c *tool.Call) tool.Decision {
	d := c.Decision
	if e := c.Result.Error; e != nil && (d.Verdict != tool.Deny || len(d.Reasons) == 0) {
		why := tool.Reason{Rule: "core." + e.Code, Code: e.Code, Hint: e.Hint}
		why.Message = cmp.Or(c.Result.RejectReason, e.Msg)                   // for the model
		if a := c.Approval; a != nil && a.Code != "" && len(d.Reasons) > 0 { // no person has given a reason
			asked := d.Reasons[0]
			why.Message += fmt.Sprintf("; asked by %s: %s", asked.Rule, asked.Message)
			why.Hint, why.At = cmp.Or(why.Hint, asked.Hint), asked.At
		}
		return tool.Decision{
			Verdict: tool.Deny, Revision: d.Revision, By: tool.ByCore, Reasons: []tool.Reason{why},
		}
	}
	if a := c.Approval; a != nil && a.Approved && d.Verdict == tool.Ask {
		d.Verdict = tool.Allow
		d.Reasons = append([]tool.Reason{{Rule: "person", Message: "allowed by " + a.By}}, d.Reasons...)
	}
	return d
}

// checkRequest is a command or a path for the guard to look at.
type checkRequest struct {
	Command  *string         `json:"command,omitempty"`
	Path     *string         `json:"path,omitempty"`
	Op       guard.Op        `json:"op,omitempty"`
	Dir      string          `json:"cwd,omitempty"`
	Home     string          `json:"home,omitempty"`
	Settings json.RawMessage `json:"settings,omitempty"`
}

// checkCommand and checkPath are the two forms of a checkRequest.
type (
	checkCommand struct {
		Command  string          `json:"command"`
		Dir      string          `json:"cwd,omitempty"`
		Home     string          `json:"home,omitempty"`
		Settings *guard.Settings `json:"settings,omitempty"`
	}
	checkPath struct {
		Path     string          `json:"path"`
		Op       guard.Op        `json:"op"`
		Dir      string          `json:"cwd,omitempty"`
		Home     string          `json:"home,omitempty"`
		Settings *guard.Settings `json:"settings,omitempty"`
	}
)

// check says what the guard alone decides under given settings. It asks no policy. The guard sees what the caller
// could see, and nothing of what the daemon denies.
func (s *Server) check(r *http.Request) (any, error) {
	var in checkRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	dir, err := s.startDir(in.Dir)
	if err != nil {
		return nil, err
	}
	settings := s.Settings
	if w, err := s.Workspaces.Of(dir); err == nil {
		settings = w.Settings
	}
	if in.Settings != nil {
		if settings, err = guard.ParseSettings(in.Settings); err != nil {
			return nil, route.BadRequest("settings: " + err.Error())
		}
	}
	me := route.CallerOf(r)
	home := cmp.Or(in.Home, me.Home)
	if !filepath.IsAbs(dir) || !filepath.IsAbs(home) {
		return nil, route.BadRequest("cwd and home must be absolute")
	}
	hidden := s.Settings.DeniedPaths // also if the caller's settings leave them out
	var answer any
	var judge func()
	switch {
	case in.Command != nil && in.Path == nil:
		if err := pipeline.RoomToJudge(r.Context(), len(*in.Command)); err != nil {
			return nil, err
		}
		judge = func() { answer = guard.JudgeCommand(*in.Command, dir, home, settings, hidden...).CommandAnswer() }
	case in.Path != nil && in.Command == nil && (in.Op == guard.Read || in.Op == guard.Write):
		judge = func() { answer = guard.JudgePath(*in.Path, in.Op, dir, home, settings, hidden...).PathAnswer() }
	default:
		return nil, route.BadRequest(`give either command, or path and op ("read" or "write")`)
	}
	err = userOf(me).Do(func() error { judge(); return nil })
	return answer, rightsNotTaken(err)
}

// rightsNotTaken adds what to do to a [sandbox.RightsError].
func rightsNotTaken(err error) error {
	if e, ok := errors.AsType[*sandbox.RightsError](err); ok {
		return route.Forbidden("rights_not_taken", e.Why, e.Hint)
	}
	return err
}

// userOf returns the user with whose rights the guard looks at files: the caller.
func userOf(me route.Caller) sandbox.User {
	return sandbox.NewUser(me.UID, me.GID, me.Groups, me.Name, me.Home)
}

// clientRights names the rights that the caller has for what it runs itself.
func clientRights(me route.Caller) string { return sandbox.RightsOf(me.UID, me.GID, me.Groups) }
