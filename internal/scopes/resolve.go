package scopes

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/sandboxd/sandboxd/internal/budget"
)

// place is the place in a conversation from which variables are read. Branch, floor and page may be "".
type place struct {
	session, branch, floor, page string
}

// targets returns the hosts that are visible at the place, the strongest first (S-02).
func (p place) targets() []target {
	var all []target
	if p.page != "" {
		all = append(all, target{scope: Page, host: p.page})
	}
	if p.floor != "" {
		all = append(all, target{scope: Floor, host: p.floor})
	}
	if p.branch != "" {
		all = append(all, target{Branch, p.session, p.branch})
	}
	return append(all, target{scope: Chat, host: p.session}, globalTarget)
}

// stand completes a place from the parts that a caller names. It refuses parts that contradict each other (S-43,
// S-44).
func (v view) stand(p place) (place, error) {
	if p.page != "" {
		f, err := v.floorOfPage(p.page)
		if err != nil {
			return p, err
		}
		if p.floor != "" && p.floor != f.ID {
			return p, badRequest("invalid_variable_context", "page_id is of another floor than floor_id")
		}
		p.floor = f.ID
		if err := p.in(f, "page_id"); err != nil {
			return p, err
		}
		p.branch = f.Branch
	} else if p.floor != "" {
		f, err := v.floor(p.floor)
		if err != nil {
			return p, err
		}
		if err := p.in(f, "floor_id"); err != nil {
			return p, err
		}
		p.branch = f.Branch
	}
	if p.branch != "" {
		return p, v.branch(p.session, p.branch)
	}
	return p, v.session(p.session)
}

// in returns an error if the place names another session or branch than that of f. what says in the message which
// field led to f.
func (p place) in(f FloorInfo, what string) error {
	if p.session != f.Session {
		return badRequest("invalid_variable_context", what+" is of another session than session_id")
	}
	if p.branch != "" && p.branch != f.Branch {
		return badRequest("invalid_variable_context", what+" is of another branch than branch_id")
	}
	return nil
}

// placement is a place in the API.
type placement struct {
	Account string `json:"account_id"`
	Session string `json:"session_id"`
	Branch  string `json:"branch_id,omitempty"`
	Floor   string `json:"floor_id,omitempty"`
	Page    string `json:"page_id,omitempty"`
	Global  string `json:"global_scope_id"`
}

// winner is the variable that is effective for its key.
type winner struct {
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Scope     Scope           `json:"source_scope"`
	ScopeID   string          `json:"source_scope_id"`
	ScopeRef  *Ref            `json:"source_scope_ref,omitempty"`
	UpdatedAt int64           `json:"updated_at"`
}

// layer holds the variables of one host.
type layer struct {
	Scope    Scope      `json:"scope"`
	ScopeID  string     `json:"scope_id"`
	ScopeRef *Ref       `json:"scope_ref,omitempty"`
	Items    []Variable `json:"items"`
}

// resolution holds the variables that are effective at a place.
type resolution struct {
	Context  placement       `json:"context"`
	Resolved []winner        `json:"resolved"`
	Layers   map[Scope]layer `json:"layers,omitempty"`
}

// resolve returns the variables that are effective at a place, without staged writes (S-11).
func (s *Store) resolve(ctx context.Context, account string, at place, layers bool) (resolution, error) {
	var out resolution
	err := s.read(ctx, account, noHost, func(v view) error {
		at, err := v.stand(at)
		if err != nil {
			return err
		}
		if err := v.room(ctx, at.targets()); err != nil {
			return err
		}
		out.Context = placement{account, at.session, at.branch, at.floor, at.page, globalTarget.host}
		out.Resolved = []winner{}
		if layers {
			out.Layers = map[Scope]layer{}
		}
		won := map[string]bool{}
		for _, t := range at.targets() {
			items, err := v.variables(t)
			if err != nil {
				return err
			}
			if layers {
				out.Layers[t.scope] = layer{t.scope, t.scopeID(), t.ref(), items}
			}
			for _, x := range items {
				if !won[x.Key] {
					won[x.Key] = true
					out.Resolved = append(out.Resolved, winner{
						x.Key, x.Value, x.Scope, x.ScopeID, x.ScopeRef,
						x.UpdatedAt,
					})
				}
			}
		}
		slices.SortFunc(out.Resolved, func(a, b winner) int { return cmp.Compare(a.Key, b.Key) })
		return nil
	})
	return out, err
}

// room takes memory for all variables of these hosts before they are read.
func (v view) room(ctx context.Context, all []target) error {
	var sum int64
	for _, t := range all {
		var n int64
		err := v.Row(`SELECT coalesce(sum(length(v.value) + 1000), 0) FROM scope_vars v
			WHERE v.account = $1 AND v.scope = $2 AND v.host = $3 AND v.branch = $4`,
			v.account, t.scope, t.host, t.branch).Scan(&n)
		if err != nil {
			return err
		}
		sum += n
	}
	return budget.Of(ctx).Take(2 * sum)
}

// variables returns the variables of one host, by key.
func (v view) variables(t target) ([]Variable, error) {
	items := []Variable{}
	err := v.Each(func(rows *sql.Rows) error {
		x, err := scanVariable(rows)
		items = append(items, x)
		return err
	}, `SELECT `+varColumns+` FROM scope_vars v WHERE v.account = $1 AND v.scope = $2 AND v.host = $3 AND v.branch = $4
		ORDER BY v.key`, v.account, t.scope, t.host, t.branch)
	return items, err
}

// effective returns the variable that is effective for one key at a complete place.
func (v view) effective(at place, key string) (Variable, bool, error) {
	const one = `(SELECT id FROM scope_vars WHERE account = $1 AND key = $2 AND `
	x, err := scanVariable(v.Row(`SELECT `+varColumns+` FROM scope_vars v WHERE v.id = coalesce(
		`+one+`scope = 'page' AND host = $3 AND branch = ''),
		`+one+`scope = 'floor' AND host = $4 AND branch = ''),
		`+one+`scope = 'branch' AND host = $5 AND branch = $6),
		`+one+`scope = 'chat' AND host = $5 AND branch = ''),
		`+one+`scope = 'global' AND host = 'global' AND branch = ''))`,
		v.account, key, at.page, at.floor, at.session, at.branch))
	if errors.Is(err, sql.ErrNoRows) {
		return x, false, nil
	}
	return x, err == nil, err
}
