package api

import (
	"encoding/json"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

func TestV10_PatchOverHTTP(t *testing.T) {
	w := newWorld(t)
	path := "/sessions/" + w.session(tool.RoleAgent) + "/vars/"
	if a := w.do(tool.RoleAgent, "PUT", path+"x", `{"value":"text","desc":"old","keep":true}`); a.status != 201 {
		t.Fatalf("PUT answered %d: %s", a.status, a.body)
	}
	for _, tt := range []struct {
		name, variable, body string
		status               int
		code, says           string
		want                 vars.Var // without times and value
		value                string
	}{
		{
			name: "only the tags change", variable: "x", body: `{"tags":["t"]}`, status: 200,
			want: vars.Var{Desc: "old", Tags: []string{"t"}, Keep: true, Type: vars.TypeUser}, value: "text",
		},
		{
			name: "only the value changes", variable: "x", body: `{"value":"other"}`, status: 200,
			want: vars.Var{Desc: "old", Tags: []string{"t"}, Keep: true, Type: vars.TypeUser}, value: "other",
		},
		{
			name:     "a missing one is created from value and type",
			variable: "new", body: `{"value":"v","type":"USER_ADD"}`, status: 201,
			want: vars.Var{Type: vars.TypeUser}, value: "v",
		},
		{
			name: "a missing one without a type", variable: "none", body: `{"value":"v"}`, status: 404,
			code: "variable_not_found", says: "Cannot create variable without value and type",
		},
		{
			name: "a missing one without a value", variable: "none", body: `{"desc":"d"}`, status: 404,
			code: "variable_not_found", says: "Cannot create variable without value and type",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := w.do(tool.RoleAgent, "PATCH", path+tt.variable, tt.body)
			if a.status != tt.status || a.Error.Code != tt.code || a.Error.Msg != tt.says {
				t.Fatalf("got %d %s %q, want %d %s %q", a.status, a.Error.Code, a.Error.Msg, tt.status, tt.code, tt.says)
			}
			w.validate(t, "PATCH /sessions/{id}/vars/{name}", a)
			stored := w.do(tool.RoleAgent, "GET", path+tt.variable, "")
			if tt.code != "" {
				if stored.status != 404 {
					t.Errorf("a refused PATCH left %s", stored.body)
				}
				return
			}
			for from, data := range map[string]json.RawMessage{"the answer": a.Data, "the store": stored.Data} {
				var v vars.Var
				must(t, json.Unmarshal(data, &v))
				if v.Value == nil || *v.Value != tt.value || v.Desc != tt.want.Desc || v.Keep != tt.want.Keep ||
					v.Type != tt.want.Type || len(v.Tags) != len(tt.want.Tags) {
					t.Errorf("%s has %s, want %+v with value %q", from, data, tt.want, tt.value)
				}
			}
		})
	}
}
