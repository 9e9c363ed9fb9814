package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sessions"
	"github.com/sandboxd/sandboxd/tool"
)

// session is a session on the wire.
type session struct {
	ID        string            `json:"id"`
	Dir       string            `json:"cwd"`
	Mode      string            `json:"mode"`
	Profile   string            `json:"profile"`
	Title     string            `json:"title"`
	Tag       string            `json:"tag"`
	Metadata  json.RawMessage   `json:"metadata,omitempty"`
	Groups    map[string]bool   `json:"groups,omitempty"`
	Tools     map[string]bool   `json:"tools,omitempty"`
	Sandbox   *sandbox.Settings `json:"sandbox,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	// SystemMessages is what hooks say to the model as the session begins.
	SystemMessages []string `json:"system_messages,omitempty"`
}

func wireSession(s tool.Session) session {
	return session{
		ID: s.ID, Dir: s.Dir, Mode: s.Mode, Profile: s.Profile, Title: s.Title, Tag: s.Tag, Metadata: s.Metadata,
		Groups: s.Groups, Tools: s.Tools, Sandbox: s.Sandbox, CreatedAt: s.Created.UTC(), UpdatedAt: s.Updated.UTC(),
	}
}

// newSession is what a session begins with.
type newSession struct {
	ID       string          `json:"id"`
	Dir      string          `json:"cwd"`
	Mode     string          `json:"mode"`
	Tag      string          `json:"tag"`
	Title    string          `json:"title"`
	Metadata json.RawMessage `json:"metadata"`
	// Reuse answers the latest session of this directory and tag, if there
	// is one, instead of making another.
	Reuse bool `json:"reuse"`
}

func (s *Server) createSession(r *http.Request) (any, error) {
	var in newSession
	if err := read(r, &in); err != nil {
		return nil, err
	}
	me := caller(r)
	dir, err := s.directory(or(in.Dir, s.Roots[0]), me.home)
	if err != nil {
		return nil, err
	}
	mode, err := s.mode(in.Mode, me.role)
	if err != nil {
		return nil, err
	}
	want := tool.Session{
		ID: in.ID, Account: me.account, Dir: dir, Home: me.home, Mode: mode, Profile: s.Profile,
		Tag: in.Tag, Title: in.Title, Metadata: in.Metadata,
	}
	if in.Reuse {
		if in.ID != "" {
			return nil, badRequest("reuse and id exclude each other")
		}
		got, fresh, err := s.Sessions.Ensure(r.Context(), want)
		if err != nil || !fresh {
			return wireSession(got), err
		}
		return s.begun(r, got), nil
	}
	got, err := s.Sessions.Create(r.Context(), want)
	if err != nil {
		return nil, err
	}
	return s.begun(r, got), nil
}

// directory resolves a working directory and holds it against the roots: an agent
// must not widen what it is given.
func (s *Server) directory(dir, home string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", badRequest(fmt.Sprintf("cwd %q is not absolute", dir))
	}
	phys, err := sandbox.Resolve(dir, "/", home)
	if err != nil {
		return "", badRequest(err.Error())
	}
	inside := false
	for _, root := range s.Roots {
		inside = inside || sandbox.Within(phys, root)
	}
	if !inside {
		return "", forbidden("cwd_outside_workspace", fmt.Sprintf("%s is outside the workspace", phys), fmt.Sprintf("workspace.roots: %v", s.Roots))
	}
	if fi, err := os.Stat(phys); err != nil || !fi.IsDir() {
		return "", badRequest(fmt.Sprintf("cwd %q is not a directory", phys))
	}
	return phys, nil
}

// mode is the mode of a new session; an agent may only ask for one that is no
// looser than sessions.maxMode.
func (s *Server) mode(mode string, role tool.Role) (string, error) {
	if mode == "" {
		return s.Mode, nil
	}
	if !policy.ValidMode(mode) {
		e := badRequest(fmt.Sprintf("unknown mode %q", mode))
		e.said.Hint = fmt.Sprintf("modes are: %v", policy.Modes)
		return "", e
	}
	if role == tool.RoleAgent && policy.Looser(mode, s.MaxMode) {
		return "", forbidden("mode_not_allowed", fmt.Sprintf("an agent may not have mode %q", mode), "the loosest is "+s.MaxMode+"; an operator can set another")
	}
	return mode, nil
}

func (s *Server) listSessions(r *http.Request) (any, error) {
	p, err := paging(r)
	if err != nil {
		return nil, err
	}
	f := sessions.Filter{
		ByUpdated: r.FormValue("sort_by") == "updated_at", Ascending: r.FormValue("sort_order") == "asc",
		Limit: p.Limit, Offset: p.Offset,
	}
	found, total, err := s.Sessions.List(r.Context(), caller(r).account, f)
	if err != nil {
		return nil, err
	}
	out := make([]session, 0, len(found))
	for _, x := range found {
		out = append(out, wireSession(x))
	}
	return p.list(out, len(out), total), nil
}

func (s *Server) session(r *http.Request) (tool.Session, error) {
	return s.Sessions.Session(r.Context(), caller(r).account, r.PathValue("id"))
}

func (s *Server) getSession(r *http.Request) (any, error) {
	got, err := s.session(r)
	return wireSession(got), err
}

// sessionChange is what is changed of a session.
type sessionChange struct {
	Title    *string         `json:"title"`
	Tag      *string         `json:"tag"`
	Metadata json.RawMessage `json:"metadata"`
	Mode     *string         `json:"mode"`
	Profile  *string         `json:"profile"`
	Sandbox  json.RawMessage `json:"sandbox"`
}

func (s *Server) patchSession(r *http.Request) (any, error) {
	var in sessionChange
	if err := read(r, &in); err != nil {
		return nil, err
	}
	me := caller(r)
	if me.role == tool.RoleAgent && (in.Mode != nil || in.Profile != nil || in.Sandbox != nil) {
		return nil, forbidden("operator_only", "mode, profile and sandbox are changed by operators", "use the operator socket")
	}
	if in.Mode != nil {
		if _, err := s.mode(*in.Mode, me.role); err != nil {
			return nil, err
		}
	}
	if in.Profile != nil && *in.Profile != "strict" && *in.Profile != "light" {
		return nil, badRequest(fmt.Sprintf("unknown profile %q, want strict or light", *in.Profile))
	}
	settings, err := s.settings(in.Sandbox)
	if err != nil {
		return nil, err
	}
	got, err := s.Sessions.Patch(r.Context(), me.account, r.PathValue("id"), func(t *tool.Session) error {
		set(&t.Title, in.Title)
		set(&t.Tag, in.Tag)
		set(&t.Mode, in.Mode)
		set(&t.Profile, in.Profile)
		if in.Metadata != nil {
			t.Metadata = in.Metadata
		}
		if settings != nil {
			t.Sandbox = settings
		}
		return nil
	})
	if err == nil && in.Mode != nil {
		s.Policy.ModeChanged(got.ID)
	}
	if err == nil {
		s.changed(EventSessionChanged, got.Account, got.ID)
	}
	return wireSession(got), err
}

// settings merges what an operator gives over the daemon's own; nil is unchanged.
func (s *Server) settings(doc json.RawMessage) (*sandbox.Settings, error) {
	if doc == nil {
		return nil, nil
	}
	merged, err := s.Settings.Merge(doc)
	if err != nil {
		return nil, badRequest("sandbox: " + err.Error())
	}
	merged, _, err = merged.Normalise()
	if err != nil {
		return nil, badRequest("sandbox: " + err.Error())
	}
	return &merged, nil
}

func (s *Server) changed(what EventType, account, session string) {
	s.Events.Publish(Event{Type: what, Account: account, Session: session})
}

func set(to, from *string) {
	if from != nil {
		*to = *from
	}
}

func (s *Server) deleteSession(r *http.Request) (any, error) {
	id := r.PathValue("id")
	gone, err := s.Sessions.Session(r.Context(), caller(r).account, id)
	if err != nil {
		return nil, err
	}
	if err := s.Sessions.Delete(r.Context(), caller(r).account, id); err != nil {
		return nil, err
	}
	s.changed(EventSessionDeleted, caller(r).account, id)
	defer s.tellHooks(r, hooks.SessionEnd, gone) // when nothing of it is left
	// What runs in it ends, and its private files go before anybody can make
	// another session of that name.
	if err := s.Backend.Forget(id); err != nil {
		return nil, err
	}
	if err := s.Hooks.Forget(r.Context(), id); err != nil {
		return nil, err
	}
	if err := s.Approvals.CancelSession(r.Context(), id, "the session was deleted"); err != nil {
		return nil, err
	}
	return deleted{id, true}, nil
}

func (s *Server) listTools(r *http.Request) (any, error) {
	got, err := s.session(r)
	if err != nil {
		return nil, err
	}
	return tool.Definitions(s.Tools.Enabled(got), or(r.FormValue("format"), "anthropic"))
}

func (s *Server) prompt(r *http.Request) (any, error) {
	got, err := s.session(r)
	if err != nil {
		return nil, err
	}
	return promptText{s.Tools.Prompt(got)}, nil
}

func (s *Server) enableGroup(r *http.Request) (any, error) {
	return s.enable(r, func(t *tool.Session, name string, on bool) (err error) {
		t.Groups, err = s.Tools.ToggleGroup(*t, name, &on)
		return err
	})
}

func (s *Server) enableTool(r *http.Request) (any, error) {
	return s.enable(r, func(t *tool.Session, name string, on bool) (err error) {
		t.Tools, err = s.Tools.SetTool(*t, name, on)
		return err
	})
}

// enableRequest is on or off.
type enableRequest struct {
	Enabled *bool `json:"enabled"`
}

func (s *Server) enable(r *http.Request, change func(*tool.Session, string, bool) error) (any, error) {
	var in enableRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.Enabled == nil {
		return nil, badRequest("enabled is missing")
	}
	got, err := s.Sessions.Patch(r.Context(), caller(r).account, r.PathValue("id"), func(t *tool.Session) error {
		return change(t, r.PathValue("name"), *in.Enabled)
	})
	return wireSession(got), err
}

// page is which part of a list is wanted.
type page struct{ Limit, Offset int }

// list is a part of a list with its place in the whole.
type list struct {
	Data any  `json:"data"`
	Meta meta `json:"meta"`
}

type meta struct {
	Total   int  `json:"total"`
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"has_more"`
}

func paging(r *http.Request) (page, error) {
	p := page{Limit: 50}
	for name, to := range map[string]*int{"limit": &p.Limit, "offset": &p.Offset} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || name == "limit" && (n < 1 || n > 100) {
			return p, badRequest(fmt.Sprintf("%s=%q: limit is 1 to 100, offset 0 or more", name, text))
		}
		*to = n
	}
	return p, nil
}

func (p page) list(data any, n, total int) list {
	return list{data, meta{total, p.Limit, p.Offset, p.Offset+n < total}}
}
