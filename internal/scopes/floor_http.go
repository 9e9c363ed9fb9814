package scopes

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func (h handlers) floorRoutes() []route.Route {
	move := func(act, id, summary string, in any, f func(*http.Request) (any, error)) route.Route {
		return route.Route{
			Pattern: "POST /floors/{id}/" + act, Role: tool.RoleAgent, Keeps: true, Handle: f,
			Spec: route.Spec{ID: id, Summary: summary, In: in, Out: FloorInfo{}, Errors: []int{409}},
		}
	}
	branch := move("branch", "branchFromFloor", "Register a branch that begins at a committed floor", branchRequest{},
		h.branchFromFloor)
	branch.Spec.Out, branch.Spec.Created = reserved{}, true
	return []route.Route{
		{
			Pattern: "POST /floors", Role: tool.RoleAgent, Keeps: true, Handle: h.createFloor,
			Spec: route.Spec{
				ID: "createFloor", Summary: "Make a floor: one turn on one branch of a session",
				In: newFloor{}, Out: FloorInfo{}, Created: true, Errors: []int{404, 409},
			},
		},
		{
			Pattern: "GET /floors", Role: tool.RoleAgent, Handle: h.listFloors,
			Spec: route.Spec{
				ID: "listFloors", Summary: "Floors that are not superseded", Query: append([]route.Param{
					{Name: "session_id"},
					{Name: "branch_id"},
					{Name: "state", Enum: []string{"draft", "generating", "committed", "failed"}},
				}, sorted("created_at", "updated_at", "floor_no")...), Out: []FloorInfo{}, Paged: true,
			},
		},
		{
			Pattern: "GET /floors/{id}", Role: tool.RoleAgent, Handle: h.getFloor,
			Spec: route.Spec{ID: "getFloor", Summary: "One floor", Out: FloorInfo{}},
		},
		{
			Pattern: "PATCH /floors/{id}", Role: tool.RoleAgent, Keeps: true, Handle: h.patchFloor,
			Spec: route.Spec{
				ID: "patchFloor", Summary: "Change where a floor stands", In: floorPatch{}, Out: FloorInfo{},
				Errors: []int{409},
			},
		},
		{
			Pattern: "DELETE /floors/{id}", Role: tool.RoleAgent, Handle: h.removeFloor,
			Spec: route.Spec{
				ID: "deleteFloor", Summary: "Delete a floor with its pages and variables", Out: route.Deleted{},
				Errors: []int{409},
			},
		},
		branch,
		move("generate", "generateFloor", "Begin a generation", nothing{}, h.generate),
		move("fail", "failFloor", "End a generation without a result; what was staged is discarded", reasonRequest{},
			h.fail),
		move("commit", "commitFloor", "Resolve what was staged, take the snapshot, and close the floor", nothing{},
			h.commit),
	}
}

// newFloor is the body of a request to create a floor.
type newFloor struct {
	Session  string  `json:"session_id"`
	No       int64   `json:"floor_no"`
	Branch   *string `json:"branch_id,omitempty"`
	Parent   *string `json:"parent_floor_id,omitempty"`
	State    State   `json:"state,omitempty"`
	TokenIn  int64   `json:"token_in,omitempty"`
	TokenOut int64   `json:"token_out,omitempty"`
}

// checked sets default values, or returns what is wrong with the request.
func (in *newFloor) checked() (err error) {
	name := mainBranch
	if in.Branch != nil {
		if name, err = checkBranch(*in.Branch); err != nil {
			return err
		}
	}
	in.Branch = &name
	switch in.State {
	case "":
		in.State = Draft
	case Draft, Generating, Committed, Failed:
	default:
		return badRequest("validation_error", fmt.Sprintf("state is %q: want draft, generating, committed or failed",
			clip(string(in.State))))
	}
	if in.No < 0 || in.TokenIn < 0 || in.TokenOut < 0 {
		return badRequest("validation_error", "floor_no, token_in and token_out must not be negative")
	}
	return nil
}

func (h handlers) createFloor(r *http.Request) (any, error) {
	var in newFloor
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if err := in.checked(); err != nil {
		return nil, err
	}
	var f FloorInfo
	err := h.write(r.Context(), account(r), noThing, func(v view) error {
		if err := v.session(in.Session); err != nil {
			return err
		}
		f = FloorInfo{
			ID: h.newID("flr_"), Session: in.Session, No: in.No, Branch: *in.Branch, Parent: in.Parent, State: in.State,
			TokenIn: in.TokenIn, TokenOut: in.TokenOut, CreatedAt: v.now, UpdatedAt: v.now,
		}
		if f.State == Generating {
			f.run, f.attempt = h.newID("run_"), 1
		}
		if err := v.checkTopology(f); err != nil {
			return err
		}
		if err := v.registerBranch(f.Session, f.Branch, ""); err != nil {
			return err
		}
		return v.Run(`INSERT INTO scope_floors (id, account, session, branch, floor_no, parent, state, token_in,
			token_out, run,
			attempt, created, updated) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12)`,
			f.ID, v.account, f.Session, f.Branch, f.No, f.parent(), f.State, f.TokenIn, f.TokenOut, f.run, f.attempt,
			v.now)
	})
	return route.Created{Data: f}, err
}

// parent returns the id of the parent floor, or "".
func (f FloorInfo) parent() string {
	if f.Parent == nil {
		return ""
	}
	return *f.Parent
}

// checkTopology returns an error if the parent of a floor is in another session or its number is taken.
func (v view) checkTopology(f FloorInfo) error {
	if f.Parent != nil {
		p, err := v.floor(*f.Parent)
		if err != nil {
			return err
		}
		if p.Session != f.Session {
			return conflict("floor_parent_session_mismatch", "the parent floor is of another session",
				"name a floor of this session")
		}
	}
	if !f.live() {
		return nil
	}
	taken, err := v.hasRow(`SELECT 1 FROM scope_floors WHERE session = $1 AND branch = $2 AND floor_no = $3 AND
		superseded = 0
		AND id <> $4`, f.Session, f.Branch, f.No, f.ID)
	if err == nil && taken {
		err = conflict("constraint_error", fmt.Sprintf("branch %q has a floor %d already", clip(f.Branch), f.No),
			"take another floor_no, or reset the branch")
	}
	return err
}

func (h handlers) listFloors(r *http.Request) (any, error) {
	o, err := ordering(r, "created_at")
	if err != nil {
		return nil, err
	}
	column := map[string]string{"created_at": "f.created", "updated_at": "f.updated", "floor_no": "f.floor_no"}[o.by]
	where := `f.account = $1 AND f.superseded = 0 AND ($2 = '' OR f.session = $2) AND ($3 = '' OR f.branch = $3)
		AND ($4 = '' OR f.state = $4)`
	args := []any{account(r), r.FormValue("session_id"), r.FormValue("branch_id"), r.FormValue("state")}
	return listOf(r.Context(), h.Store, o, "scope_floors f", floorColumns, where, column, "f.id", scanFloor, args...)
}

// listOf answers a list request with a page of rows of bounded size.
func listOf[T any](
	ctx context.Context, s *Store, o order, table, columns, where, column, id string,
	scan func(interface{ Scan(...any) error }) (T, error), args ...any,
) (any, error) {
	items, total := []T{}, 0
	err := s.read(ctx, "", noThing, func(v view) error {
		if err := v.Row(`SELECT count(*) FROM `+table+` WHERE `+where, args...).Scan(&total); err != nil {
			return err
		}
		return v.Each(func(rows *sql.Rows) error {
			x, err := scan(rows)
			items = append(items, x)
			return err
		}, fmt.Sprintf(`SELECT %s FROM %s WHERE %s ORDER BY %s %s, %s %[5]s LIMIT %[7]d OFFSET %[8]d`,
			columns, table, where, column, o.word(), id, o.Limit, o.Offset), args...)
	})
	return o.list(items, len(items), total), err
}

func (h handlers) getFloor(r *http.Request) (any, error) {
	var f FloorInfo
	err := h.read(r.Context(), account(r), noThing, func(v view) (err error) {
		f, err = v.floor(r.PathValue("id"))
		return err
	})
	return f, err
}

// floorPatch changes the position of a floor. The last three fields cannot be changed, and have error codes of their
// own.
type floorPatch struct {
	No       *int64          `json:"floor_no,omitempty"`
	Branch   *string         `json:"branch_id,omitempty"`
	Parent   json.RawMessage `json:"parent_floor_id,omitempty"` // null removes the parent
	State    json.RawMessage `json:"state,omitempty"`
	TokenIn  json.RawMessage `json:"token_in,omitempty"`
	TokenOut json.RawMessage `json:"token_out,omitempty"`
}

// checked returns the new parent, or what is wrong with a patch.
func (in *floorPatch) checked() (parent *string, err error) {
	restricted := in.State != nil || in.TokenIn != nil || in.TokenOut != nil
	moves := in.No != nil || in.Branch != nil || in.Parent != nil
	switch {
	case restricted && moves:
		return nil, badRequest("floor_patch_mixed_fields",
			"state, token_in and token_out cannot be changed, so nothing was")
	case restricted:
		return nil, badRequest("floor_patch_restricted_field",
			"state, token_in and token_out cannot be changed: generate, fail and commit move the state")
	case !moves:
		return nil, badRequest("validation_error", "give floor_no, branch_id or parent_floor_id")
	case in.No != nil && *in.No < 0:
		return nil, badRequest("validation_error", "floor_no must not be negative")
	}
	if in.Branch != nil {
		name, err := checkBranch(*in.Branch)
		if err != nil {
			return nil, err
		}
		in.Branch = &name
	}
	if err := json.Unmarshal(in.Parent, &parent); in.Parent != nil && err != nil {
		return nil, badRequest("validation_error", "parent_floor_id must be a string or null")
	}
	return parent, nil
}

func (h handlers) patchFloor(r *http.Request) (any, error) {
	var in floorPatch
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	parent, err := in.checked()
	if err != nil {
		return nil, err
	}
	return h.changeFloor(r, func(v view, f *FloorInfo) error {
		if f.State == Generating || !f.live() {
			return conflict("invalid_state", "the floor is generating or superseded",
				"change it before, or another one")
		}
		if in.No != nil {
			f.No = *in.No
		}
		if in.Branch != nil {
			f.Branch = *in.Branch
		}
		if in.Parent != nil {
			f.Parent = parent
		}
		if err := v.checkTopology(*f); err != nil {
			return err
		}
		if in.Parent != nil {
			if err := v.checkAncestors(*f); err != nil {
				return err
			}
		}
		if err := v.registerBranch(f.Session, f.Branch, ""); err != nil {
			return err
		}
		f.UpdatedAt = v.now
		return v.Run(`UPDATE scope_floors SET floor_no = $1, branch = $2, parent = $3, updated = $4 WHERE id = $5`,
			f.No, f.Branch, f.parent(), v.now, f.ID)
	})
}

// checkAncestors returns an error if a floor would be its own ancestor. It is one statement, because a walk over a
// long conversation would keep others from writing.
func (v view) checkAncestors(f FloorInfo) error {
	above, err := v.hasRow(`WITH RECURSIVE up (id) AS (SELECT $1 UNION
		SELECT f.parent FROM up JOIN scope_floors f ON f.id = up.id)
		SELECT 1 FROM up WHERE id = $2`, f.parent(), f.ID)
	if err == nil && above {
		err = badRequest("floor_patch_topology_invalid", "the floor would be its own ancestor")
	}
	return err
}

// changeFloor calls change with the floor that the request names, and answers with the floor.
func (h handlers) changeFloor(r *http.Request, change func(view, *FloorInfo) error) (any, error) {
	var f FloorInfo
	err := h.write(r.Context(), account(r), noThing, func(v view) (err error) {
		if f, err = v.floor(r.PathValue("id")); err != nil {
			return err
		}
		return change(v, &f)
	})
	return f, err
}

func (h handlers) removeFloor(r *http.Request) (any, error) {
	_, err := h.changeFloor(r, func(v view, f *FloorInfo) error {
		_, err := v.deleteFloors(f.Session, `f.id = $1`, f.ID)
		return err
	})
	return route.Deleted{ID: r.PathValue("id"), Deleted: true}, err
}

// branchRequest may name the branch that begins at a floor.
type branchRequest struct {
	Branch *string `json:"branch_id,omitempty"`
}

func (h handlers) branchFromFloor(r *http.Request) (any, error) {
	var in branchRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	name := h.newID("branch-")
	if in.Branch != nil {
		var err error
		if name, err = checkBranch(*in.Branch); err != nil {
			return nil, err
		}
	}
	var out reserved
	_, err := h.changeFloor(r, func(v view, f *FloorInfo) error {
		if f.State != Committed || !f.live() {
			return invalidState(*f, "a branch begins at a floor that is committed")
		}
		out = reserved{f.Session, name, &f.ID, &f.No}
		return v.newBranch(f.Session, name, f.ID)
	})
	return route.Created{Data: out}, err
}

// nothing is the body of a request without fields.
type nothing struct{}

// reasonRequest may give a reason, which the record keeps.
type reasonRequest struct {
	Reason string `json:"reason,omitempty"`
}

// readReason reads a body that may give a reason.
func readReason(r *http.Request) (string, error) {
	var in reasonRequest
	if err := route.Read(r, &in); err != nil {
		return "", err
	}
	if n := utf8.RuneCountInString(in.Reason); n > maxReason {
		return "", badRequest("validation_error", fmt.Sprintf("reason has %d characters, %d at most", n, maxReason))
	}
	return in.Reason, nil
}

// invalidState is the error for a request that the floor's state does not allow.
func invalidState(f FloorInfo, why string) error {
	now := string(f.State)
	if !f.live() {
		now = "superseded"
	}
	return conflict("invalid_state", fmt.Sprintf("floor %s is %s", f.ID, now), why)
}

func (h handlers) generate(r *http.Request) (any, error) {
	if err := route.Read(r, &nothing{}); err != nil {
		return nil, err
	}
	return h.changeFloor(r, func(v view, f *FloorInfo) error {
		if !f.live() || f.State != Draft && f.State != Failed {
			return invalidState(*f, "a floor generates from draft or failed")
		}
		f.run, f.attempt = h.newID("run_"), f.attempt+1
		return v.setFloor(f, Generating)
	})
}

func (h handlers) fail(r *http.Request) (any, error) {
	reason, err := readReason(r)
	if err != nil {
		return nil, err
	}
	if err := h.noteReason(r, "floor_failed", "floor", reason); err != nil {
		return nil, err
	}
	return h.changeFloor(r, func(v view, f *FloorInfo) error {
		if !f.stages() {
			return invalidState(*f, "a floor fails from draft or generating")
		}
		if err := v.discard(f.ID, "floor_failed"); err != nil {
			return err
		}
		return v.setFloor(f, Failed)
	})
}

// noteReason writes the reason of a request to the record, if there is one.
func (h handlers) noteReason(r *http.Request, name, what, reason string) error {
	if reason == "" {
		return nil
	}
	return h.host.Record(r.Context(), tool.Note{
		Name: name, Account: account(r), Message: fmt.Sprintf("asked for %s %s: %s", what, clip(r.PathValue("id")),
			reason),
	})
}

func (h handlers) commit(r *http.Request) (any, error) {
	if err := route.Read(r, &nothing{}); err != nil {
		return nil, err
	}
	return h.changeFloor(r, func(v view, f *FloorInfo) error {
		if !f.stages() {
			return invalidState(*f, "a floor is committed from draft or generating")
		}
		return v.commit(f)
	})
}
