package scopes

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/store"
)

// Variable is a variable in the API.
type Variable struct {
	ID        string          `json:"id"`
	Scope     Scope           `json:"scope"`
	ScopeID   string          `json:"scope_id"`
	ScopeRef  *Ref            `json:"scope_ref,omitempty"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	UpdatedAt int64           `json:"updated_at"`

	authors provenance.Authors
}

const varColumns = `v.id, v.scope, v.host, v.branch, v.key, v.value, v.authors, v.updated`

func scanVariable(row interface{ Scan(...any) error }) (Variable, error) {
	var x Variable
	var t target
	err := row.Scan(&x.ID, &t.scope, &t.host, &t.branch, &x.Key, (*[]byte)(&x.Value), &x.authors, &x.UpdatedAt)
	x.Scope, x.ScopeID, x.ScopeRef = t.scope, t.scopeID(), t.ref()
	return x, err
}

// visible is true for a variable v whose host exists (S-09).
const visible = `CASE v.scope WHEN 'global' THEN 1 = 1
	WHEN 'chat' THEN EXISTS (SELECT 1 FROM scope_branches h WHERE h.session = v.host AND h.branch = 'main' AND
		h.account = v.account)
	WHEN 'branch' THEN EXISTS (SELECT 1 FROM scope_branches h WHERE h.session = v.host AND h.branch = v.branch AND
		h.account = v.account)
	WHEN 'floor' THEN EXISTS (SELECT 1 FROM scope_floors h WHERE h.id = v.host AND h.account = v.account)
	ELSE EXISTS (SELECT 1 FROM scope_pages h WHERE h.id = v.host AND h.account = v.account) END`

// write is one value for one variable, after the checks that need no database.
type write struct {
	target
	key     string
	value   json.RawMessage // without white space
	authors provenance.Authors
	settled bool
}

// compact returns a value as it is stored: without white space, and otherwise unchanged. Numbers keep their digits.
func compact(value json.RawMessage) (json.RawMessage, error) {
	if value == nil {
		return nil, badRequest("validation_error", "value is missing")
	}
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		return nil, badRequest("validation_error", "value: "+err.Error())
	}
	if b.Len() > maxValue {
		return nil, badRequest("invalid_variable_value", fmt.Sprintf("value has %d bytes, %d at most", b.Len(),
			maxValue))
	}
	return b.Bytes(), nil
}

// put stores one variable. The caller has checked its host.
func (v view) put(w write) (Variable, bool, error) {
	x := Variable{
		Scope: w.scope, ScopeID: w.scopeID(), ScopeRef: w.ref(), Key: w.key, Value: w.value, authors: w.authors,
	}
	err := v.Row(`UPDATE scope_vars SET value = $1, authors = $2, settled = $3,
		updated = CASE WHEN $4 > updated THEN $4 ELSE updated + 1 END
		WHERE account = $5 AND scope = $6 AND host = $7 AND branch = $8 AND key = $9 RETURNING id, updated`,
		[]byte(w.value), w.authors, w.settled, v.now, v.account, w.scope, w.host, w.branch, w.key).Scan(&x.ID,
		&x.UpdatedAt)
	if !errors.Is(err, sql.ErrNoRows) {
		return x, false, err
	}
	x.ID, x.UpdatedAt = v.s.newID("var_"), v.now
	err = v.Run(`INSERT INTO scope_vars (id, account, scope, host, branch, key, value, authors, settled, updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		x.ID, v.account, w.scope, w.host, w.branch, w.key, []byte(w.value), w.authors, w.settled, v.now)
	if err != nil {
		return x, false, err
	}
	return x, true, v.count(w.scope, 1)
}

// count updates the number of variables of a scope.
func (v view) count(scope Scope, n int64) error {
	return v.Run(`INSERT INTO scope_counts (account, scope, vars) VALUES ($1, $2, $3)
		ON CONFLICT (account, scope) DO UPDATE SET vars = scope_counts.vars + $3`, v.account, scope, n)
}

// written says what happened to one variable of a batch.
type written struct {
	Index  int      `json:"index"`
	Action string   `json:"action"` // created or updated
	Data   Variable `json:"data"`
}

// putAll stores all variables or none. It first finds every host, then checks every lock, then writes (S-23, S-30).
func (s *Store) putAll(ctx context.Context, account string, all []write, name func(int) string) ([]written, error) {
	out := make([]written, len(all))
	err := s.write(ctx, account, noHost, func(v view) error {
		var locked error
		for i, w := range all {
			is, err := v.host(w.target)
			if err != nil {
				return inItem(name(i), err)
			}
			if is && locked == nil {
				locked = inItem(name(i), lockedError(w.target))
			}
		}
		if locked != nil {
			return locked
		}
		for i, w := range all {
			x, created, err := v.put(w)
			if err != nil {
				return err
			}
			out[i] = written{i, "updated", x}
			if created {
				out[i].Action = "created"
			}
		}
		return nil
	})
	return out, err
}

// one returns a variable of the account whose host exists.
func (s *Store) one(ctx context.Context, account, id string) (Variable, error) {
	var x Variable
	err := s.read(ctx, account, noHost, func(v view) (err error) {
		x, err = scanVariable(v.Row(`SELECT `+varColumns+` FROM scope_vars v WHERE v.id = $1 AND v.account = $2 AND
			`+visible,
			id, account))
		return err
	})
	if store.NoRow(err) {
		err = missing("variable_not_found", "variable", id)
	}
	return x, err
}

// remove deletes a variable, also one whose host does not exist any more (S-41).
func (s *Store) remove(ctx context.Context, account, id string) error {
	return s.write(ctx, account, noHost, func(v view) error {
		var t target
		var seen bool
		err := v.Row(`SELECT v.scope, v.host, v.branch, `+visible+` FROM scope_vars v WHERE v.id = $1 AND v.account =
			$2`,
			id, account).Scan(&t.scope, &t.host, &t.branch, &seen)
		if store.NoRow(err) {
			return missing("variable_not_found", "variable", id)
		}
		if err != nil {
			return err
		}
		if seen {
			locked, err := v.host(t)
			if err != nil {
				return err
			}
			if locked {
				return lockedError(t)
			}
			if err := v.count(t.scope, -1); err != nil {
				return err
			}
		}
		return v.Run(`DELETE FROM scope_vars WHERE id = $1`, id)
	})
}

// filter selects variables. "" and nil select all.
type filter struct {
	scope   Scope
	host    *string
	branch  *string
	key     string
	orderBy string // name of a column
	desc    bool
	limit   int
	offset  int
}

// queries returns the queries for the total and for the keys of a page. Each scans only the index entries that the
// filter selects: the plus before a column keeps SQLite from using the index of the order instead.
func (f filter) queries(account string) (count, keys string, args []any) {
	counted, sorted := f.key == "" && f.host == nil, f.key != "" || f.host != nil
	if f.scope == Global && (f.key != "" || f.orderBy == "v.key") {
		f.host, f.branch = &globalTarget.host, new(string)
	}
	where, args := `v.account = $1`, []any{account}
	and := func(column string, value any) {
		args = append(args, value)
		where += fmt.Sprintf(` AND %s = $%d`, column, len(args))
	}
	switch {
	case f.scope != "" && f.key != "" && f.host == nil:
		and("coalesce(v.scope, NULL)", f.scope)
	case f.scope != "":
		and("v.scope", f.scope)
	case f.host != nil:
		where += ` AND v.scope IN ('global', 'chat', 'floor', 'page')`
	}
	if f.host != nil {
		and("v.host", *f.host)
	}
	if f.branch != nil {
		and("v.branch", *f.branch)
	}
	if f.key != "" {
		and("v.key", f.key)
	}
	where += ` AND ` + visible
	switch {
	case counted: // the total is updated at each write, so that a list among a million variables is as fast
		count = `SELECT coalesce(sum(vars), 0) FROM scope_counts WHERE account = $1`
		if f.scope != "" {
			count += ` AND scope = $2`
		}
	case f.key != "": // no index has settled, so the database does not scan a whole index for the count
		count = `SELECT count(v.settled) FROM scope_vars v WHERE ` + where
	default:
		count = `SELECT count(*) FROM scope_vars v WHERE ` + where
	}
	order, way := f.orderBy, "ASC"
	if sorted {
		order = "coalesce(" + order + ", NULL)"
	}
	if f.desc {
		way = "DESC"
	}
	keys = fmt.Sprintf(`SELECT v.id, length(v.value) + length(v.key) + 1000 FROM scope_vars v WHERE %s
		ORDER BY %s %s, v.id %[3]s LIMIT %[4]d OFFSET %[5]d`, where, order, way, f.limit, f.offset)
	return count, keys, args
}

// list returns a page of the account's variables whose hosts exist.
func (s *Store) list(ctx context.Context, account string, f filter) (store.Page[Variable], error) {
	count, find, args := f.queries(account)
	keys := func(tx *sql.Tx) (total int, rows *sql.Rows, err error) {
		if err = tx.QueryRow(count, args[:strings.Count(count, "$")]...).Scan(&total); err == nil {
			rows, err = tx.Query(find, args...)
		}
		return total, rows, err
	}
	row := func(tx *sql.Tx, id string) (Variable, error) {
		return scanVariable(tx.QueryRow(`SELECT `+varColumns+` FROM scope_vars v WHERE v.id = $1`, id))
	}
	return store.ReadPage(ctx, s.db, keys, row)
}
