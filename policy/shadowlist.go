package policy

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
)

// Report says how the shadow compares since it began, with a page of where it differs.
func (s *Shadow) Report(ctx context.Context, limit, offset int) (ShadowReport, error) {
	s.Flush()
	r := s.totals()
	if state := s.State(); state != nil {
		r.Revision, r.Failure = state.Revision, state.Failure
	}
	if e := s.engine.Load(); e != nil {
		r.Dirs = slices.Clone(e.opts.Dirs)
	}
	err := s.o.DB.Read(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM shadow`).Scan(&r.Total); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT shadow.record, coalesce(decisions.record, '') FROM shadow
			LEFT JOIN decisions ON decisions.call_id = shadow.call_id
			ORDER BY shadow.at DESC, shadow.call_id LIMIT $1 OFFSET $2`, limit, offset)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var text, kept []byte
			var d Difference
			if err := rows.Scan(&text, &kept); err != nil {
				return err
			}
			if err := json.Unmarshal(text, &d); err != nil {
				return err
			}
			var rec Record
			if len(kept) > 0 && json.Unmarshal(kept, &rec) == nil {
				d.What = rec.What()
			}
			r.Differences = append(r.Differences, d)
		}
		return rows.Err()
	})
	return r, err
}

// totals returns the report without what is in the database.
func (s *Shadow) totals() ShadowReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.Rules, r.Errors, r.Differences = []ShadowRule{}, []ShadowError{}, []Difference{}
	for rule, n := range s.byRule {
		rule.Calls = n
		r.Rules = append(r.Rules, rule)
	}
	slices.SortFunc(r.Rules, func(a, b ShadowRule) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Live, b.Live))
	})
	for why, n := range s.errors {
		r.Errors = append(r.Errors, ShadowError{why, n})
	}
	slices.SortFunc(r.Errors, func(a, b ShadowError) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Why, b.Why))
	})
	return r
}

// What returns what a recorded call would do, in one line: its command line, or its arguments.
func (r Record) What() string {
	var in struct {
		Params json.RawMessage `json:"params"`
	}
	var args struct {
		Command string `json:"command"`
		File    string `json:"file_path"`
	}
	if json.Unmarshal(r.Input, &in) != nil {
		return ""
	}
	_ = json.Unmarshal(in.Params, &args) // arguments of another kind are shown whole
	return cmp.Or(args.Command, args.File, string(in.Params))
}
