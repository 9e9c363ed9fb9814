package vars_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

// oneSession is the session s of account a.
type oneSession struct{ part.Sessions }

func (oneSession) Session(_ context.Context, account, id string) (tool.Session, error) {
	if account != "a" || id != "s" {
		return tool.Session{}, &tool.Error{Code: "session_not_found", Msg: id}
	}
	return tool.Session{ID: id, Account: account}, nil
}

func TestTheRoutesOfVariables(t *testing.T) {
	f := newFixture(t, vars.Options{})
	var recorded []tool.Note
	p := f.Part(part.Host{Sessions: oneSession{}, Record: func(_ context.Context, n tool.Note) error {
		recorded = append(recorded, n)
		return nil
	}})
	for _, tt := range []struct {
		role             tool.Role
		line, body, want string
	}{
		{tool.RoleAgent, "GET /sessions/s/vars?type=USER_ADD", "", "0 []"},
		{tool.RoleAgent, "PUT /sessions/s/vars/a", `{"value": {"x": 1}, "tags": ["t"], "desc": "d"}`, `created {"name":"a"`},
		{tool.RoleAgent, "PUT /sessions/s/vars/a", `{"value": "2"}`, `{"name":"a","length":1`},
		{tool.RoleAgent, "PUT /sessions/s/vars/a", `{"desc": "no value"}`, "validation_error: value is missing"},
		{tool.RoleAgent, "PUT /sessions/s/vars/a", `{"values": 1}`, "validation_error: unknown field"},
		{tool.RoleAgent, "PATCH /sessions/s/vars/a", `{"keep": true}`, `"keep":true`},
		{tool.RoleOperator, "PATCH /sessions/s/vars/b", `{"value": "of a person", "type": "USER_ADD"}`, `created {"name":"b"`},
		{tool.RoleAgent, "GET /sessions/s/vars/b", "", `"origins":["person"]`},
		{tool.RoleAgent, "PATCH /sessions/s/vars/a", `[]`, "validation_error: "},
		{tool.RoleAgent, "GET /sessions/s/vars/a", "", `"value":"2"`},
		{tool.RoleAgent, "GET /sessions/s/vars/none", "", "variable_not_found: "},
		{tool.RoleAgent, "GET /sessions/s/vars?search=b&type=USER_ADD&limit=1", "", `1 [{"name":"b"`},
		{tool.RoleAgent, "GET /sessions/s/vars?tag=none", "", "0 []"},
		{tool.RoleAgent, "GET /sessions/s/vars?search=none", "", "0 []"},
		{tool.RoleAgent, "GET /sessions/s/vars?limit=101", "", "validation_error: "},
		{tool.RoleAgent, "GET /sessions/s/vars?colour=b", "", "validation_error: unknown parameter"},
		{tool.RoleAgent, "GET /sessions/s/origins", "", `{"session":[]}`},
		{tool.RoleOperator, "POST /sessions/s/origins/reset", "", `{"session":[]}`},
		{tool.RoleAgent, "POST /sessions/s/vars/remove", `{"names": ["b", "none"]}`, `{"removed":["b"],"failed":["none"]}`},
		{tool.RoleAgent, "PUT /sessions/s/vars/c", `{"value": "3"}`, "created "},
		{tool.RoleAgent, "POST /sessions/s/vars/remove", `{"names": ["c"]}`, `{"removed":["c"],"failed":[]}`},
		{tool.RoleAgent, "POST /sessions/s/vars/remove", `{"names": ["c"]}`, `{"removed":[],"failed":["c"]}`},
		{tool.RoleAgent, "POST /sessions/s/vars/remove", `{}`, "validation_error: names is missing"},
		{tool.RoleAgent, "DELETE /sessions/s/vars/a", "", `{"id":"a","deleted":true}`},
		{tool.RoleAgent, "DELETE /sessions/s/vars/a", "", "variable_not_found: "},
	} {
		if got := routetest.Call(t, p.Routes, tt.role, tt.line, tt.body); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.line, tt.body, got, tt.want)
		}
	}
	if len(recorded) != 1 || recorded[0].Name != "origins_reset" || !strings.Contains(recorded[0].Message, "uid:7") {
		t.Errorf("recorded %+v", recorded)
	}
	for _, line := range []string{
		"GET /sessions/t/vars", "PUT /sessions/t/vars/a", "PATCH /sessions/t/vars/a", "GET /sessions/t/vars/a",
		"DELETE /sessions/t/vars/a", "GET /sessions/t/origins", "POST /sessions/t/origins/reset",
	} {
		if got := routetest.Call(t, p.Routes, tool.RoleAgent, line, `{"value": "1"}`); got != "session_not_found: t" {
			t.Errorf("%s: %s", line, got)
		}
	}
}

func TestARuleIsNotDeleted(t *testing.T) {
	f := newFixture(t, vars.Options{})
	p := f.Part(part.Host{Sessions: oneSession{}})
	if got := routetest.Call(t, p.Routes, tool.RoleAgent, "DELETE /sessions/s/vars/Rule%2FAgent%2FTODO", ""); !strings.HasPrefix(got, "variable_protected: ") {
		t.Error(got)
	}
}
