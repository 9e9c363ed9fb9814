package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// ScopedVariable is a variable of one of the five scopes; docs/scopes.md says what they are.
type ScopedVariable struct {
	ID        string          `json:"id"`
	Scope     string          `json:"scope"` // global, chat, branch, floor or page
	ScopeID   string          `json:"scope_id"`
	ScopeRef  *BranchRef      `json:"scope_ref,omitempty"` // of a branch only
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	UpdatedAt int64           `json:"updated_at"` // in Unix milliseconds, as all times here
}

// BranchRef names a branch by its session.
type BranchRef struct {
	Session string `json:"session_id"`
	Branch  string `json:"branch_id"`
}

// VariablePlace is the place that variables are read from. Only the session is required.
type VariablePlace struct{ Session, Branch, Floor, Page string }

// VariableSnapshot holds the effective variables at a place, and those of each scope.
type VariableSnapshot struct {
	Resolved []ResolvedVariable       `json:"resolved"`
	Layers   map[string]VariableLayer `json:"layers"`
}

// ResolvedVariable is the effective variable for its key.
type ResolvedVariable struct {
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Scope     string          `json:"source_scope"`
	ScopeID   string          `json:"source_scope_id"`
	UpdatedAt int64           `json:"updated_at"`
}

// VariableLayer holds the variables of one scope at a place.
type VariableLayer struct {
	Scope   string           `json:"scope"`
	ScopeID string           `json:"scope_id"`
	Items   []ScopedVariable `json:"items"`
}

// PageStagedWrites is the ledger of a page, the oldest row first.
type PageStagedWrites struct {
	Items []StagedWrite `json:"items"`
}

// StagedWrite is a write that the tool set_variable staged for a page, and its outcome.
type StagedWrite struct {
	ID         string          `json:"id"`
	Key        string          `json:"key"`
	Op         string          `json:"op"`
	Value      json.RawMessage `json:"value"`
	Intent     string          `json:"intent"`
	Policy     string          `json:"conflict_policy"`
	Reason     string          `json:"reason"`
	Status     string          `json:"status"`
	Decision   *string         `json:"decision_reason"`
	CreatedAt  int64           `json:"created_at"`
	ResolvedAt *int64          `json:"resolved_at"`
}

// PagePromotions are the promotions from a page to its floor, the oldest first.
type PagePromotions struct {
	Items []Promotion `json:"items"`
}

// Promotion is one promotion.
type Promotion struct {
	ID        string          `json:"id"`
	Staged    *string         `json:"staged_write_id"` // nil: the variable was written to the page directly
	Key       string          `json:"key"`
	To        string          `json:"to_scope"`
	ToID      string          `json:"to_scope_id"`
	Value     json.RawMessage `json:"value"`
	CreatedAt int64           `json:"created_at"`
}

// Branch, Floor and Page are hosts of variables.
type (
	Branch struct {
		Branch string `json:"branch_id"`
	}
	Floor struct {
		ID     string `json:"id"`
		Branch string `json:"branch_id"`
		No     int64  `json:"floor_no"`
		State  string `json:"state"`
	}
	Page struct {
		ID       string  `json:"id"`
		Floor    string  `json:"floor_id"`
		No       int64   `json:"page_no"`
		Version  int64   `json:"version"`
		Kind     string  `json:"page_kind"`
		Active   bool    `json:"is_active"`
		Decision *string `json:"decision"`
	}
)

// ResolveContext returns the effective variables at a place, and those of each scope.
func (c *Client) ResolveContext(ctx context.Context, at VariablePlace) (VariableSnapshot, error) {
	var s VariableSnapshot
	q := url.Values{
		"session_id": {at.Session}, "branch_id": {at.Branch}, "floor_id": {at.Floor}, "page_id": {at.Page},
		"include_layers": {"true"},
	}
	err := c.Do(ctx, http.MethodGet, "/variables/resolve?"+q.Encode(), nil, &s)
	return s, err
}

// GetPageStagedWrites reads the ledger of a page.
func (c *Client) GetPageStagedWrites(ctx context.Context, page string) (PageStagedWrites, error) {
	var p PageStagedWrites
	err := c.Do(ctx, http.MethodGet, "/pages/"+url.PathEscape(page)+"/variables/staged", nil, &p)
	return p, err
}

// GetPagePromotions reads the promotions from a page.
func (c *Client) GetPagePromotions(ctx context.Context, page string) (PagePromotions, error) {
	var p PagePromotions
	err := c.Do(ctx, http.MethodGet, "/pages/"+url.PathEscape(page)+"/variables/promotions", nil, &p)
	return p, err
}

// ScopedVariables lists variables by the parameters of GET /variables.
func (c *Client) ScopedVariables(ctx context.Context, q url.Values) ([]ScopedVariable, error) {
	return listAll[ScopedVariable](ctx, c, "/variables", q)
}

// Branches lists the branches of a session by their names.
func (c *Client) Branches(ctx context.Context, session string) ([]Branch, error) {
	return listAll[Branch](ctx, c, sessionPath(session, "/branches"), url.Values{"sort_by": {"branch_id"}})
}

// Floors lists the floors (turns) of all branches of a session in the order of their numbers, without those that a
// reset superseded; see docs/scopes.md.
func (c *Client) Floors(ctx context.Context, session string) ([]Floor, error) {
	return listAll[Floor](ctx, c, "/floors", url.Values{"session_id": {session}, "sort_by": {"floor_no"}})
}

// Pages lists the pages of a floor by their numbers.
func (c *Client) Pages(ctx context.Context, floor string) ([]Page, error) {
	return listAll[Page](ctx, c, "/pages", url.Values{"floor_id": {floor}, "sort_by": {"page_no"}})
}

// listAll reads a whole list in ascending order.
func listAll[T any](ctx context.Context, c *Client, path string, q url.Values) ([]T, error) {
	all := []T{}
	for {
		q.Set("sort_order", "asc")
		q.Set("limit", strconv.Itoa(pageSize))
		q.Set("offset", strconv.Itoa(len(all)))
		var page []T
		if err := c.Do(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < pageSize {
			return all, nil
		}
	}
}
