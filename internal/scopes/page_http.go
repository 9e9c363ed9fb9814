package scopes

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func (h handlers) pageRoutes() []route.Route {
	return []route.Route{
		{
			Pattern: "POST /pages", Role: tool.RoleAgent, Keeps: true, Handle: h.createPage,
			Spec: route.Spec{
				ID: "createPage", Summary: "Make a page of a floor", In: newPage{}, Out: PageInfo{}, Created: true,
				Errors: []int{404, 409},
			},
		},
		{
			Pattern: "GET /pages", Role: tool.RoleAgent, Handle: h.listPages,
			Spec: route.Spec{
				ID: "listPages", Summary: "Pages", Query: append([]route.Param{
					{Name: "floor_id"},
					{Name: "page_kind", Enum: []string{"input", "output", "mixed"}},
					{Name: "is_active", Type: "boolean"},
				}, sorted("created_at", "updated_at", "page_no", "version")...), Out: []PageInfo{}, Paged: true,
			},
		},
		{
			Pattern: "GET /pages/{id}", Role: tool.RoleAgent, Handle: h.getPage,
			Spec: route.Spec{ID: "getPage", Summary: "One page", Out: PageInfo{}},
		},
		{
			Pattern: "PATCH /pages/{id}", Role: tool.RoleAgent, Keeps: true, Handle: h.patchPage,
			Spec: route.Spec{
				ID: "patchPage", Summary: "Change a page", In: pagePatch{}, Out: PageInfo{}, Errors: []int{409},
			},
		},
		{
			Pattern: "DELETE /pages/{id}", Role: tool.RoleAgent, Handle: h.removePage,
			Spec: route.Spec{
				ID: "deletePage", Summary: "Delete a page with its variables, ledger and traces", Out: route.Deleted{},
				Errors: []int{409},
			},
		},
		{
			Pattern: "PATCH /pages/{id}/activate", Role: tool.RoleAgent, Keeps: true, Handle: h.activate,
			Spec: route.Spec{
				ID: "activatePage", Summary: "Make a page the active one of its slot", In: nothing{}, Out: PageInfo{},
				Errors: []int{409},
			},
		},
		{
			Pattern: "POST /pages/{id}/accept", Role: tool.RoleAgent, Keeps: true, Handle: h.accept,
			Spec: route.Spec{
				ID: "acceptPage", Summary: "Accept a page: what was staged for it is resolved now", In: nothing{},
				Out: PageInfo{}, Errors: []int{409},
			},
		},
		{
			Pattern: "POST /pages/{id}/reject", Role: tool.RoleAgent, Keeps: true, Handle: h.reject,
			Spec: route.Spec{
				ID: "rejectPage", Summary: "Reject a page: what was staged for it is rejected", In: reasonRequest{},
				Out: PageInfo{}, Errors: []int{409},
			},
		},
		{
			Pattern: "GET /pages/{id}/variables/staged", Role: tool.RoleAgent, Handle: h.staged,
			Spec: route.Spec{
				ID: "listStagedWrites", Summary: "What tools staged for a page",
				Out: ofPage[stagedWrite]{},
			},
		},
		{
			Pattern: "GET /pages/{id}/variables/promotions", Role: tool.RoleAgent, Handle: h.promotions,
			Spec: route.Spec{
				ID: "listPromotions", Summary: "What was promoted from a page to its floor",
				Out: ofPage[promotion]{},
			},
		},
	}
}

// newPage is the body of a request to create a page.
type newPage struct {
	Floor    string  `json:"floor_id"`
	No       int64   `json:"page_no"`
	Kind     Kind    `json:"page_kind"`
	Version  *int64  `json:"version,omitempty"`
	Checksum *string `json:"checksum,omitempty"`
}

// maxChecksum bounds the bytes of a page's checksum.
const maxChecksum = 256

// checked returns what is wrong with a page.
func (p PageInfo) checked() error {
	switch {
	case p.No < 0:
		return badRequest("validation_error", "page_no must not be negative")
	case p.Version < 1:
		return badRequest("validation_error", "version begins at 1")
	case p.Kind != Input && p.Kind != Output && p.Kind != Mixed:
		return badRequest("validation_error", fmt.Sprintf("page_kind is %q: want input, output or mixed",
			clip(string(p.Kind))))
	case p.Checksum != nil && len(*p.Checksum) > maxChecksum:
		return badRequest("validation_error", fmt.Sprintf("checksum has %d bytes, %d at most", len(*p.Checksum),
			maxChecksum))
	}
	return nil
}

func (h handlers) createPage(r *http.Request) (any, error) {
	var in newPage
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	p := PageInfo{Floor: in.Floor, No: in.No, Kind: in.Kind, Version: 1, Checksum: in.Checksum}
	if in.Version != nil {
		p.Version = *in.Version
	}
	if err := p.checked(); err != nil {
		return nil, err
	}
	err := h.write(r.Context(), account(r), noThing, func(v view) error {
		f, err := v.floor(p.Floor)
		if err != nil {
			return err
		}
		p.ID, p.CreatedAt, p.UpdatedAt = h.newID("pag_"), v.now, v.now
		if err := v.checkSlot(f, &p); err != nil {
			return err
		}
		taken, err := v.slotTaken(p)
		if err != nil {
			return err
		}
		p.Active = !taken
		return v.Run(`INSERT INTO scope_pages (id, account, floor, page_no, kind, active, version, checksum,
			created, updated)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)`,
			p.ID, v.account, p.Floor, p.No, p.Kind, p.Active, p.Version, p.Checksum, v.now)
	})
	return route.Created{Data: p}, err
}

// closed returns an error if the pages of a floor cannot change any more.
func closed(f FloorInfo) error {
	if f.State == Committed || !f.live() {
		return conflict("content_target_locked", "floor "+f.ID+" is committed or superseded",
			"change pages of a floor before")
	}
	return nil
}

// checkSlot returns an error if the floor of a page is closed or the page exists.
func (v view) checkSlot(f FloorInfo, p *PageInfo) error {
	if err := closed(f); err != nil {
		return err
	}
	taken, err := v.hasRow(`SELECT 1 FROM scope_pages WHERE floor = $1 AND page_no = $2 AND version = $3 AND id <> $4`,
		p.Floor, p.No, p.Version, p.ID)
	if err == nil && taken {
		err = conflict("page_conflict", fmt.Sprintf("the floor has a page %d of version %d", p.No, p.Version),
			"take another page_no or version")
	}
	return err
}

func (h handlers) listPages(r *http.Request) (any, error) {
	o, err := ordering(r, "created_at")
	if err != nil {
		return nil, err
	}
	column := map[string]string{
		"created_at": "p.created", "updated_at": "p.updated", "page_no": "p.page_no", "version": "p.version",
	}[o.by]
	where := `p.account = $1 AND ($2 = '' OR p.floor = $2) AND ($3 = '' OR p.kind = $3) AND ($4 = '' OR
		(p.active = 1) = ($4 = 'true'))`
	args := []any{account(r), r.FormValue("floor_id"), r.FormValue("page_kind"), r.FormValue("is_active")}
	return listOf(r.Context(), h.Store, o, "scope_pages p", pageColumns, where, column, "p.id", scanPage, args...)
}

func (h handlers) getPage(r *http.Request) (any, error) {
	var p PageInfo
	err := h.read(r.Context(), account(r), noThing, func(v view) (err error) {
		p, err = v.page(r.PathValue("id"))
		return err
	})
	return p, err
}

// changePage calls change with the page that the request names, and answers with the page.
func (h handlers) changePage(r *http.Request, change func(view, *PageInfo, FloorInfo) error) (any, error) {
	var p PageInfo
	err := h.write(r.Context(), account(r), noThing, func(v view) error {
		var f FloorInfo
		var err error
		if p, f, err = v.pageAndFloor(r.PathValue("id")); err != nil {
			return err
		}
		return change(v, &p, f)
	})
	return p, err
}

// pagePatch is a change of a page.
type pagePatch struct {
	No       *int64          `json:"page_no,omitempty"`
	Kind     *Kind           `json:"page_kind,omitempty"`
	Version  *int64          `json:"version,omitempty"`
	Checksum json.RawMessage `json:"checksum,omitempty"` // null removes it
}

// apply applies the change.
func (in pagePatch) apply(p *PageInfo) error {
	if in.No != nil {
		p.No = *in.No
	}
	if in.Kind != nil {
		p.Kind = *in.Kind
	}
	if in.Version != nil {
		p.Version = *in.Version
	}
	if in.Checksum != nil {
		p.Checksum = nil
		if json.Unmarshal(in.Checksum, &p.Checksum) != nil {
			return badRequest("validation_error", "checksum must be a string or null")
		}
	}
	return p.checked()
}

func (h handlers) patchPage(r *http.Request) (any, error) {
	var in pagePatch
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if in.No == nil && in.Kind == nil && in.Version == nil && in.Checksum == nil {
		return nil, badRequest("validation_error", "give page_no, page_kind, version or checksum")
	}
	if err := in.apply(&PageInfo{Kind: Input, Version: 1}); err != nil {
		return nil, err // the body is validated before the page is looked up
	}
	return h.changePage(r, func(v view, p *PageInfo, f FloorInfo) error {
		if err := in.apply(p); err != nil {
			return err
		}
		if err := v.checkSlot(f, p); err != nil {
			return err
		}
		taken, err := v.slotTaken(*p)
		if err != nil {
			return err
		}
		p.Active = p.Active && !taken // its new slot may already have an active page
		return v.savePage(p)
	})
}

func (h handlers) removePage(r *http.Request) (any, error) {
	_, err := h.changePage(r, func(v view, p *PageInfo, f FloorInfo) error {
		if err := closed(f); err != nil {
			return err
		}
		return v.deletePage(p.ID)
	})
	return route.Deleted{ID: r.PathValue("id"), Deleted: true}, err
}

func (h handlers) activate(r *http.Request) (any, error) {
	if err := route.Read(r, &nothing{}); err != nil {
		return nil, err
	}
	return h.changePage(r, func(v view, p *PageInfo, f FloorInfo) error {
		if p.Kind == Input {
			return conflict("page_activation_not_allowed", "a page of input is not activated",
				"activate a page of output")
		}
		if !f.live() {
			return closed(f)
		}
		err := v.Run(`UPDATE scope_pages SET active = $1, updated = $2 WHERE floor = $3 AND page_no = $4 AND active
			= $5 AND id <> $6`,
			false, v.now, p.Floor, p.No, true, p.ID)
		if err != nil {
			return err
		}
		p.Active = true
		return v.savePage(p)
	})
}

func (h handlers) accept(r *http.Request) (any, error) {
	if err := route.Read(r, &nothing{}); err != nil {
		return nil, err
	}
	return h.decide(r, Accepted)
}

func (h handlers) reject(r *http.Request) (any, error) {
	reason, err := readReason(r)
	if err != nil {
		return nil, err
	}
	if err := h.noteReason(r, "page_rejected", "page", reason); err != nil {
		return nil, err
	}
	return h.decide(r, Rejected)
}

// decide stores a decision about a page. The same decision again changes nothing.
func (h handlers) decide(r *http.Request, d Decision) (any, error) {
	return h.changePage(r, func(v view, p *PageInfo, f FloorInfo) error {
		if err := closed(f); err != nil {
			return err
		}
		switch p.said() {
		case d:
			return nil
		case "":
		default:
			return conflict("invalid_state", "the page was "+string(p.said())+" already",
				"make another version of the page")
		}
		p.Decision = &d
		if err := v.savePage(p); err != nil {
			return err
		}
		return v.settle(f, *p)
	})
}

// ofPage is a list of what one page has.
type ofPage[T any] struct {
	Page    string `json:"page_id"`
	Floor   string `json:"floor_id"`
	Session string `json:"session_id"`
	Branch  string `json:"branch_id"`
	Items   []T    `json:"items"`
}

func (h handlers) staged(r *http.Request) (any, error) {
	return inspect(h, r, "scope_staged", view.stagedOf)
}

func (h handlers) promotions(r *http.Request) (any, error) {
	return inspect(h, r, "scope_promotions", view.promotionsOf)
}

// inspect answers with rows of a page, the oldest first.
func inspect[T any](h handlers, r *http.Request, table string, items func(view, string) ([]T, error)) (any, error) {
	var out ofPage[T]
	err := h.read(r.Context(), account(r), noThing, func(v view) error {
		p, f, err := v.pageAndFloor(r.PathValue("id"))
		if err != nil {
			return err
		}
		var size int64
		if err := v.Row(`SELECT coalesce(sum(length(value) + 1000), 0) FROM `+table+` WHERE page = $1`,
			p.ID).Scan(&size); err != nil {
			return err
		}
		if err := budget.Of(r.Context()).Take(2 * size); err != nil {
			return err
		}
		out = ofPage[T]{Page: p.ID, Floor: f.ID, Session: f.Session, Branch: f.Branch}
		out.Items, err = items(v, p.ID)
		return err
	})
	return out, err
}
