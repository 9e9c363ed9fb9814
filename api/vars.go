package api

import (
	"encoding/json"
	"net/http"

	"github.com/sandboxd/sandboxd/tool"
	"github.com/sandboxd/sandboxd/vars"
)

// varBody is what is written of a variable.
type varBody struct {
	Value json.RawMessage `json:"value"`
	Type  *vars.Type      `json:"type"`
	Desc  *string         `json:"desc"`
	Tags  *[]string       `json:"tags"`
	Keep  *bool           `json:"keep"`
}

func readVar(r *http.Request) (vars.Change, error) {
	var in varBody
	if err := read(r, &in); err != nil {
		return vars.Change{}, err
	}
	c := vars.Change{Type: in.Type, Desc: in.Desc, Tags: in.Tags, Keep: in.Keep}
	if in.Value != nil {
		text, err := vars.Text(in.Value)
		if err != nil {
			return c, badRequest("value: " + err.Error())
		}
		c.Value = &text
	}
	return c, nil
}

// author of what comes over a socket: an agent speaks for its model.
func author(r *http.Request) tool.Origin {
	if caller(r).role == tool.RoleOperator {
		return tool.OriginPerson
	}
	return tool.OriginModel
}

func (s *Server) listVars(r *http.Request) (any, error) {
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	p, err := paging(r)
	if err != nil {
		return nil, err
	}
	f := vars.Filter{
		Type: vars.Type(r.FormValue("type")), Tag: r.FormValue("tag"), Search: r.FormValue("search"),
		Limit: p.Limit, Offset: p.Offset,
	}
	found, total, err := s.Vars.List(r.Context(), sess.ID, f)
	if err != nil {
		return nil, err
	}
	if found == nil {
		found = []vars.Var{}
	}
	return p.list(found, len(found), total), nil
}

func (s *Server) getVar(r *http.Request) (any, error) {
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	v, ok, err := s.Vars.Get(r.Context(), sess.ID, r.PathValue("name"))
	if err == nil && !ok {
		err = missing("variable_not_found", "no variable "+r.PathValue("name"))
	}
	return v, err
}

func (s *Server) putVar(r *http.Request) (any, error) {
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	c, err := readVar(r)
	if err != nil {
		return nil, err
	}
	if c.Value == nil {
		return nil, badRequest("value is missing")
	}
	v, fresh, err := s.Vars.Put(r.Context(), sess.ID, r.PathValue("name"), c, author(r))
	if err != nil {
		return nil, err
	}
	if fresh {
		return created{v}, nil
	}
	return v, nil
}

func (s *Server) patchVar(r *http.Request) (any, error) {
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	c, err := readVar(r)
	if err != nil {
		return nil, err
	}
	v, ok, err := s.Vars.Update(r.Context(), sess.ID, r.PathValue("name"), c, author(r))
	if err == nil && !ok {
		err = missing("variable_not_found", "no variable "+r.PathValue("name"))
	}
	return v, err
}

func (s *Server) deleteVar(r *http.Request) (any, error) {
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	v, ok, err := s.Vars.Get(r.Context(), sess.ID, name)
	if err == nil && !ok {
		err = missing("variable_not_found", "no variable "+name)
	}
	if err == nil && v.Type == vars.TypeRule {
		err = &tool.Error{Code: "variable_protected", Msg: "variable " + name + " is a rule"}
	}
	if err == nil {
		_, _, err = s.Vars.Remove(r.Context(), sess.ID, []string{name})
	}
	return deleted{name, true}, err
}

// removeRequest is which variables go.
type removeRequest struct {
	Names []string `json:"names"`
}

func (s *Server) removeVars(r *http.Request) (any, error) {
	var in removeRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	removed, failed, err := s.Vars.Remove(r.Context(), sess.ID, in.Names)
	return removedVars{orEmpty(removed), orEmpty(failed)}, err
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
