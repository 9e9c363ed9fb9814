package client_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

func TestS70_ASnapshotBecomesRows(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	layer := func(scope, id, value string) client.VariableLayer {
		return client.VariableLayer{Scope: scope, ScopeID: id, Items: []client.ScopedVariable{{Scope: scope, ScopeID: id, Key: "k", Value: raw(value)}}}
	}
	for _, tt := range []struct {
		name string
		in   client.VariableSnapshot
		want string
	}{
		{"nothing", client.VariableSnapshot{}, ""},
		{
			"the winning layer is marked", client.VariableSnapshot{
				Resolved: []client.ResolvedVariable{{Key: "k", Value: raw(`"b"`), Scope: "branch", ScopeID: "branch:s:main"}},
				Layers: map[string]client.VariableLayer{
					"global": layer("global", "global", "1"), "branch": layer("branch", "branch:s:main", `"b"`), "chat": layer("chat", "s", `[1,2]`),
				},
			}, `k="b": branch="b"! chat=[Array(2)] global=1`,
		},
		{
			"without layers the winner stands alone", client.VariableSnapshot{
				Resolved: []client.ResolvedVariable{{Key: "k", Value: raw(`{"n":9007199254740993}`), Scope: "page", ScopeID: "p"}},
			}, `k={"n":9007199254740993}: page={"n":9007199254740993}!`,
		},
	} {
		var got []string
		for _, row := range client.FlattenVariableSnapshot(tt.in) {
			text := row.Key + "=" + row.Preview + ":"
			for _, l := range row.Layers {
				text += " " + l.Scope + "=" + l.Preview
				if l.Winning {
					text += "!"
				}
			}
			got = append(got, text)
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestS70_RowsAreSorted(t *testing.T) {
	row := func(key, scope string, at int64) client.VariableRow {
		return client.VariableRow{ResolvedVariable: client.ResolvedVariable{Key: key, Scope: scope, UpdatedAt: at}}
	}
	in := []client.VariableRow{row("b", "page", 1), row("a", "global", 9), row("a", "page", 1), row("a", "branch", 1), row("a", "branch", 2)}
	var got []string
	for _, r := range client.SortVariableInspectorRows(in) {
		got = append(got, fmt.Sprint(r.Key, " ", r.Scope, r.UpdatedAt))
	}
	if got, want := strings.Join(got, ", "), "a page1, a branch2, a branch1, a global9, b page1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if in[0].Key != "b" {
		t.Error("the rows of the caller were moved")
	}
}

func TestS70_LedgersAndTraces(t *testing.T) {
	var rows []string
	for _, r := range client.FlattenPageStagedVariableWrites(client.PageStagedWrites{Items: []client.StagedWrite{
		{ID: "1", Key: "b", CreatedAt: 1, Value: json.RawMessage("[]")}, {ID: "2", Key: "b", CreatedAt: 2}, {ID: "3", Key: "a", CreatedAt: 2},
	}}) {
		rows = append(rows, r.ID+r.Preview)
	}
	if got, want := strings.Join(rows, " "), "3 2 1[Array(0)]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var groups []string
	for _, g := range client.GroupVariablePromotionTrace(client.PagePromotions{Items: []client.Promotion{
		{ID: "1", Key: "old", CreatedAt: 1}, {ID: "2", Key: "new", CreatedAt: 2}, {ID: "3", Key: "new", CreatedAt: 5}, {ID: "4", Key: "mid", CreatedAt: 3},
	}}) {
		text := fmt.Sprint(g.Key, g.Latest)
		for _, x := range g.Items {
			text += " " + x.ID
		}
		groups = append(groups, text)
	}
	if got, want := strings.Join(groups, "; "), "new5 3 2; mid3 4; old1 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
