package policy

import (
	"errors"
	"net/http"
	"slices"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Part returns the engine, and the decisions that are kept, as a part of the daemon.
func (e *Engine) Part(h part.Host, kept *Decisions, shadow *Shadow) part.Part {
	return part.Part{Routes: handlers{e, kept, shadow, h}.routes()}
}

// handlers are the routes of policies and decisions.
type handlers struct {
	engine    *Engine
	decisions *Decisions
	shadow    *Shadow
	host      part.Host
}

func (h handlers) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /policies", Role: tool.RoleOperator, Handle: h.policies,
			Spec: route.Spec{ID: "getPolicies", Summary: "Which policies judge", Out: Status{}},
		},
		{
			Pattern: "POST /policies/reload", Role: tool.RoleOperator, Handle: h.reloadPolicies,
			Spec: route.Spec{
				ID: "reloadPolicies", Summary: "Load the policies again", In: Reload{}, Out: Status{},
				Errors: []int{409},
			},
		},
		{
			Pattern: "GET /policies/shadow", Role: tool.RoleOperator, Handle: h.shadowReport,
			Spec: route.Spec{
				ID: "getShadow", Summary: "Where the policies that judge in the shadow differ", Query: route.PageQuery,
				Out: ShadowReport{},
			},
		},
		{
			Pattern: "GET /decisions", Role: tool.RoleOperator, Handle: h.listDecisions,
			Spec: route.Spec{
				ID: "listDecisions", Summary: "How calls were judged, the newest first",
				Query: slices.Concat(route.PageQuery,
					[]route.Param{{Name: "session_id"}, {Name: "verdict", Enum: verdicts}, {Name: "search"}}),
				Out: []Judged{}, Paged: true,
			},
		},
		{
			Pattern: "GET /decisions/{id}", Role: tool.RoleOperator, Handle: h.decision,
			Spec: route.Spec{ID: "getDecision", Summary: "How a call was judged", Out: Record{}},
		},
	}
}

func (h handlers) policies(*http.Request) (any, error) { return h.engine.Status(), nil }

// Reload asks for a reload.
type Reload struct {
	Loosen bool `json:"loosen,omitempty"` // let pass what did not pass before, where policy.guardReload is on
}

func (h handlers) reloadPolicies(r *http.Request) (any, error) {
	var in Reload
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	err := h.engine.Reload(r.Context(), in.Loosen)
	said := tool.Note{Name: "reload", Message: "policies reloaded by " + route.CallerOf(r).Operator()}
	status := h.engine.Status()
	if status.Loosens != nil {
		said.Message += ", which " + status.Loosens.Words()
	}
	if err != nil {
		said.Message = "policies kept, for the new ones failed: " + err.Error()
	}
	if err := h.host.Record(r.Context(), said); err != nil {
		return nil, err
	}
	var loose *tool.Error
	if errors.As(err, &loose) {
		return nil, loose
	}
	if err != nil {
		return nil, &tool.Error{
			Code: "policy_load_failed", Msg: err.Error(), Hint: "the last good policies stay in force",
		}
	}
	return status, nil
}

func (h handlers) shadowReport(r *http.Request) (any, error) {
	page, err := route.Paging(r)
	if err != nil {
		return nil, err
	}
	return h.shadow.Report(r.Context(), page.Limit, page.Offset)
}

// decision returns the record of one call: what was judged then, by the policies of then.
func (h handlers) decision(r *http.Request) (any, error) {
	me := route.CallerOf(r)
	account := me.Account
	if me.Any {
		account = ""
	}
	rec, err := h.decisions.Find(r.Context(), account, r.PathValue("id"))
	if errors.Is(err, ErrNoDecision) {
		return nil, route.Missing("not_found", err.Error())
	}
	return rec, err
}

// listDecisions returns a page of what was judged, without what the policies saw.
func (h handlers) listDecisions(r *http.Request) (any, error) {
	page, err := route.Paging(r)
	if err != nil {
		return nil, err
	}
	f := Wanted{
		Session: r.FormValue("session_id"), Verdict: r.FormValue("verdict"), Search: r.FormValue("search"), Page: page,
	}
	if me := route.CallerOf(r); !me.Any {
		f.Account = me.Account
	}
	found, err := h.decisions.List(r.Context(), f)
	if err != nil {
		return nil, err
	}
	return route.Rows(r, page, found.Rows(r.Context()), len(found.Keys), found.Total, found.Bytes())
}
