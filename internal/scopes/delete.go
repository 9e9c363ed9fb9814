package scopes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
)

// runningError is the error for a deletion while a floor is generating.
func runningError(floor string) error {
	return conflict("active_run_in_progress", "floor "+floor+" is generating", "wait for its end, or let it fail")
}

// deleteVariables deletes the variables of a scope that satisfy a condition on v.
func (v view) deleteVariables(scope Scope, where string, args ...any) error {
	args = append(args, v.account)
	done, err := v.Exec(fmt.Sprintf(`DELETE FROM scope_vars AS v WHERE v.scope = '%s' AND v.account = $%d AND %s`,
		scope, len(args), where), args...)
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err != nil || n == 0 {
		return err
	}
	return v.count(scope, -n)
}

// deletePage deletes a page with its variables, its ledger and its traces (S-08).
func (v view) deletePage(id string) error {
	if err := v.deleteVariables(Page, `v.host = $1`, id); err != nil {
		return err
	}
	for _, q := range []string{
		`DELETE FROM scope_staged WHERE page = $1`, `DELETE FROM scope_promotions WHERE page = $1`,
		`DELETE FROM scope_pages WHERE id = $1`,
	} {
		if err := v.Run(q, id); err != nil {
			return err
		}
	}
	return nil
}

// deleteFloors deletes the floors of a session that satisfy a condition on f, with everything below them. If one is
// generating, it deletes none. It takes a few statements for any number of floors, because no one else can write
// meanwhile.
func (v view) deleteFloors(session, where string, args ...any) (int, error) {
	args = append(args, session)
	floors := fmt.Sprintf(`(SELECT f.id FROM scope_floors f WHERE f.session = $%d AND %s)`, len(args), where)
	pages := `(SELECT p.id FROM scope_pages p WHERE p.floor IN ` + floors + `)`
	var running string
	err := v.Row(`SELECT f.id FROM scope_floors f WHERE f.state = 'generating' AND f.superseded = 0 AND f.id IN `+
		floors+` ORDER BY f.id LIMIT 1`, args...).Scan(&running)
	if err == nil {
		return 0, runningError(running)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	if err := v.deleteVariables(Page, `v.host IN `+pages, args...); err != nil {
		return 0, err
	}
	if err := v.deleteVariables(Floor, `v.host IN `+floors, args...); err != nil {
		return 0, err
	}
	for _, q := range []string{
		`DELETE FROM scope_staged WHERE page IN ` + pages,
		`DELETE FROM scope_promotions WHERE page IN ` + pages,
		`DELETE FROM scope_pages WHERE floor IN ` + floors,
		`DELETE FROM scope_snapshots WHERE floor IN ` + floors,
		// No parent may refer to a deleted floor.
		fmt.Sprintf(`UPDATE scope_floors SET parent = '' WHERE session = $%d AND parent IN `, len(args)) + floors,
		fmt.Sprintf(`UPDATE scope_branches SET source_floor = '' WHERE session = $%d AND source_floor IN `, len(args)) +
			floors,
	} {
		if err := v.Run(q, args...); err != nil {
			return 0, err
		}
	}
	done, err := v.Exec(`DELETE FROM scope_floors WHERE id IN `+floors, args...)
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	return int(n), err
}

// sessionDeleted deletes everything that a session has, in the transaction that deletes the session.
func (s *Store) sessionDeleted(tx *sql.Tx, session string) error {
	v := view{Tx: s.db.Writing(tx), s: s, absent: noThing}
	err := v.Row(`SELECT account FROM scope_branches WHERE session = $1 AND branch = $2`, session,
		mainBranch).Scan(&v.account)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := v.deleteFloors(session, `0 = 0`); err != nil {
		return err
	}
	for _, scope := range []Scope{Branch, Chat} {
		if err := v.deleteVariables(scope, `v.host = $1`, session); err != nil {
			return err
		}
	}
	return v.Run(`DELETE FROM scope_branches WHERE session = $1`, session)
}

// sessionAbandoned sets floors to failed that a client left generating. A session that nobody used for long has no
// client any more.
func (s *Store) sessionAbandoned(tx *sql.Tx, session string) error {
	v := view{Tx: s.db.Writing(tx), s: s}
	return v.Run(`UPDATE scope_floors SET state = $1 WHERE session = $2 AND state = $3`, Failed, session, Generating)
}

// rowBytes is the size of a row without its value and its texts: ids and index entries. Measured: 500 variables of
// one byte take 120 KB, 500 floors 140 KB.
const rowBytes = 250

// kept returns for each session the bytes of its variables, branches, floors and pages with their ledgers, traces
// and snapshots.
func (h handlers) kept() map[string]int64 {
	all := map[string]int64{}
	const ofFloor, ofPage = ` JOIN scope_floors f ON f.id = `, ` JOIN scope_pages p ON p.id = `
	h.sum(all,
		`SELECT v.host, length(v.value) + length(v.key) FROM scope_vars v WHERE v.scope IN ('chat', 'branch')`,
		`SELECT f.session, length(v.value) + length(v.key) FROM scope_vars v`+ofFloor+`v.host WHERE v.scope = 'floor'`,
		`SELECT f.session, length(v.value) + length(v.key) FROM scope_vars v`+ofPage+`v.host`+ofFloor+`p.floor
			WHERE v.scope = 'page'`,
		`SELECT f.session, length(v.value) + length(v.key) + 4 * length(v.reason) FROM scope_staged v`+ofPage+`v.page`+
			ofFloor+`p.floor`,
		`SELECT f.session, length(v.value) + length(v.key) FROM scope_promotions v`+ofFloor+`v.floor`,
		`SELECT f.session, length(v.value) + length(v.key) FROM scope_snapshots v`+ofFloor+`v.floor`,
		`SELECT session, 0 FROM scope_branches`, `SELECT session, 0 FROM scope_floors`,
		`SELECT f.session, 0 FROM scope_pages p`+ofFloor+`p.floor`)
	return all
}

// keptGlobal returns for each account the bytes of its global variables.
func (h handlers) keptGlobal() map[string]int64 {
	all := map[string]int64{}
	h.sum(all, `SELECT v.account, length(v.value) + length(v.key) FROM scope_vars v WHERE v.scope = 'global'`)
	return all
}

// sum adds the results of queries. A query that fails counts at the next measurement.
func (h handlers) sum(into map[string]int64, queries ...string) {
	err := h.db.Read(context.Background(), func(tx *sql.Tx) error {
		for _, q := range queries {
			err := h.db.Reading(tx).Each(func(rows *sql.Rows) error {
				var of string
				var n int64
				err := rows.Scan(&of, &n)
				into[of] += n + rowBytes
				return err
			}, q)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.host.Log.Warn("what scoped variables keep cannot be measured", slog.Any("error", err))
	}
}
