package scopes

import (
	"database/sql"
	"fmt"
	"net/http"
	"slices"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func (h handlers) branchRoutes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /sessions/{id}/branches", Role: tool.RoleAgent, Handle: h.listBranches,
			Spec: route.Spec{
				ID: "listBranches", Summary: "Branches of a session",
				Query: sorted("updated_at", "branch_id", "floor_count", "latest_floor_no"), Out: []branchInfo{},
				Paged: true,
			},
		},
		{
			Pattern: "POST /sessions/{id}/branches", Role: tool.RoleAgent, Keeps: true, Handle: h.reserveBranch,
			Spec: route.Spec{
				ID: "reserveBranch", Summary: "Register a branch that has no floor yet",
				In: newBranch{}, Out: reserved{}, Created: true, Errors: []int{409},
			},
		},
		{
			Pattern: "POST /sessions/{id}/branches/{branch_id}/reset", Role: tool.RoleAgent, Keeps: true,
			Handle: h.resetBranch,
			Spec: route.Spec{
				ID: "resetBranch", Summary: "Supersede the floors of a branch after one of them",
				In: resetRequest{}, Out: resetDone{}, Errors: []int{409},
			},
		},
		{
			Pattern: "DELETE /branches/{branch_id}", Role: tool.RoleAgent, Handle: h.deleteBranch,
			Spec: route.Spec{
				ID: "deleteBranch", Summary: "Delete a branch with its floors, pages and variables",
				Query: []route.Param{{Name: "session_id"}}, Out: branchDeleted{}, Errors: []int{409},
			},
		},
	}
}

// branchInfo is a branch in the answer of a list.
type branchInfo struct {
	Branch        string  `json:"branch_id"`
	FloorCount    int     `json:"floor_count"`
	LatestFloorNo *int64  `json:"latest_floor_no"`
	LatestFloorID *string `json:"latest_floor_id"`
	LatestState   *State  `json:"latest_state"`
	UpdatedAt     int64   `json:"updated_at"`
}

func (h handlers) listBranches(r *http.Request) (any, error) {
	o, err := ordering(r, "updated_at")
	if err != nil {
		return nil, err
	}
	session, items, total := r.PathValue("id"), []branchInfo{}, 0
	column := map[string]string{
		"updated_at": "touched", "branch_id": "b.branch", "floor_count": "floors",
		"latest_floor_no": "coalesce(l.floor_no, -1)",
	}[o.by]
	err = h.read(r.Context(), account(r), noThing, func(v view) error {
		if err := v.session(session); err != nil {
			return err
		}
		if err := v.Row(`SELECT count(*) FROM scope_branches WHERE session = $1`, session).Scan(&total); err != nil {
			return err
		}
		return v.Each(func(rows *sql.Rows) error {
			var b branchInfo
			err := rows.Scan(&b.Branch, &b.FloorCount, &b.LatestFloorNo, &b.LatestFloorID, &b.LatestState, &b.UpdatedAt)
			items = append(items, b)
			return err
		}, fmt.Sprintf(`SELECT b.branch, coalesce(c.n, 0) AS floors, l.floor_no, l.id, l.state, coalesce(c.latest,
			b.created) AS touched
			FROM scope_branches b
			LEFT JOIN (SELECT branch, count(*) AS n, max(floor_no) AS head, max(updated) AS latest FROM scope_floors
				WHERE session = $1 AND superseded = 0 GROUP BY branch) c ON c.branch = b.branch
			LEFT JOIN scope_floors l ON l.session = b.session AND l.branch = b.branch AND l.floor_no = c.head AND
				l.superseded = 0
			WHERE b.session = $1 ORDER BY %s %s, b.branch %[2]s LIMIT %d OFFSET %d`, column, o.word(), o.Limit,
			o.Offset), session)
	})
	return o.list(items, len(items), total), err
}

// newBranch is the body of a request to register a branch.
type newBranch struct {
	Branch string  `json:"branch_id"`
	Source *string `json:"source_floor_id,omitempty"`
}

// reserved is the answer to the registration of a branch.
type reserved struct {
	Session  string  `json:"session_id"`
	Branch   string  `json:"branch_id"`
	Source   *string `json:"source_floor_id,omitempty"`
	SourceNo *int64  `json:"source_floor_no,omitempty"`
}

func (h handlers) reserveBranch(r *http.Request) (any, error) {
	var in newBranch
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	name, err := checkBranch(in.Branch)
	if err != nil {
		return nil, err
	}
	session, source := r.PathValue("id"), ""
	err = h.write(r.Context(), account(r), noThing, func(v view) error {
		if err := v.session(session); err != nil {
			return err
		}
		if in.Source != nil {
			source = *in.Source
			f, err := v.floor(source)
			if err != nil {
				return err
			}
			if f.Session != session {
				return missing(noThing, "floor", source)
			}
		}
		return v.newBranch(session, name, source)
	})
	return route.Created{Data: reserved{Session: session, Branch: name, Source: in.Source}}, err
}

// newBranch registers a branch. It is an error if the branch exists.
func (v view) newBranch(session, name, source string) error {
	taken, err := v.hasRow(`SELECT 1 FROM scope_branches WHERE session = $1 AND branch = $2`, session, name)
	if err != nil {
		return err
	}
	if taken {
		return conflict("branch_exists", fmt.Sprintf("branch %q is registered already", name),
			"use it, or choose another name")
	}
	return v.registerBranch(session, name, source)
}

// resetRequest names the floor that a branch is reset to.
type resetRequest struct {
	Target string `json:"target_floor_id"`
	Head   string `json:"expected_head_floor_id"`
}

// resetDone says which floors a reset superseded.
type resetDone struct {
	Session    string   `json:"session_id"`
	Branch     string   `json:"branch_id"`
	Target     string   `json:"target_floor_id"`
	Head       string   `json:"expected_head_floor_id"`
	Superseded []string `json:"superseded_floor_ids"`
	Count      int      `json:"superseded_count"`
}

func (h handlers) resetBranch(r *http.Request) (any, error) {
	var in resetRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	done := resetDone{
		Session: r.PathValue("id"), Branch: r.PathValue("branch_id"), Target: in.Target, Head: in.Head,
		Superseded: []string{},
	}
	err := h.write(r.Context(), account(r), noThing, func(v view) error {
		if err := v.branch(done.Session, done.Branch); err != nil {
			return err
		}
		to, err := v.floor(in.Target)
		if err != nil {
			return err
		}
		if to.Session != done.Session {
			return missing(noThing, "floor", in.Target)
		}
		if to.Branch != done.Branch || !to.live() {
			return conflict("invalid_state", "the target is no live floor of this branch",
				"list the floors of the branch")
		}
		later, err := v.floors(`f.session = $1 AND f.branch = $2 AND f.superseded = 0 AND f.floor_no >= $3`,
			done.Session, done.Branch, to.No)
		if err != nil {
			return err
		}
		if head := later[len(later)-1].ID; head != in.Head {
			return conflict("branch_head_conflict", fmt.Sprintf("the head of the branch is %s", head),
				"read the branch again: somebody changed it")
		}
		later = slices.DeleteFunc(later, func(f FloorInfo) bool { return f.ID == to.ID })
		for _, f := range later {
			if f.State == Generating {
				return conflict("invalid_state", "floor "+f.ID+" is generating", "wait for its end, or let it fail")
			}
			err := v.Run(`UPDATE scope_floors SET superseded = $1, updated = $1 WHERE id = $2`, v.now, f.ID)
			if err == nil {
				err = v.discard(f.ID, "floor_superseded")
			}
			if err != nil {
				return err
			}
			done.Superseded = append(done.Superseded, f.ID)
		}
		done.Count = len(done.Superseded)
		return nil
	})
	return done, err
}

// floors returns the floors that satisfy a condition, sorted by number.
func (v view) floors(where string, args ...any) ([]FloorInfo, error) {
	var all []FloorInfo
	err := v.Each(func(rows *sql.Rows) error {
		f, err := scanFloor(rows)
		all = append(all, f)
		return err
	}, `SELECT `+floorColumns+` FROM scope_floors f WHERE `+where+` ORDER BY f.floor_no, f.id`, args...)
	return all, err
}

// branchDeleted is the answer to the deletion of a branch.
type branchDeleted struct {
	Branch  string `json:"branch_id"`
	Session string `json:"session_id"`
	Floors  int    `json:"deleted_floor_count"`
}

func (h handlers) deleteBranch(r *http.Request) (any, error) {
	done := branchDeleted{Branch: r.PathValue("branch_id")}
	err := h.write(r.Context(), account(r), noThing, func(v view) (err error) {
		if done.Session, err = v.sessionOfBranch(done.Branch, given(r, "session_id")); err != nil {
			return err
		}
		if done.Branch == mainBranch {
			return conflict("protected_branch", "main is the branch that every session has", "delete the session")
		}
		if done.Floors, err = v.deleteFloors(done.Session, `f.branch = $1`, done.Branch); err != nil {
			return err
		}
		if err := v.deleteVariables(Branch, `v.host = $1 AND v.branch = $2`, done.Session, done.Branch); err != nil {
			return err
		}
		return v.Run(`DELETE FROM scope_branches WHERE session = $1 AND branch = $2`, done.Session, done.Branch)
	})
	return done, err
}

// sessionOfBranch returns the session of a branch, which a request need not name.
func (v view) sessionOfBranch(branch string, session *string) (string, error) {
	if session != nil {
		return *session, v.branch(*session, branch)
	}
	if branch == mainBranch {
		return "", nil // the request is refused later, whichever session has it
	}
	var found []string
	err := v.Each(func(rows *sql.Rows) error {
		var s string
		err := rows.Scan(&s)
		found = append(found, s)
		return err
	}, `SELECT session FROM scope_branches WHERE account = $1 AND branch = $2 LIMIT 2`, v.account, branch)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", missing(noThing, "branch", branch)
	case len(found) > 1:
		return "", conflict("ambiguous_branch", fmt.Sprintf("branch %q is in several sessions", clip(branch)),
			"give session_id")
	}
	return found[0], nil
}
