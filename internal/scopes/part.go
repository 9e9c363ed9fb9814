package scopes

import (
	"context"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Definition defines scoped variables as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name: "scopes", Deferred: deferred,
		Schema:   store.EmbeddedBoth("scopes", migrations),
		Open:     func(_ context.Context, h part.Host) (part.Part, error) { return New(h.DB).Part(h), nil },
		Describe: func(part.Config) part.Part { return New(nil).Part(part.Host{}) },
	}
}

// Part returns the store as a part of the daemon.
func (s *Store) Part(h part.Host) part.Part {
	if h.Used != nil {
		s.used = h.Used
	}
	return part.Part{
		Groups: []catalog.Group{s.group()}, Routes: handlers{s, h}.routes(), Created: s.sessionCreated,
		Deleted: s.sessionDeleted, Abandoned: s.sessionAbandoned,
		Kept: handlers{s, h}.kept, KeptBy: handlers{s, h}.keptGlobal,
	}
}

// handlers implements the routes.
type handlers struct {
	*Store
	host part.Host
}

func (h handlers) routes() []route.Route {
	var all []route.Route
	for _, some := range [][]route.Route{
		h.variableRoutes(), h.branchRoutes(), h.floorRoutes(), h.pageRoutes(),
		h.previewRoutes(),
	} {
		all = append(all, some...)
	}
	return all
}

// account returns the account that a request is about. If an operator names none, it is default-admin, or the owner
// of the session in the path.
func account(r *http.Request) string { return route.CallerOf(r).Account }

// author returns the author of what comes over a socket. An agent writes for its model.
func author(r *http.Request) provenance.Authors {
	if route.CallerOf(r).Role == tool.RoleOperator {
		return provenance.Of(tool.OriginPerson)
	}
	return provenance.Of(tool.OriginModel)
}

// sorted returns the query parameters of a list that can be sorted by these fields; the first one is the default.
func sorted(by ...string) []route.Param {
	return append([]route.Param{
		{Name: "sort_by", Enum: by}, {Name: "sort_order", Enum: []string{"desc", "asc"}},
	}, route.PageQuery...)
}

// order is the order that a request wants.
type order struct {
	route.Page
	by   string
	desc bool
}

func ordering(r *http.Request, first string) (order, error) {
	p, err := route.Paging(r)
	o := order{p, first, r.FormValue("sort_order") != "asc"}
	if by := r.FormValue("sort_by"); by != "" {
		o.by = by
	}
	return o, err
}

// list returns a page of a list with its order.
func (o order) list(data any, n, total int) route.List {
	l := o.List(data, n, total)
	l.Meta.SortBy, l.Meta.SortOrder = o.by, o.word()
	return l
}

// word returns the order as the API spells it.
func (o order) word() string {
	if o.desc {
		return "desc"
	}
	return "asc"
}

// given returns a query parameter, or nil if the request has none of that name.
func given(r *http.Request, name string) *string {
	if v := r.FormValue(name); v != "" {
		return &v
	}
	return nil
}
