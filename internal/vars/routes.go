package vars

import (
	"encoding/json"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/jsonout"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Part returns the variables as a part of the daemon.
func (s *System) Part(h part.Host) part.Part {
	return part.Part{
		Groups: []catalog.Group{AgentRules(), s.Group()}, Inject: s.Injected(),
		Routes: handlers{s, h}.routes(), Shared: map[string]any{"Variable": Var{}},
		Created: s.SessionCreated, Deleted: s.SessionDeleted, Forked: s.SessionForked,
	}
}

// handlers are the routes of variables and origins.
type handlers struct {
	vars *System
	host part.Host
}

func (h handlers) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /sessions/{id}/vars", Role: tool.RoleAgent, Handle: h.listVars,
			Spec: route.Spec{
				ID:      "listVars",
				Summary: "List variables, without their values",
				Query:   append([]route.Param{{Name: "type"}, {Name: "tag"}, {Name: "search"}}, route.PageQuery...),
				Out:     []Var{}, Paged: true,
			},
		},
		{
			Pattern: "POST /sessions/{id}/vars/remove", Role: tool.RoleAgent, Handle: h.removeVars,
			Spec: route.Spec{ID: "removeVars", Summary: "Remove variables", In: removeRequest{}, Out: removedVars{}},
		},
		{
			Pattern: "GET /sessions/{id}/vars/{name}", Role: tool.RoleAgent, Results: true, Handle: h.getVar,
			Spec: route.Spec{ID: "getVar", Summary: "One variable", Out: Var{}},
		},
		{
			Pattern: "PUT /sessions/{id}/vars/{name}", Role: tool.RoleAgent, Keeps: true, Handle: h.putVar,
			Spec: route.Spec{
				ID: "putVar", Summary: "Write a variable",
				In: varBody{}, Out: Var{}, Created: true, Errors: []int{409},
			},
		},
		{
			Pattern: "PATCH /sessions/{id}/vars/{name}", Role: tool.RoleAgent, Keeps: true, Handle: h.patchVar,
			Spec: route.Spec{
				ID: "patchVar", Summary: "Change a variable",
				In: varBody{}, Out: Var{}, Created: true, Errors: []int{409},
			},
		},
		{
			Pattern: "DELETE /sessions/{id}/vars/{name}", Role: tool.RoleAgent, Handle: h.deleteVar,
			Spec: route.Spec{ID: "deleteVar", Summary: "Delete a variable", Out: route.Deleted{}, Errors: []int{409}},
		},
		{
			Pattern: "GET /sessions/{id}/origins", Role: tool.RoleAgent, Handle: h.getOrigins,
			Spec: route.Spec{
				ID: "getOrigins", Summary: "Who wrote what the model of a session was shown", Out: shownOrigins{},
			},
		},
		{
			Pattern: "POST /sessions/{id}/origins/reset", Role: tool.RoleOperator, Handle: h.resetOrigins,
			Spec: route.Spec{
				ID: "resetOrigins", Summary: "Hold what a session has read to be harmless", Out: shownOrigins{},
			},
		},
	}
}

// varBody is what is written of a variable.
type varBody struct {
	Value json.RawMessage `json:"value,omitempty"`
	Type  *Type           `json:"type,omitempty"`
	Desc  *string         `json:"desc,omitempty"`
	Tags  *[]string       `json:"tags,omitempty"`
	Keep  *bool           `json:"keep,omitempty"`
}

func readChange(r *http.Request) (Change, error) {
	var in varBody
	if err := route.Read(r, &in); err != nil {
		return Change{}, err
	}
	c := Change{Type: in.Type, Desc: in.Desc, Tags: in.Tags, Keep: in.Keep}
	if in.Value != nil {
		text, err := Text(in.Value)
		if err != nil {
			return c, route.BadRequest("value: " + err.Error())
		}
		c.Value = &text
	}
	return c, nil
}

// author of what comes over a socket: an agent speaks for its model.
func author(r *http.Request) tool.Origin {
	if route.CallerOf(r).Role == tool.RoleOperator {
		return tool.OriginPerson
	}
	return tool.OriginModel
}

func (h handlers) listVars(r *http.Request) (any, error) {
	sess, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	p, err := route.Paging(r)
	if err != nil {
		return nil, err
	}
	f := Filter{
		Type: Type(r.FormValue("type")), Tag: r.FormValue("tag"), Search: r.FormValue("search"),
		Limit: p.Limit, Offset: p.Offset,
	}
	found, err := h.vars.List(r.Context(), sess.ID, f)
	if err != nil {
		return nil, err
	}
	return route.Rows(r, p, found.Rows(r.Context()), len(found.Keys), found.Total, found.Bytes())
}

func (h handlers) getVar(r *http.Request) (any, error) {
	sess, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	v, value, ok, err := h.vars.Read(r.Context(), sess.ID, r.PathValue("name"))
	if err == nil && !ok {
		err = route.Missing("variable_not_found", "no variable "+r.PathValue("name"))
	}
	if err == nil {
		err = budget.Of(r.Context()).Take(2 * value.Size())
	}
	return shownVar{v, jsonout.Text(value.Pieces(r.Context()))}, err
}

// shownVar is a variable whose value is written while it is read.
type shownVar struct {
	Var
	Value jsonout.Text `json:"value"`
}

// written answers a change of v; fresh says that it did not exist before.
func written(v Var, fresh bool, err error) (any, error) {
	if err == nil && fresh {
		return route.Created{Data: v}, nil
	}
	return v, err
}

func (h handlers) putVar(r *http.Request) (any, error) {
	sess, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	c, err := readChange(r)
	if err != nil {
		return nil, err
	}
	if c.Value == nil {
		return nil, route.BadRequest("value is missing")
	}
	return written(h.vars.Put(r.Context(), sess.ID, r.PathValue("name"), c, author(r)))
}

func (h handlers) patchVar(r *http.Request) (any, error) {
	sess, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	c, err := readChange(r)
	if err != nil {
		return nil, err
	}
	return written(h.vars.Update(r.Context(), sess.ID, r.PathValue("name"), c, author(r)))
}

func (h handlers) deleteVar(r *http.Request) (any, error) {
	sess, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	v, _, ok, err := h.vars.Read(r.Context(), sess.ID, name)
	if err == nil && !ok {
		err = route.Missing("variable_not_found", "no variable "+name)
	}
	if err == nil && v.Type == TypeRule {
		err = &tool.Error{Code: "variable_protected", Msg: "variable " + name + " is a rule"}
	}
	if err == nil {
		_, _, err = h.vars.Remove(r.Context(), sess.ID, []string{name})
	}
	return route.Deleted{ID: name, Deleted: true}, err
}

// removeRequest is which variables go.
type removeRequest struct {
	Names []string `json:"names"`
}

func (h handlers) removeVars(r *http.Request) (any, error) {
	var in removeRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	sess, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	removed, failed, err := h.vars.Remove(r.Context(), sess.ID, in.Names)
	return removedVars{orEmpty(removed), orEmpty(failed)}, err
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

type removedVars struct {
	Removed []string `json:"removed"`
	Failed  []string `json:"failed"`
}

// getOrigins says who wrote what the model of a session was shown.
func (h handlers) getOrigins(r *http.Request) (any, error) {
	sess, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	return h.origins(r, sess)
}

// resetOrigins ends the questions that follow from what was shown: a person
// answers for it. What is recorded first cannot be missing later.
func (h handlers) resetOrigins(r *http.Request) (any, error) {
	sess, err := h.host.Session(r)
	if err != nil {
		return nil, err
	}
	err = h.host.Record(r.Context(), tool.Note{
		Name: "origins_reset", Account: sess.Account, Session: sess.ID, Message: route.CallerOf(r).Operator() +
			" holds what the session has read to be harmless",
	})
	if err != nil {
		return nil, err
	}
	if err := h.vars.ResetOrigins(r.Context(), sess.ID); err != nil {
		return nil, err
	}
	return h.origins(r, sess)
}

func (h handlers) origins(r *http.Request, sess tool.Session) (any, error) {
	shown, err := h.vars.Released(r.Context(), sess.ID)
	if shown.Session == nil {
		shown.Session = []tool.Origin{}
	}
	return shownOrigins{shown.Session, shown.Hosts}, err
}

type shownOrigins struct {
	Session []tool.Origin `json:"session"`
	Hosts   []string      `json:"hosts,omitempty"` // that the text of the web came from
}
