package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

func (s *Server) sessionRoutes() []route.Route {
	return []route.Route{
		{
			Pattern: "POST /sessions", Role: tool.RoleAgent, Keeps: true, Handle: s.createSession,
			Spec: route.Spec{
				ID: "createSession", Summary: "Make a session, or go on with one",
				In: newSession{}, Out: session{}, Created: true, Errors: []int{404, 409, 422},
			},
		},
		{
			Pattern: "GET /sessions", Role: tool.RoleAgent, Handle: s.listSessions,
			Spec: route.Spec{
				ID:      "listSessions",
				Summary: "List sessions", Query: append([]route.Param{
					{Name: "accounts", Enum: []string{"all"}}, // for operators who name no account
					{Name: "sort_by", Enum: []string{"created_at", "updated_at"}},
					{Name: "sort_order", Enum: []string{"asc", "desc"}},
				}, route.PageQuery...),
				Out: []session{}, Paged: true,
			},
		},
		{
			Pattern: "GET /sessions/{id}", Role: tool.RoleAgent, Handle: s.getSession,
			Spec: route.Spec{ID: "getSession", Summary: "One session", Out: session{}},
		},
		{
			Pattern: "PATCH /sessions/{id}", Role: tool.RoleAgent, Keeps: true, Handle: s.patchSession,
			Spec: route.Spec{
				ID:      "patchSession",
				Summary: "Change a session; mode, profile and sandbox are the operator's", In: sessionChange{},
				Out: session{},
			},
		},
		{
			Pattern: "DELETE /sessions/{id}", Role: tool.RoleAgent, Handle: s.deleteSession,
			Spec: route.Spec{ID: "deleteSession", Summary: "Delete a session with its variables", Out: route.Deleted{}},
		},
		{
			Pattern: "GET /sessions/{id}/tools", Role: tool.RoleAgent, Handle: s.listTools,
			Spec: route.Spec{
				ID:      "listTools",
				Summary: "Definitions of the tools that are on, deferred ones if wanted",
				Query: []route.Param{
					{Name: "format", Enum: []string{"anthropic", "openai", "mcp"}}, {Name: "deferred", Type: "boolean"},
				}, Out: []map[string]any{},
			},
		},
		{
			Pattern: "GET /sessions/{id}/prompt", Role: tool.RoleAgent, Handle: s.prompt,
			Spec: route.Spec{ID: "getPrompt", Summary: "Text for the system prompt", Out: promptText{}},
		},
		{
			Pattern: "PUT /sessions/{id}/groups/{name}", Role: tool.RoleOperator, Handle: s.enableGroup,
			Spec: route.Spec{
				ID: "enableGroup", Summary: "Switch a group of tools", In: enableRequest{}, Out: session{},
			},
		},
		{
			Pattern: "PUT /sessions/{id}/tools/{name}", Role: tool.RoleOperator, Handle: s.enableTool,
			Spec: route.Spec{ID: "enableTool", Summary: "Switch a tool", In: enableRequest{}, Out: session{}},
		},
	}
}

// session is a session in an answer.
type session struct {
	ID        string          `json:"id"`
	Parent    string          `json:"parent,omitempty"` // the session whose agent started this one
	Agent     string          `json:"agent,omitempty"`  // its name among the agents
	Dir       string          `json:"cwd"`
	Mode      tool.Mode       `json:"mode"` // never looser than the mode of a session above it
	Profile   sandbox.Profile `json:"profile"`
	Title     string          `json:"title"`
	Tag       string          `json:"tag"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Groups    map[string]bool `json:"groups,omitempty"`
	Tools     map[string]bool `json:"tools,omitempty"`
	Only      []string        `json:"allowed_tools,omitempty"`
	Without   []string        `json:"disallowed_tools,omitempty"`
	Sandbox   *guard.Settings `json:"sandbox,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	Daemon    string          `json:"daemon,omitempty"` // the daemon that made it, if several share the database
	// SystemMessages is what hooks tell the model when the session begins.
	SystemMessages []string `json:"system_messages,omitempty"`
	// These fields come from the transcript.
	Model        string `json:"model,omitempty"`
	Summary      string `json:"summary,omitempty"`
	FirstPrompt  string `json:"first_prompt,omitempty"`
	GitBranch    string `json:"git_branch,omitempty"`
	MessageCount int    `json:"message_count"`
	FileSize     int64  `json:"file_size"`
	Damaged      bool   `json:"transcript_damaged,omitempty"` // the transcript cannot be read
}

func (s *Server) wire(x tool.Session) session {
	out := session{
		ID: x.ID, Parent: x.Parent, Agent: x.Agent, Only: x.Only, Without: x.Without,
		Dir: x.Dir, Mode: x.Mode, Profile: x.Profile, Title: x.Title, Tag: x.Tag, Metadata: x.Metadata,
		Groups: x.Groups, Tools: x.Tools, Sandbox: x.Sandbox, CreatedAt: x.Created.UTC(), UpdatedAt: x.Updated.UTC(),
		Daemon: x.Daemon,
	}
	said, size, err := s.Sessions.Transcript(x.ID)
	if err != nil {
		out.Damaged = s.damaged(x.ID, err) != nil
		return out
	}
	out.Model, out.Summary, out.FirstPrompt, out.GitBranch = said.Model, said.Summary, said.FirstPrompt, said.GitBranch
	out.MessageCount, out.FileSize = said.Messages, size
	return out
}

// newSession is the request for a session.
type newSession struct {
	ID *string `json:"id,omitempty"`
	// Parent is the session whose agent starts this one, and Agent is the name of the new agent. The session may do
	// at most what its parent may. Of the parent's tools it has those in Only, or all, except those in Without.
	Parent  *string  `json:"parent,omitempty"`
	Agent   *string  `json:"agent,omitempty"`
	Only    []string `json:"allowed_tools,omitempty"`
	Without []string `json:"disallowed_tools,omitempty"`

	Dir      string          `json:"cwd,omitempty"`
	Mode     tool.Mode       `json:"mode,omitempty"`
	Tag      string          `json:"tag,omitempty"`
	Title    string          `json:"title,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Reuse answers with the latest session that began in this directory with this tag. Only if there is none, it
	// makes one.
	Reuse bool `json:"reuse,omitempty"`
	// Resume is the id of the session to continue. ContinueRecent continues the one that changed last. Fork
	// continues in a copy. ResumeAt drops the messages after that one.
	Resume         *string `json:"resume,omitempty"`
	ContinueRecent bool    `json:"continue_recent,omitempty"`
	Fork           bool    `json:"fork,omitempty"`
	ResumeAt       *string `json:"resume_at,omitempty"`
}

func (s *Server) createSession(r *http.Request) (any, error) {
	var in newSession
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if in.ID != nil {
		if err := sessions.CheckID(*in.ID); err != nil {
			return nil, err
		}
	}
	if in.Resume != nil || in.ContinueRecent || in.Fork || in.ResumeAt != nil {
		return s.resumeSession(r, in)
	}
	return s.makeSession(r, in)
}

func (s *Server) makeSession(r *http.Request, in newSession) (any, error) {
	me := route.CallerOf(r)
	up, err := s.parent(r, &me, in)
	if err != nil {
		return nil, err
	}
	dir, err := s.startDir(cmp.Or(in.Dir, up.Dir))
	if err != nil {
		return nil, err
	}
	if dir, err = s.directory(dir, me.Home); err != nil {
		return nil, err
	}
	mode, err := s.mode(cmp.Or(in.Mode, s.Mode), me.Role)
	if err != nil {
		return nil, err
	}
	want := tool.Session{
		Account: me.Account, Dir: dir, Home: me.Home, Mode: mode, Profile: s.Profile,
		Tag: in.Tag, Title: in.Title, Metadata: in.Metadata,
	}
	if in.ID != nil {
		want.ID = *in.ID
	}
	if want, err = s.below(want, up, in); err != nil {
		return nil, err
	}
	if in.Reuse {
		if in.ID != nil {
			return nil, route.BadRequest("reuse and id exclude each other")
		}
		got, fresh, err := s.Sessions.Ensure(r.Context(), want)
		if err != nil || !fresh {
			return s.wire(got), err
		}
		return s.begun(r, got), nil
	}
	got, err := s.Sessions.Create(r.Context(), want)
	if err != nil {
		return nil, err
	}
	return s.begun(r, got), nil
}

// begun publishes that a session exists, and answers with the session and the messages of its hooks.
func (s *Server) begun(r *http.Request, x tool.Session) route.Created {
	s.changed(events.SessionCreated, x.Account, x.ID)
	for _, p := range s.Parts {
		if p.Opened != nil {
			p.Opened(x, route.CallerOf(r))
		}
	}
	out := s.wire(x)
	out.SystemMessages = s.tellHooks(r, hooks.SessionStart, x)
	return route.Created{Data: out}
}

// tellHooks fires an event that has happened, also if the client has left.
func (s *Server) tellHooks(r *http.Request, event hooks.Event, x tool.Session) []string {
	answer, err := s.Hooks.Fire(context.WithoutCancel(r.Context()), event, hooks.Input{
		SessionID: x.ID, Cwd: x.Dir, PermissionMode: string(x.Mode),
	})
	if err != nil {
		s.Log.Warn("hooks were not told", "event", event, "session", x.ID, "error", err)
	}
	return answer.Advice.Messages
}

// startDir returns the directory that a request names, or the default.
func (s *Server) startDir(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	return s.Workspaces.Default()
}

// directory is [Directory] in the workspaces of this server.
func (s *Server) directory(dir, home string) (string, error) {
	return Directory(s.rules, s.Workspaces, dir, home)
}

// Directory resolves the working directory of a session, and checks that it lies in a workspace, because an agent
// must not widen its own. It does not look at denied paths: the rules here belong to no workspace, and a workspace
// has its own.
func Directory(rules *guard.Rules, all Workspaces, dir, home string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", route.BadRequest(fmt.Sprintf("cwd %q is not absolute", dir))
	}
	phys, err := rules.Resolve(dir, "/", home)
	if err != nil {
		return "", route.BadRequest(err.Error())
	}
	w, err := all.Of(phys)
	if err != nil {
		return "", err
	}
	if phys, err = guard.NewRules(w.Settings).Resolve(dir, "/", home); err != nil {
		return "", route.BadRequest(err.Error())
	}
	if _, err := all.Of(phys); err != nil { // a link in a part that was not looked at before leads out
		return "", err
	}
	if fi, err := os.Stat(phys); err != nil || !fi.IsDir() {
		return "", route.BadRequest(fmt.Sprintf("cwd %q is not a directory", phys))
	}
	return phys, nil
}

// mode checks the mode of a session. An agent may only have one that is no looser than sessions.maxMode.
func (s *Server) mode(mode tool.Mode, role tool.Role) (tool.Mode, error) {
	if !mode.Valid() {
		e := route.BadRequest(fmt.Sprintf("unknown mode %q", mode))
		e.Said.Hint = fmt.Sprintf("modes are: %v", tool.Modes)
		return "", e
	}
	if role == tool.RoleAgent && mode.LooserThan(s.MaxMode) {
		return "", route.Forbidden("mode_not_allowed", fmt.Sprintf("an agent may not have mode %q", mode),
			fmt.Sprintf("the loosest is %s; an operator can set another", s.MaxMode))
	}
	return mode, nil
}

func (s *Server) listSessions(r *http.Request) (any, error) {
	p, err := route.Paging(r)
	if err != nil {
		return nil, err
	}
	me := route.CallerOf(r)
	f := sessions.Filter{
		Everyone: r.FormValue("accounts") == "all", Limit: p.Limit, Offset: p.Offset,
		ByUpdated: r.FormValue("sort_by") == "updated_at", Ascending: r.FormValue("sort_order") == "asc",
	}
	if f.Everyone && !me.Any {
		return nil, route.Forbidden("operator_only", "only operators who name no account list the sessions of all",
			"use the operator socket, without X-Account-Id")
	}
	found, err := s.Sessions.List(r.Context(), me.Account, f)
	if err != nil {
		return nil, err
	}
	rows := func(yield func(session, error) bool) {
		for x, err := range found.Rows(r.Context()) {
			if !yield(s.wire(x), err) {
				return
			}
		}
	}
	return route.Rows(r, p, rows, len(found.Keys), found.Total, found.Bytes())
}

func (s *Server) session(r *http.Request) (tool.Session, error) {
	return s.Sessions.Session(r.Context(), route.CallerOf(r).Account, r.PathValue("id"))
}

func (s *Server) getSession(r *http.Request) (any, error) {
	got, err := s.session(r)
	return s.wire(got), err
}

// sessionChange changes a session. A nil field stays as it is.
type sessionChange struct {
	Title    *string          `json:"title,omitempty"`
	Tag      *string          `json:"tag,omitempty"`
	Metadata json.RawMessage  `json:"metadata,omitempty"`
	Mode     *tool.Mode       `json:"mode,omitempty"`
	Profile  *sandbox.Profile `json:"profile,omitempty"`
	Sandbox  json.RawMessage  `json:"sandbox,omitempty"`
}

func (s *Server) patchSession(r *http.Request) (any, error) {
	var in sessionChange
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	me := route.CallerOf(r)
	if me.Role == tool.RoleAgent && (in.Mode != nil || in.Profile != nil || in.Sandbox != nil) {
		return nil, route.Forbidden("operator_only", "mode, profile and sandbox are changed by operators",
			"use the operator socket")
	}
	if in.Mode != nil {
		if _, err := s.mode(*in.Mode, me.Role); err != nil {
			return nil, err
		}
	}
	if in.Profile != nil && !slices.Contains(sandbox.Profiles, *in.Profile) {
		return nil, route.BadRequest(fmt.Sprintf("unknown profile %q, want strict or light", *in.Profile))
	}
	settings, err := s.settings(r, in.Sandbox)
	if err != nil {
		return nil, err
	}
	got, err := s.Sessions.Patch(r.Context(), me.Account, r.PathValue("id"), func(t *tool.Session) error {
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
	if err == nil {
		s.changed(events.SessionChanged, got.Account, got.ID)
		s.Pipeline.Reconsider(r.Context())
	}
	return s.wire(got), err
}

// settings merges the settings that an operator gives over those of the session's workspace. nil changes nothing.
// "defaults: none" drops the secrets of the caller, never those of the daemon.
func (s *Server) settings(r *http.Request, doc json.RawMessage) (*guard.Settings, error) {
	if doc == nil {
		return nil, nil
	}
	got, err := s.session(r)
	if err != nil {
		return nil, err
	}
	w, err := s.Workspaces.Of(got.Dir)
	if err != nil {
		return nil, err
	}
	merged, err := w.Settings.Merge(doc)
	if err != nil {
		return nil, route.BadRequest("sandbox: " + err.Error())
	}
	for _, p := range s.Private {
		if !slices.Contains(merged.DeniedPaths, p) {
			merged.DeniedPaths = append(merged.DeniedPaths, p)
		}
	}
	merged, idle, err := merged.Normalise()
	if err == nil {
		err = merged.CheckCage()
	}
	if err != nil {
		return nil, route.BadRequest("sandbox: " + err.Error())
	}
	for _, line := range idle {
		s.Log.Warn("settings of a session: " + line)
	}
	return &merged, nil
}

func (s *Server) changed(what events.Type, account, session string) {
	s.Events.Publish(events.Event{Type: what, Account: account, Session: session})
}

func set[T ~string](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *Server) deleteSession(r *http.Request) (any, error) {
	id := r.PathValue("id")
	return route.Deleted{ID: id, Deleted: true}, s.Sessions.Delete(r.Context(), route.CallerOf(r).Account, id)
}

func (s *Server) listTools(r *http.Request) (any, error) {
	got, err := s.session(r)
	if err != nil {
		return nil, err
	}
	list := s.Tools.Listed
	if r.FormValue("deferred") == "true" {
		list = s.Tools.Enabled
	}
	return catalog.Definitions(list(got), cmp.Or(r.FormValue("format"), "anthropic"))
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

// enableRequest switches a tool or a group on or off.
type enableRequest struct {
	Enabled bool `json:"enabled"`
}

func (s *Server) enable(r *http.Request, change func(*tool.Session, string, bool) error) (any, error) {
	var in enableRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	got, err := s.Sessions.Patch(r.Context(), route.CallerOf(r).Account, r.PathValue("id"),
		func(t *tool.Session) error {
			return change(t, r.PathValue("name"), in.Enabled)
		})
	if err == nil {
		s.changed(events.SessionChanged, got.Account, got.ID)
	}
	return s.wire(got), err
}
