package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// parent returns the session whose agent starts a new one, or the zero value. An operator acts for the account of
// that session.
func (s *Server) parent(r *http.Request, me *route.Caller, in newSession) (up tool.Session, err error) {
	switch {
	case in.Parent == nil:
		return up, nil
	case in.Reuse:
		return up, route.BadRequest("reuse and parent exclude each other: each agent has a session of its own")
	}
	if *me, err = s.ownerOf(r.Context(), *me, *in.Parent); err != nil {
		return up, err
	}
	up, err = s.Sessions.Session(r.Context(), me.Account, *in.Parent)
	if gone, ok := errors.AsType[*tool.Error](err); ok && gone.Code == "validation_error" { // the text is no id at all
		return up, route.Missing("session_not_found", fmt.Sprintf("session %.100q not found", *in.Parent))
	}
	return up, err
}

// below returns a new session below its parent: what the request asks for, as far as the parent has it.
func (s *Server) below(want, up tool.Session, in newSession) (tool.Session, error) {
	if in.Agent != nil {
		want.Agent = *in.Agent
		if want.Agent == "" {
			return want, route.BadRequest("agent is empty: leave it out, or give a name")
		}
	}
	if up.ID == "" {
		if in.Only != nil || in.Without != nil {
			return want, route.BadRequest("allowed_tools and disallowed_tools are of a session with a parent")
		}
		return want, nil
	}
	want.Parent, want.Profile, want.Only, want.Without = up.ID, up.Profile, in.Only, in.Without
	want.Begun, want.Tree = up.Begun, up.Tree
	if in.Mode == "" {
		want.Mode = up.Mode
	}
	place, err := s.Workspaces.Of(up.Dir)
	if err != nil {
		return want, err
	}
	if !slices.ContainsFunc(place.Roots, func(root string) bool { return guard.Within(want.Dir, root) }) {
		return want, route.Forbidden("cwd_outside_workspace",
			fmt.Sprintf("cwd %q is outside of the workspace of the parent", want.Dir),
			"an agent works where the one that started it does: "+strings.Join(place.Roots, ", "))
	}
	if want.Mode.LooserThan(up.Mode) {
		return want, route.Forbidden("mode_not_allowed",
			fmt.Sprintf("mode %s is looser than %s, the mode of the parent", want.Mode, up.Mode),
			"leave the mode out to have that of the parent")
	}
	for key, list := range map[string][]string{"allowed_tools": in.Only, "disallowed_tools": in.Without} {
		for _, name := range list {
			if name == "" || len(name) > maxWord || strings.ContainsAny(name, "( ") {
				return want, route.BadRequest(fmt.Sprintf("%s: %.80q is no name of a tool", key, name))
			}
			if key == "disallowed_tools" && !s.Tools.Known(name) {
				return want, route.BadRequest(fmt.Sprintf("disallowed_tools: there is no tool %.80q", name))
			}
		}
	}
	return want, nil
}

// stays refuses a request of a sub-agent that the daemon runs, if the request is not about its own session.
func (s *Server) stays(r *http.Request, me route.Caller) error {
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	switch id := r.PathValue("id"); {
	case path == "/status" || path == "/healthz":
		return nil
	case strings.HasPrefix(path, "/sessions/") && id == me.Only && !strings.HasSuffix(path, "/fork"):
		return nil
	case strings.HasPrefix(path, "/calls/"):
		if c, ok := s.Pipeline.Call(me.Account, id); ok && c.SessionID == me.Only {
			return nil
		}
	}
	return route.Forbidden("not_its_session", "a sub-agent reaches its own session alone",
		"the session_id is in what its program got on stdin")
}
