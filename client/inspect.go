package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// The functions of this file make tables of what the routes of scoped variables answer, for
// programs that show variables to people. They ask the daemon nothing.

// VariableRow is one key at a place.
type VariableRow struct {
	ResolvedVariable
	Preview string
	Layers  []VariableRowLayer // the strongest scope first
}

// VariableRowLayer is the variable of one scope for the key of a row.
type VariableRowLayer struct {
	Scope     string
	ScopeID   string
	Preview   string
	UpdatedAt int64
	Winning   bool
}

// scopeOrder lists the scopes, the strongest first.
var scopeOrder = []string{"page", "floor", "branch", "chat", "global"}

func rank(scope string) int {
	if i := slices.Index(scopeOrder, scope); i >= 0 {
		return i
	}
	return len(scopeOrder)
}

// FlattenVariableSnapshot returns a row for each effective key, and marks the layer that wins. If the snapshot has
// no layers, each row has the winner only.
func FlattenVariableSnapshot(s VariableSnapshot) []VariableRow {
	layers := map[string][]VariableRowLayer{}
	for _, scope := range scopeOrder {
		for _, x := range s.Layers[scope].Items {
			layers[x.Key] = append(layers[x.Key], VariableRowLayer{
				Scope: x.Scope, ScopeID: x.ScopeID, Preview: previewOf(x.Value), UpdatedAt: x.UpdatedAt,
			})
		}
	}
	rows := []VariableRow{}
	for _, r := range s.Resolved {
		row := VariableRow{ResolvedVariable: r, Preview: previewOf(r.Value), Layers: layers[r.Key]}
		wins := func(l VariableRowLayer) bool { return l.Scope == r.Scope && l.ScopeID == r.ScopeID }
		i := slices.IndexFunc(row.Layers, wins)
		if i < 0 {
			i = 0
			row.Layers = slices.Insert(row.Layers, 0, VariableRowLayer{
				r.Scope, r.ScopeID, row.Preview, r.UpdatedAt,
				true,
			})
		}
		row.Layers[i].Winning = true
		rows = append(rows, row)
	}
	return rows
}

// SortVariableInspectorRows sorts rows by key, then by scope, then the newest first.
func SortVariableInspectorRows(rows []VariableRow) []VariableRow {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b VariableRow) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), rank(a.Scope)-rank(b.Scope), cmp.Compare(b.UpdatedAt, a.UpdatedAt),
			cmp.Compare(a.ScopeID, b.ScopeID))
	})
	return rows
}

// StagedRow is a staged write with a preview of its value: the length of a list, the whole JSON of anything else. A
// model may have written the value: escape it before you print it.
type StagedRow struct {
	StagedWrite
	Preview string
}

// FlattenPageStagedVariableWrites returns the staged writes of a page, the newest first.
func FlattenPageStagedVariableWrites(p PageStagedWrites) []StagedRow {
	rows := []StagedRow{}
	for _, w := range p.Items {
		rows = append(rows, StagedRow{w, previewOf(w.Value)})
	}
	slices.SortStableFunc(rows, func(a, b StagedRow) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID))
	})
	return rows
}

// PromotionGroup holds the promotions of one key, the newest first.
type PromotionGroup struct {
	Key    string
	Latest int64
	Items  []Promotion
}

// GroupVariablePromotionTrace groups promotions by key, the newest group first.
func GroupVariablePromotionTrace(p PagePromotions) []PromotionGroup {
	groups := []PromotionGroup{}
	for _, x := range p.Items {
		i := slices.IndexFunc(groups, func(g PromotionGroup) bool { return g.Key == x.Key })
		if i < 0 {
			i = len(groups)
			groups = append(groups, PromotionGroup{Key: x.Key})
		}
		groups[i].Items = append(groups[i].Items, x)
		groups[i].Latest = max(groups[i].Latest, x.CreatedAt)
	}
	for _, g := range groups {
		slices.SortStableFunc(g.Items, func(a, b Promotion) int {
			return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(a.ID, b.ID))
		})
	}
	slices.SortStableFunc(groups, func(a, b PromotionGroup) int {
		return cmp.Or(cmp.Compare(b.Latest, a.Latest), cmp.Compare(a.Key, b.Key))
	})
	return groups
}

// previewOf returns a short form of a value: the length of a list, or otherwise the JSON.
func previewOf(value json.RawMessage) string {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || value[0] != '[' {
		return string(value)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(value, &list); err != nil {
		return string(value)
	}
	return fmt.Sprintf("[Array(%d)]", len(list))
}
