package scopes

import (
	"database/sql"
	"encoding/json"

	"github.com/sandboxd/sandboxd/internal/provenance"
)

// stagedWrite is one row of a page's ledger in the API (S-50).
type stagedWrite struct {
	ID         string          `json:"id"`
	Key        string          `json:"key"`
	Op         string          `json:"op"`     // set or delete
	Value      json.RawMessage `json:"value"`  // null for delete
	Intent     string          `json:"intent"` // promote_to_floor_on_accept or page_only
	Policy     string          `json:"conflict_policy"`
	Reason     string          `json:"reason"`
	Source     source          `json:"source"`
	Evidence   evidence        `json:"evidence"`
	Status     string          `json:"status"`
	Decision   *string         `json:"decision_reason"`
	CreatedAt  int64           `json:"created_at"`
	ResolvedAt *int64          `json:"resolved_at"`

	authors provenance.Authors
}

// source says which tool staged a write.
type source struct {
	Tool     string `json:"toolName"`
	Provider string `json:"providerId"`
}

// evidence names the generation during which a write was staged. A floor that never generated has none.
type evidence struct {
	Run     *string `json:"runId"`
	Attempt int64   `json:"generationAttemptNo"`
}

// The intents of staged writes, and their outcomes (S-51 to S-57).
const (
	opSet, opDelete        = "set", "delete"
	toFloor, pageOnly      = "promote_to_floor_on_accept", "page_only"
	replace, ifAbsent      = "replace", "if_absent"
	isStaged               = "staged"
	isPageOnly, isPromoted = "accepted_page_only", "promoted"
	isRejected             = "rejected"
)

const stagedColumns = `id, key, op, value, intent, policy, reason, authors, run, attempt, status, decision, created,
	resolved`

func scanStaged(row interface{ Scan(...any) error }) (stagedWrite, error) {
	w := stagedWrite{Source: source{"set_variable", "builtin"}}
	var run, decision string
	var resolved int64
	err := row.Scan(&w.ID, &w.Key, &w.Op, (*[]byte)(&w.Value), &w.Intent, &w.Policy, &w.Reason, &w.authors, &run,
		&w.Evidence.Attempt, &w.Status, &decision, &w.CreatedAt, &resolved)
	if run != "" {
		w.Evidence.Run = &run
	}
	if decision != "" {
		w.Decision = &decision
	}
	if resolved > 0 {
		w.ResolvedAt = &resolved
	}
	return w, err
}

// stagedOf returns the ledger of a page, the oldest row first.
func (v view) stagedOf(page string) ([]stagedWrite, error) {
	all := []stagedWrite{}
	err := v.Each(func(rows *sql.Rows) error {
		w, err := scanStaged(rows)
		all = append(all, w)
		return err
	}, `SELECT `+stagedColumns+` FROM scope_staged WHERE page = $1 ORDER BY created, id`, page)
	return all, err
}

// promotion is one promotion in the API (S-58).
type promotion struct {
	ID        string          `json:"id"`
	Staged    *string         `json:"staged_write_id"` // null: the variable was written to the page directly
	Key       string          `json:"key"`
	From      Scope           `json:"from_scope"`
	FromID    string          `json:"from_scope_id"`
	To        Scope           `json:"to_scope"`
	ToID      string          `json:"to_scope_id"`
	Policy    string          `json:"conflict_policy"`
	Source    string          `json:"source_variable_id"`
	Target    string          `json:"target_variable_id"`
	Value     json.RawMessage `json:"value"`
	CreatedAt int64           `json:"created_at"`
}

func (v view) promotionsOf(page string) ([]promotion, error) {
	all := []promotion{}
	err := v.Each(func(rows *sql.Rows) error {
		p := promotion{From: Page, FromID: page, To: Floor}
		var staged string
		err := rows.Scan(&p.ID, &p.ToID, &staged, &p.Key, &p.Policy, &p.Source, &p.Target, (*[]byte)(&p.Value),
			&p.CreatedAt)
		if staged != "" {
			p.Staged = &staged
		}
		all = append(all, p)
		return err
	}, `SELECT id, floor, staged, key, policy, source, target, value, created FROM scope_promotions
		WHERE page = $1 ORDER BY created, id`, page)
	return all, err
}

// settle resolves the staged writes of pages of a floor, the oldest first. It runs in the transaction that decides
// about a page or commits the floor (S-73).
func (v view) settle(f FloorInfo, pages ...PageInfo) error {
	byID := map[string]PageInfo{}
	for _, p := range pages {
		byID[p.ID] = p
	}
	type row struct{ id, page string }
	var order []row
	err := v.Each(func(rows *sql.Rows) error {
		var r row
		err := rows.Scan(&r.id, &r.page)
		order = append(order, r)
		return err
	}, `SELECT s.id, s.page FROM scope_staged s JOIN scope_pages p ON p.id = s.page
		WHERE p.floor = $1 AND s.status = $2 ORDER BY s.created, s.id`, f.ID, isStaged)
	if err != nil {
		return err
	}
	for _, r := range order {
		p, ok := byID[r.page]
		if !ok {
			continue
		}
		w, err := scanStaged(v.Row(`SELECT `+stagedColumns+` FROM scope_staged WHERE id = $1`, r.id))
		if err != nil {
			return err
		}
		status, why, err := v.resolveWrite(p, f, w)
		if err != nil {
			return err
		}
		err = v.Run(`UPDATE scope_staged SET status = $1, decision = $2, resolved = $3 WHERE id = $4`,
			status, why, v.now, w.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

// resolveWrite decides about one staged write, and applies the decision.
func (v view) resolveWrite(p PageInfo, f FloorInfo, w stagedWrite) (status, why string, err error) {
	switch {
	case p.said() == Rejected:
		return isRejected, "page_rejected", nil
	case p.Kind != Output:
		return isRejected, "page_commit_gate_source_page_not_output", nil
	case !p.Active && p.said() != Accepted:
		return "discarded", "page_not_active_at_commit", nil
	case w.Op == opDelete:
		return isPageOnly, "delete_op_not_materialized_in_phase_one", nil
	}
	on := write{target: target{scope: Page, host: p.ID}, key: w.Key, value: w.Value, authors: w.authors, settled: true}
	x, _, err := v.put(on)
	if err != nil || w.Intent == pageOnly {
		return isPageOnly, "", err
	}
	if w.Policy == ifAbsent {
		taken, err := v.hasRow(`SELECT 1 FROM scope_vars WHERE account = $1 AND scope = $2 AND host = $3 AND branch =
			'' AND key = $4`,
			v.account, Floor, f.ID, w.Key)
		if err != nil || taken {
			return isPageOnly, "promotion_skipped_if_absent", err
		}
	}
	return isPromoted, "", v.promote(p, f, x, w.ID, w.Policy)
}

// promote copies a variable of a page to its floor, and writes a trace.
func (v view) promote(p PageInfo, f FloorInfo, x Variable, staged, policy string) error {
	to, _, err := v.put(write{target: target{scope: Floor, host: f.ID}, key: x.Key, value: x.Value, authors: x.authors})
	if err != nil {
		return err
	}
	return v.Run(`INSERT INTO scope_promotions (id, account, page, floor, staged, key, policy, source, target,
		value, created)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		v.s.newID("trc_"), v.account, p.ID, f.ID, staged, x.Key, policy, x.ID, to.ID, []byte(x.Value), v.now)
}

// promotePlain promotes variables that were written to a page directly, when its floor is committed.
func (v view) promotePlain(p PageInfo, f FloorInfo) error {
	if p.Kind != Output || p.said() == Rejected || !p.Active && p.said() != Accepted {
		return nil
	}
	var ids []string
	err := v.Each(func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT id FROM scope_vars WHERE account = $1 AND scope = $2 AND host = $3 AND branch = '' AND settled = $4
		ORDER BY updated, id`, v.account, Page, p.ID, false)
	for _, id := range ids {
		if err != nil {
			return err
		}
		var x Variable
		if x, err = scanVariable(v.Row(`SELECT `+varColumns+` FROM scope_vars v WHERE v.id = $1`, id)); err == nil {
			err = v.promote(p, f, x, "", replace)
		}
	}
	return err
}

// discard discards the staged writes of the pages of a floor.
func (v view) discard(floor, why string) error {
	return v.Run(`UPDATE scope_staged SET status = 'discarded', decision = $1, resolved = $2
		WHERE status = $3 AND page IN (SELECT id FROM scope_pages WHERE floor = $4)`, why, v.now, isStaged, floor)
}

// commit commits a floor: it resolves the staged writes, promotes what was written to the pages directly, takes the
// snapshot and closes the floor, all of it or nothing.
func (v view) commit(f *FloorInfo) error {
	var pages []PageInfo
	err := v.Each(func(rows *sql.Rows) error {
		p, err := scanPage(rows)
		pages = append(pages, p)
		return err
	}, `SELECT `+pageColumns+` FROM scope_pages p WHERE p.floor = $1 ORDER BY p.created, p.id`, f.ID)
	if err != nil {
		return err
	}
	if err := v.settle(*f, pages...); err != nil {
		return err
	}
	for _, p := range pages {
		if err := v.promotePlain(p, *f); err != nil {
			return err
		}
	}
	// A variable of the branch hides one of the session with the same key.
	err = v.Run(`INSERT INTO scope_snapshots (floor, key, value)
		SELECT $1, b.key, b.value FROM scope_vars b WHERE b.account = $2 AND b.scope = 'branch' AND b.host = $3 AND
			b.branch = $4
		UNION ALL
		SELECT $1, c.key, c.value FROM scope_vars c WHERE c.account = $2 AND c.scope = 'chat' AND c.host = $3 AND
			c.branch = ''
			AND NOT EXISTS (SELECT 1 FROM scope_vars b WHERE b.account = $2 AND b.scope = 'branch' AND b.host = $3
				AND b.branch = $4 AND b.key = c.key)`, f.ID, v.account, f.Session, f.Branch)
	if err != nil {
		return err
	}
	f.snapshot = true
	return v.setFloor(f, Committed)
}
