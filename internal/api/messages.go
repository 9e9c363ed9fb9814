package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func (s *Server) messageRoutes() []route.Route {
	broken := []int{http.StatusUnprocessableEntity}
	return []route.Route{
		{
			Pattern: "GET /sessions/{id}/messages", Role: tool.RoleAgent, Results: true, Handle: s.listMessages,
			Spec: route.Spec{
				ID: "listMessages", Summary: "Messages of a transcript: the last ones, or those from an offset on",
				Query: route.PageQuery, Out: []json.RawMessage{}, Paged: true, Errors: broken,
			},
		},
		{
			Pattern: "POST /sessions/{id}/messages", Role: tool.RoleAgent, Keeps: true,
			Handle: func(r *http.Request) (any, error) { return s.saveMessages(r, true) },
			Spec: route.Spec{
				ID: "appendMessages", Summary: "Add messages to a transcript",
				In: savedMessages{}, Out: session{}, Errors: broken,
			},
		},
		{
			Pattern: "PUT /sessions/{id}/messages", Role: tool.RoleAgent, Keeps: true,
			Handle: func(r *http.Request) (any, error) { return s.saveMessages(r, false) },
			Spec: route.Spec{
				ID: "putMessages", Summary: "Save a whole transcript in place of the one before",
				In: savedMessages{}, Out: session{}, Errors: broken,
			},
		},
		{
			Pattern: "POST /sessions/{id}/fork", Role: tool.RoleAgent, Keeps: true, Handle: s.forkSession,
			Spec: route.Spec{
				ID: "forkSession", Summary: "Make a session with the messages and the settings of another one",
				In: forkRequest{}, Out: session{}, Created: true, Errors: append(broken, http.StatusConflict),
			},
		},
	}
}

// savedMessages are messages to keep, with what the client says about the conversation.
type savedMessages struct {
	Messages []json.RawMessage `json:"messages"`
	Metadata *aboutMessages    `json:"metadata,omitempty"`
}

// aboutMessages is what a client says about a conversation. A nil field stays as it is.
type aboutMessages struct {
	Model       *string `json:"model,omitempty"`
	Summary     *string `json:"summary,omitempty"`
	Tag         *string `json:"tag,omitempty"`
	FirstPrompt *string `json:"first_prompt,omitempty"`
	GitBranch   *string `json:"git_branch,omitempty"`
}

func (s *Server) saveMessages(r *http.Request, add bool) (any, error) {
	var in savedMessages
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	said := sessions.Save{Messages: in.Messages, Append: add}
	if m := in.Metadata; m != nil {
		said.Model, said.Summary, said.Tag = m.Model, m.Summary, m.Tag
		said.FirstPrompt, said.GitBranch = m.FirstPrompt, m.GitBranch
	}
	got, err := s.Sessions.Save(r.Context(), route.CallerOf(r).Account, r.PathValue("id"), said)
	if err != nil {
		return nil, err
	}
	s.changed(events.SessionChanged, got.Account, got.ID)
	return s.wire(got), nil
}

// defaultMessages is how many messages a client gets that names no limit.
const defaultMessages = 50

func (s *Server) listMessages(r *http.Request) (any, error) {
	limit, offset, last := defaultMessages, 0, true
	for name, to := range map[string]*int{"limit": &limit, "offset": &offset} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n == 0 && name == "limit" {
			return nil, route.BadRequest(fmt.Sprintf("%s=%q: limit is 1 or more, offset 0 or more", name, text))
		}
		*to = n
		last = last && name == "limit"
	}
	if last {
		offset = -1
	}
	found, err := s.Sessions.Messages(r.Context(), route.CallerOf(r).Account, r.PathValue("id"), offset, limit)
	if err != nil {
		return nil, s.damaged(r.PathValue("id"), err)
	}
	context.AfterFunc(r.Context(), func() { found.Close() }) // after the answer
	p := route.Page{Limit: limit, Offset: found.From}
	return route.Rows(r, p, found.All(), found.Count, found.Total, int64(found.Longest))
}

// damaged logs that a transcript cannot be read.
func (s *Server) damaged(session string, err error) error {
	s.Log.Warn("a transcript is not read", "session", session, "error", err)
	return err
}

// forkRequest says which part of a session the new one gets.
type forkRequest struct {
	NewID *string `json:"new_id,omitempty"`
	// UpTo is how many messages are copied. nil is all.
	UpTo *int `json:"up_to_message_index,omitempty"`
}

func (s *Server) forkSession(r *http.Request) (any, error) {
	var in forkRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if in.UpTo != nil && *in.UpTo < 0 {
		return nil, route.BadRequest(fmt.Sprintf("up_to_message_index is %d, want 0 or more", *in.UpTo))
	}
	from, err := s.session(r)
	if err != nil {
		return nil, err
	}
	got, err := s.fork(r, from, in.NewID, sessions.Until{Messages: in.UpTo})
	if err != nil {
		return nil, err
	}
	return s.begun(r, got), nil
}

// fork makes a session with everything that another has, except the tag, by which clients find a session. It gives
// an agent no looser mode than the agent may ask for.
func (s *Server) fork(r *http.Request, from tool.Session, id *string, until sessions.Until) (tool.Session, error) {
	me, as := route.CallerOf(r), from
	as.ID, as.Tag = "", ""
	if id != nil {
		as.ID = *id
		if err := sessions.CheckID(as.ID); err != nil {
			return tool.Session{}, err
		}
	}
	if me.Role == tool.RoleAgent && as.Mode.LooserThan(s.MaxMode) {
		as.Mode = s.MaxMode
	}
	if _, err := s.Workspaces.Of(from.Dir); err != nil {
		return tool.Session{}, err
	}
	_, size, err := s.Sessions.Transcript(from.ID)
	if err == nil && s.Admit != nil {
		err = s.Admit(me, size)
	}
	if err != nil {
		return tool.Session{}, err
	}
	return s.Sessions.Fork(r.Context(), from, as, until)
}

// resumeSession answers with a session to continue: the one with an id, or the one that changed last; itself or a
// copy; with all its messages or the first ones. If there is none, it makes one.
func (s *Server) resumeSession(r *http.Request, in newSession) (any, error) {
	if err := in.checkResume(); err != nil {
		return nil, err
	}
	me := route.CallerOf(r)
	var from tool.Session
	var err error
	if in.Resume != nil {
		if err := sessions.CheckID(*in.Resume); err != nil {
			return nil, err
		}
		if me, err = s.ownerOf(r.Context(), me, *in.Resume); err == nil {
			from, err = s.Sessions.Session(r.Context(), me.Account, *in.Resume)
		}
	} else {
		var found bool
		if from, found, err = s.Sessions.Recent(r.Context(), me.Account); err == nil && !found {
			return s.makeSession(r, in)
		}
	}
	if err != nil {
		return nil, err
	}
	if in.Fork {
		got, err := s.fork(r, from, in.ID, sessions.Until{Message: in.ResumeAt})
		if err != nil {
			return nil, err
		}
		return s.begun(r, got), nil
	}
	if in.ResumeAt != nil {
		if from, err = s.Sessions.Cut(r.Context(), from.Account, from.ID, *in.ResumeAt); err != nil {
			return nil, err
		}
		s.changed(events.SessionChanged, from.Account, from.ID)
	}
	return s.wire(from), nil
}

// checkResume refuses fields that would have no effect.
func (in newSession) checkResume() error {
	made := in.Dir != "" || in.Mode != "" || in.Tag != "" || in.Title != "" || in.Metadata != nil
	switch {
	case in.Resume == nil && !in.ContinueRecent:
		return route.BadRequest("fork and resume_at need resume or continue_recent")
	case in.Reuse:
		return route.BadRequest("reuse and resume exclude each other")
	case in.ID != nil && !in.Fork:
		return route.BadRequest("id names a session that is made: with resume and continue_recent it needs fork")
	case in.Resume != nil && made:
		return route.BadRequest("a session that is resumed has its cwd, mode, tag, title and metadata")
	case in.Parent != nil || in.Agent != nil || in.Only != nil || in.Without != nil:
		return route.BadRequest("a session that is resumed has its parent, agent and tools already")
	case in.ResumeAt != nil && *in.ResumeAt == "":
		return route.BadRequest("resume_at is empty: it is the uuid or the id of a message")
	}
	return nil
}
