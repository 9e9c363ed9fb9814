package scopes

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func (h handlers) previewRoutes() []route.Route {
	return []route.Route{{
		Pattern: "POST /sessions/{id}/prompt-runtime/preview", Role: tool.RoleAgent, Handle: h.preview,
		Spec: route.Spec{
			ID: "previewMacros", Summary: "What the macros of a text would show and write; nothing is kept",
			In: previewRequest{}, Out: previewDone{}, Errors: []int{409},
		},
	}}
}

// previewRequest is a text with macros, and the place at which to evaluate it.
type previewRequest struct {
	Text   string  `json:"text"`
	Branch *string `json:"branch_id,omitempty"`
	Source *string `json:"source_floor_id,omitempty"`
}

// previewDone is the evaluated text, with what happened during the evaluation.
type previewDone struct {
	Scope   previewScope `json:"scope"`
	Text    string       `json:"text"`
	Runtime runtimeTrace `json:"runtime_trace"`
}

type previewScope struct {
	Session string  `json:"session_id"`
	Branch  string  `json:"target_branch_id"`
	Exists  bool    `json:"branch_exists"`
	Source  *string `json:"source_floor_id"`
}

type runtimeTrace struct {
	Macro macroTrace `json:"macro"`
}

type macroTrace struct {
	Warnings []warning  `json:"warnings"`
	Preview  []mutation `json:"mutation_preview"`
	Staged   []mutation `json:"staged_mutations"` // always empty: no route stores what macros write
	Names    []string   `json:"used_names"`
	Traces   []trace    `json:"traces"`
}

// preview evaluates macros against one state of the database, and changes nothing (S-66).
func (h handlers) preview(r *http.Request) (any, error) {
	var in previewRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if n := utf8.RuneCountInString(in.Text); n < 1 || n > macroText {
		return nil, badRequest("validation_error", fmt.Sprintf("text has %d characters: want 1 to %d", n, macroText))
	}
	out := previewDone{Scope: previewScope{Session: r.PathValue("id"), Branch: mainBranch, Source: in.Source}}
	if in.Branch != nil {
		name, err := checkBranch(*in.Branch)
		if err != nil {
			return nil, err
		}
		out.Scope.Branch = name
	}
	err := h.read(r.Context(), account(r), noThing, func(v view) (err error) {
		if err := v.session(out.Scope.Session); err != nil {
			return err
		}
		if out.Scope.Exists, err = v.hasRow(`SELECT 1 FROM scope_branches WHERE session = $1 AND branch = $2`,
			out.Scope.Session, out.Scope.Branch); err != nil {
			return err
		}
		local, err := v.local(out.Scope)
		if err != nil {
			return err
		}
		hold := budget.Of(r.Context())
		taking := func(load func(string) (json.RawMessage, error)) *macroView {
			return &macroView{staged: map[string]json.RawMessage{}, load: func(key string) (json.RawMessage, error) {
				value, err := load(key)
				if err == nil {
					err = hold.Take(4 * int64(len(value))) // for the decoded value and its text
				}
				return value, err
			}}
		}
		run := macroRun{take: hold.Take, views: map[Scope]*macroView{
			Branch: taking(local),
			Global: taking(func(key string) (json.RawMessage, error) { return v.valueOf(globalTarget, key) }),
		}}
		if out.Text, err = run.text(in.Text, 0); err != nil {
			return err
		}
		out.Runtime.Macro = macroTrace{
			some(run.warnings), some(run.writes), []mutation{}, some(run.names), some(run.traces),
		}
		return nil
	})
	return out, err
}

// some returns a list that JSON never encodes as null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// local returns what the local view reads: branch over chat as they are now, or only what the source floor saw when
// it was committed (S-60, S-67).
func (v view) local(at previewScope) (func(string) (json.RawMessage, error), error) {
	if at.Source == nil {
		return func(key string) (json.RawMessage, error) {
			value, err := v.valueOf(target{Branch, at.Session, at.Branch}, key)
			if err != nil || value != nil {
				return value, err
			}
			return v.valueOf(target{scope: Chat, host: at.Session}, key)
		}, nil
	}
	f, err := v.floor(*at.Source)
	if err != nil {
		return nil, err
	}
	if f.Session != at.Session {
		return nil, missing(noThing, "floor", *at.Source)
	}
	if !f.snapshot {
		return nil, conflict("branch_local_snapshot_missing", "floor "+f.ID+" has no snapshot of what it saw",
			"only floors that were committed here have one; leave source_floor_id out to preview as of now")
	}
	return func(key string) (json.RawMessage, error) {
		return valueIn(v.Row(`SELECT value FROM scope_snapshots WHERE floor = $1 AND key = $2`, f.ID, key))
	}, nil
}

// valueOf returns the value of one variable, or nil.
func (v view) valueOf(t target, key string) (json.RawMessage, error) {
	return valueIn(v.Row(`SELECT value FROM scope_vars WHERE account = $1 AND scope = $2 AND host = $3 AND branch =
		$4 AND key = $5`,
		v.account, t.scope, t.host, t.branch, key))
}

func valueIn(row *sql.Row) (json.RawMessage, error) {
	var value []byte
	err := row.Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return value, err
}
