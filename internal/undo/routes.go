package undo

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// handlers answer the routes of the journal.
type handlers struct {
	j    *journal
	host part.Host
}

func (h handlers) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "POST /calls/{id}/undo", Role: tool.RoleAgent, Keeps: true, Handle: h.undo,
			Spec: route.Spec{
				ID: "undoCall", Summary: "Put back what a call changed; force and session_id are for operators",
				In: undoRequest{}, Out: undoAnswer{},
			},
		},
		{
			Pattern: "GET /calls/{id}/diff", Role: tool.RoleAgent, Handle: h.diff,
			Spec: route.Spec{ID: "diffCall", Summary: "What a call changed, as a unified diff", Out: diffAnswer{}},
		},
		{
			Pattern: "GET /sessions/{id}/changes", Role: tool.RoleAgent, Handle: h.session,
			Spec: route.Spec{
				ID: "listChanges", Summary: "Calls of a session that changed files, the newest first",
				Query: route.PageQuery, Out: []changed{}, Paged: true,
			},
		},
		{
			Pattern: "GET /changes", Role: tool.RoleAgent, Handle: h.history,
			Spec: route.Spec{
				ID:      "history",
				Summary: "Calls of all sessions that changed a path, or anything below it, the newest first",
				Query:   append([]route.Param{{Name: "path"}}, route.PageQuery...), Out: []changed{}, Paged: true,
			},
		},
		{
			Pattern: "POST /undo/purge", Role: tool.RoleOperator, Handle: h.purge,
			Spec: route.Spec{
				ID:      "purgeUndo",
				Summary: "Remove what is kept for undo, of a session or everything", In: purgeRequest{}, Out: purged{},
			},
		},
	}
}

type undoRequest struct {
	Paths []string `json:"paths,omitempty"`
	Force bool     `json:"force,omitempty"`
	// Session makes the undo. Without it, that is the session of the call.
	Session string `json:"session_id,omitempty"`
}

// undoAnswer says what an undo did. Error says why it did nothing.
type undoAnswer struct {
	undone
	Status tool.Status `json:"status"`
	Error  *tool.Error `json:"error,omitempty"`
}

// asked is the request, in the context of an undo that came by the route.
type asked struct {
	operator bool
	user     sandbox.User // that of the call that is undone
}

type askedKey struct{}

func (h handlers) undo(r *http.Request) (any, error) {
	var in undoRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	me := route.CallerOf(r)
	operator := me.Role == tool.RoleOperator
	if !operator && (in.Force || in.Session != "") {
		return nil, route.Forbidden("operator_only", "force and session_id are for operators",
			"use the operator socket")
	}
	of, err := h.of(r)
	if err != nil {
		return nil, err
	}
	req := tool.Request{
		Account: of.Account, Role: me.Role, Session: of.Session, Tool: Name,
		User: sandbox.NewUser(me.UID, me.GID, me.Groups, me.Name, me.Home),
		Args: []byte(encode(map[string]any{"call_id": of.ID, "paths": orNone(in.Paths), "force": in.Force})),
	}
	if operator { // the files belong to the user who made the call
		req.Approver = me.Operator()
		if req.User, err = userOf(of.Rights); err != nil {
			return nil, err
		}
	}
	req.RunsAs = req.User.Rights()
	if in.Session != "" {
		req.Session = in.Session
	}
	if req.Session == "" {
		return nil, &tool.Error{
			Code: "session_not_found", Msg: "the session of call " + of.ID + " was deleted",
			Hint: "an operator can undo it from another session of the account: POST /calls/" + of.ID +
				"/undo with session_id",
		}
	}
	got := h.host.Do(context.WithValue(r.Context(), askedKey{}, asked{operator, req.User}), req)
	answer := undoAnswer{Status: got.Status, Error: got.Error}
	if got.Error != nil && got.RejectReason != "" {
		e := *got.Error
		e.Msg += ": " + got.RejectReason
		answer.Error = &e
	}
	out, ok := got.Data.(undone)
	if !ok {
		out = nothingUndone(got.CallID, of.ID)
	}
	answer.undone = out
	if ok && len(out.Restored) > 0 && of.Session != "" {
		err = h.j.notice(r.Context(), of.Session, "A person "+out.text(of.Tool)+
			"\nRead these files again before you change them.")
	}
	return answer, err
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// of returns the call that a request names.
func (h handlers) of(r *http.Request) (call, error) {
	id := r.PathValue("id")
	c, err := h.j.call(r.Context(), id)
	if err != nil {
		return c, err
	}
	if me := route.CallerOf(r); !me.Any && c.Account != me.Account {
		return call{}, notKept(id)
	}
	return c, nil
}

// changed is a call that changed files.
type changed struct {
	CallID    string        `json:"call_id"`
	SessionID string        `json:"session_id,omitempty"` // "": it was deleted
	Tool      string        `json:"tool"`
	At        time.Time     `json:"at"`
	Changes   []tool.Change `json:"changes"`
	Total     int           `json:"changes_total"`
	Undo      tool.Undo     `json:"undo"`
	Undoes    string        `json:"undoes,omitempty"`    // the call that this call undid
	UndoneBy  string        `json:"undone_by,omitempty"` // set if everything was undone
}

// changed returns a call for a list. Changes at or below the path that was asked for come first.
func (h handlers) changed(c call, asked string) changed {
	out := changed{CallID: c.ID, SessionID: c.Session, Tool: c.Tool, At: c.At, Undoes: c.Undoes}
	var first []tool.Change
	for _, x := range c.Changes {
		if asked != "" && guard.Within(x.Path, asked) {
			first = append(first, x.shown(c.Dir))
			continue
		}
		out.Changes = append(out.Changes, x.shown(c.Dir))
	}
	open := func(x change) bool { return x.Undone == "" }
	if len(c.Changes) > 0 && !slices.ContainsFunc(c.Changes, open) {
		out.UndoneBy = c.Changes[0].Undone
	}
	first, total := listed(first)
	out.Changes, out.Total = listed(out.Changes)
	out.Changes, out.Total = append(first, out.Changes...), out.Total+total
	out.Changes = out.Changes[:min(len(out.Changes), maxListed)]
	out.Undo = tool.Undo{Kept: c.Why == "", Why: c.Why}
	if out.Undo.Kept {
		until := c.At.Add(h.j.settingsKeep())
		out.Undo.Until = &until
	}
	return out
}

func (j *journal) settingsKeep() time.Duration {
	c := j.settings()
	return c.keep()
}

func (h handlers) session(r *http.Request) (any, error) {
	s, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	if err := h.j.follow(r.Context(), s.Account, s.ID, s.Dir); err != nil {
		return nil, err
	}
	return h.list(r, "", `account = $1 AND session = $2 AND settled <> 0`, s.Account, s.ID)
}

func (h handlers) history(r *http.Request) (any, error) {
	path := r.FormValue("path")
	if path == "" || path != clean("/", path) {
		return nil, route.BadRequest("path must be absolute and clean")
	}
	below := path + "/"
	if path == "/" {
		below = path
	}
	where := `settled <> 0 AND EXISTS (SELECT 1 FROM undo_changes c WHERE c.call_id = undo_calls.call_id AND
		(c.path = $1 OR c.path >= $2 AND c.path < $3))`
	args := []any{[]byte(path), []byte(below), []byte(below[:len(below)-1] + "0")} // "0" comes after "/"
	if me := route.CallerOf(r); !me.Any {
		where, args = where+` AND account = $4`, append(args, me.Account)
	}
	return h.list(r, path, where, args...)
}

// list answers with a page of calls, the newest first. In each, changes at the path come first.
func (h handlers) list(r *http.Request, path, where string, args ...any) (any, error) {
	p, err := route.Paging(r)
	if err != nil {
		return nil, err
	}
	total := 0
	err = h.j.db.Read(r.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM undo_calls WHERE `+where, args...).Scan(&total)
	})
	if err != nil {
		return nil, err
	}
	found, err := h.j.calls(r.Context(), fmt.Sprintf("%s ORDER BY n DESC LIMIT %d OFFSET %d", where, p.Limit, p.Offset),
		args...)
	if err != nil {
		return nil, err
	}
	out := make([]changed, 0, len(found))
	for _, c := range found {
		out = append(out, h.changed(c, path))
	}
	return p.List(out, len(out), total), nil
}

type purgeRequest struct {
	Session string `json:"session_id,omitempty"` // "": everything
}

// purged is what a purge removed.
type purged struct {
	Calls int   `json:"calls"`
	Bytes int64 `json:"bytes"`
}

func (h handlers) purge(r *http.Request) (any, error) {
	var in purgeRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	err := h.host.Record(r.Context(), tool.Note{
		Name: "undo_purge", Session: in.Session, Message: "what is kept for undo was removed by " +
			route.CallerOf(r).Operator(),
	})
	if err != nil {
		return nil, err
	}
	return h.j.purge(r.Context(), in.Session)
}
