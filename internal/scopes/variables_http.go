package scopes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// maxBody bounds the body of a write: one value of the largest size, with the JSON around it.
const maxBody = maxValue + 64<<10

// maxBatch bounds the variables that one request may write.
const maxBatch = 100

func (h handlers) variableRoutes() []route.Route {
	resolveQuery := []route.Param{
		{Name: "session_id"},
		{Name: "branch_id"},
		{Name: "floor_id"},
		{Name: "page_id"},
		{Name: "include_layers", Enum: []string{"true", "false", "1", "0"}},
	}
	return []route.Route{
		{
			Pattern: "PUT /variables", Role: tool.RoleAgent, Keeps: true, Handle: h.putVariable,
			Spec: route.Spec{
				ID: "putVariable", Summary: "Write a variable of one of the five scopes",
				In: variableWrite{}, Out: Variable{}, Created: true, Errors: []int{404, 409},
			},
		},
		{
			Pattern: "PUT /variables/batch", Role: tool.RoleAgent, Keeps: true, Handle: h.putVariables,
			Spec: route.Spec{
				ID: "putVariables", Summary: "Write 1 to 100 variables, all or none",
				In: batch{}, Out: batchDone{}, Errors: []int{404, 409},
			},
		},
		{
			Pattern: "GET /variables", Role: tool.RoleAgent, Handle: h.listVariables,
			Spec: route.Spec{
				ID: "listVariables", Summary: "List variables of all scopes",
				Query: append([]route.Param{
					{Name: "scope", Enum: []string{"global", "chat", "branch", "floor", "page"}},
					{Name: "scope_id"},
					{Name: "session_id"},
					{Name: "branch_id"},
					{Name: "key"},
				}, sorted("updated_at", "key")...), Out: []Variable{}, Paged: true,
			},
		},
		{
			Pattern: "GET /variables/resolve", Role: tool.RoleAgent, Handle: h.resolveVariables,
			Spec: route.Spec{
				ID:      "resolveVariables",
				Summary: "Which variables hold at a place in a conversation, and from which scope",
				Query:   resolveQuery, Out: resolution{}, Errors: []int{404},
			},
		},
		{
			Pattern: "GET /variables/{id}", Role: tool.RoleAgent, Handle: h.getVariable,
			Spec: route.Spec{ID: "getVariable", Summary: "One variable of a scope", Out: Variable{}},
		},
		{
			Pattern: "DELETE /variables/{id}", Role: tool.RoleAgent, Handle: h.deleteVariable,
			Spec: route.Spec{
				ID: "deleteVariable", Summary: "Delete a variable of a scope", Out: route.Deleted{}, Errors: []int{409},
			},
		},
	}
}

// variableWrite is one variable to write, as a request names it.
type variableWrite struct {
	Scope   Scope           `json:"scope"`
	ScopeID *string         `json:"scope_id,omitempty"`
	Session *string         `json:"session_id,omitempty"`
	Branch  *string         `json:"branch_id,omitempty"`
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value,omitempty"` // null is a value; only a missing field is refused
}

// checked checks what can be checked without the database.
func (in variableWrite) checked() (write, error) {
	t, err := address{in.Scope, in.ScopeID, in.Session, in.Branch}.target()
	if err == nil {
		err = checkKey(in.Key)
	}
	if err != nil {
		return write{}, err
	}
	value, err := compact(in.Value)
	return write{target: t, key: in.Key, value: value}, err
}

func (h handlers) putVariable(r *http.Request) (any, error) {
	var in variableWrite
	if err := route.ReadUpTo(r, &in, maxBody); err != nil {
		return nil, err
	}
	w, err := in.checked()
	if err != nil {
		return nil, err
	}
	w.authors = author(r)
	done, err := h.putAll(r.Context(), account(r), []write{w}, func(int) string { return "" })
	if err != nil {
		return nil, err
	}
	if done[0].Action == "created" {
		return route.Created{Data: done[0].Data}, nil
	}
	return done[0].Data, nil
}

// batch is the body of a request that writes several variables.
type batch struct {
	Items []variableWrite `json:"items"`
}

// batchDone is the answer to a batch.
type batchDone struct {
	Results []written `json:"results"`
	Meta    batchMeta `json:"meta"`
}

type batchMeta struct {
	Total   int `json:"total"`
	Created int `json:"created"`
	Updated int `json:"updated"`
}

func (h handlers) putVariables(r *http.Request) (any, error) {
	var in batch
	if err := route.ReadUpTo(r, &in, maxBody); err != nil {
		return nil, err
	}
	if n := len(in.Items); n < 1 || n > maxBatch {
		return nil, badRequest("validation_error", fmt.Sprintf("items has %d entries: want 1 to %d", n, maxBatch))
	}
	name := func(i int) string { return fmt.Sprintf("items.%d", i) }
	type place struct {
		target
		key string
	}
	all, seen := make([]write, len(in.Items)), map[place]int{}
	for i, item := range in.Items {
		w, err := item.checked()
		if err != nil {
			return nil, inItem(name(i), err)
		}
		w.authors = author(r)
		if first, twice := seen[place{w.target, w.key}]; twice {
			return nil, inItem(name(i), badRequest("duplicate_variable_target",
				fmt.Sprintf("it is the same variable as items.%d", first)))
		}
		seen[place{w.target, w.key}], all[i] = i, w
	}
	done, err := h.putAll(r.Context(), account(r), all, name)
	if err != nil {
		return nil, err
	}
	out := batchDone{Results: done, Meta: batchMeta{Total: len(done)}}
	for _, d := range done {
		if d.Action == "created" {
			out.Meta.Created++
		} else {
			out.Meta.Updated++
		}
	}
	return out, nil
}

// inItem names the item of a batch in the text of an error. "" names none.
func inItem(name string, err error) error {
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || name == "" {
		return err
	}
	located := *e
	located.Msg = name + ": " + e.Msg
	return &located
}

func (h handlers) listVariables(r *http.Request) (any, error) {
	o, err := ordering(r, "updated_at")
	if err != nil {
		return nil, err
	}
	f := filter{
		scope: Scope(r.FormValue("scope")), host: given(r, "scope_id"), key: r.FormValue("key"), orderBy: "v.updated",
		desc: o.desc, limit: o.Limit, offset: o.Offset,
	}
	if o.by == "key" {
		f.orderBy = "v.key"
	}
	if err := f.narrow(given(r, "session_id"), given(r, "branch_id")); err != nil {
		return nil, err
	}
	found, err := h.list(r.Context(), account(r), f)
	if err != nil {
		return nil, err
	}
	data, err := route.Rows(r, o.Page, found.Rows(r.Context()), len(found.Keys), found.Total, found.Bytes())
	if err != nil {
		return nil, err
	}
	return o.list(data.(route.List).Data, len(found.Keys), found.Total), nil
}

// narrow checks the parameters of a list that name hosts (S-33 to S-35). A scope_id without a scope is compared
// unchanged.
func (f *filter) narrow(session, branch *string) error {
	if session == nil && branch == nil && (f.scope != Branch || f.host == nil) {
		if f.scope == Global {
			f.host = nil // the parameter is ignored
		}
		if f.scope == "" && f.host != nil {
			if s, b, ok := parseBranchScopeID(*f.host); ok { // no other host has an id of this form
				f.scope, f.host, f.branch = Branch, &s, &b
			}
		}
		return nil
	}
	if f.scope != Branch {
		return badRequest("invalid_variable_context", "session_id and branch_id go with scope=branch alone")
	}
	if session == nil && branch != nil {
		return badRequest("invalid_variable_context", "branch_id goes with session_id")
	}
	if session != nil && branch == nil && f.host == nil {
		f.host = session
		return nil
	}
	if session != nil && branch == nil {
		return badRequest("invalid_variable_context", "session_id and branch_id go together beside scope_id")
	}
	t, err := address{Branch, f.host, session, branch}.target()
	f.host, f.branch = &t.host, &t.branch
	return err
}

func (h handlers) getVariable(r *http.Request) (any, error) {
	return h.one(r.Context(), account(r), r.PathValue("id"))
}

func (h handlers) deleteVariable(r *http.Request) (any, error) {
	id := r.PathValue("id")
	return route.Deleted{ID: id, Deleted: true}, h.remove(r.Context(), account(r), id)
}

func (h handlers) resolveVariables(r *http.Request) (any, error) {
	at := place{r.FormValue("session_id"), r.FormValue("branch_id"), r.FormValue("floor_id"), r.FormValue("page_id")}
	if at.session == "" {
		return nil, badRequest("validation_error", "session_id is missing")
	}
	layers := r.FormValue("include_layers")
	return h.resolve(r.Context(), account(r), at, layers == "true" || layers == "1")
}
