package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func (w *world) child(role tool.Role, body string) (session, answer) {
	w.t.Helper()
	a := w.do(role, "POST", "/sessions", body)
	var s session
	if a.status < 300 {
		must(w.t, json.Unmarshal(a.Data, &s))
	}
	return s, a
}

func TestN10_AChildIsNeverLooserThanItsParent(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	for _, tt := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"agent":"a","mode":"bypassPermissions"}`, 403, "mode_not_allowed"},
		{`{}`, 400, "validation_error"},
		{`{"agent":""}`, 400, "validation_error"},
		{`{"agent":"a/b"}`, 400, "validation_error"},
		{`{"agent":"a","reuse":true}`, 400, "validation_error"},
		{`{"agent":"a","sandbox":{}}`, 400, "validation_error"},
		{`{"agent":"a","profile":"light"}`, 400, "validation_error"},
		{`{"agent":"a","disallowed_tools":["Nothing"]}`, 400, "validation_error"},
		{`{"agent":"a","allowed_tools":["Echo(x)"]}`, 400, "validation_error"},
		{`{"agent":"a","cwd":"/"}`, 403, "cwd_outside_workspace"},
	} {
		body := strings.TrimSuffix(strings.Replace(tt.body, "{", `{"parent":"`+id+`",`, 1), "}") + "}"
		body = strings.Replace(body, ",}", "}", 1)
		for _, role := range []tool.Role{tool.RoleAgent, tool.RoleOperator} {
			if _, a := w.child(role, body); a.status != tt.status || a.Error.Code != tt.says {
				t.Errorf("%s: got %d %+v", body, a.status, a.Error)
			}
		}
	}
	for body, status := range map[string]int{
		`{"parent":"nobody","agent":"a"}`: 404, `{"parent":"","agent":"a"}`: 404, `{"allowed_tools":["Echo"]}`: 400,
		`{"resume":"` + id + `","agent":"x"}`: 400,
	} {
		if _, a := w.child(tool.RoleAgent, body); a.status != status {
			t.Errorf("%s: got %d %+v", body, a.status, a.Error)
		}
	}
	s, _ := w.child(tool.RoleAgent, `{"parent":"`+id+`","agent":"a"}`)
	if s.Parent != id || s.Agent != "a" || s.Mode != "auto" {
		t.Errorf("got %+v", s)
	}
	if _, a := w.child(tool.RoleAgent, `{"parent":"`+id+`","agent":"a"}`); a.status != http.StatusConflict ||
		a.Error.Msg != "Agent with name 'a' is already registered" {
		t.Errorf("a second a: %d %+v", a.status, a.Error)
	}
	if a := w.do(tool.RoleAgent, "PATCH", "/sessions/"+s.ID, `{"agent":"b"}`); a.status != http.StatusBadRequest {
		t.Errorf("another name: %d", a.status)
	}

	// The parent becomes stricter, and its child with it, also where it is told of a change.
	if a := w.do(tool.RoleOperator, "PATCH", "/sessions/"+id, `{"mode":"plan"}`); a.status != http.StatusOK {
		t.Fatalf("got %d %+v", a.status, a.Error)
	}
	for _, a := range []answer{
		w.do(tool.RoleAgent, "GET", "/sessions/"+s.ID, ""),
		w.do(tool.RoleOperator, "PATCH", "/sessions/"+s.ID, `{"mode":"bypassPermissions"}`),
		w.do(tool.RoleAgent, "PUT", "/sessions/"+s.ID+"/messages", `{"messages":[]}`),
	} {
		var now session
		must(t, json.Unmarshal(a.Data, &now))
		if now.Mode != tool.ModePlan {
			t.Errorf("the child has mode %s: %s", now.Mode, a.Data)
		}
	}
}

// places are workspaces of which each is one directory.
type places []string

func (p places) Of(dir string) (tool.Workspace, error) {
	for _, root := range p {
		if guard.Within(dir, root) {
			return tool.Workspace{Roots: []string{root}, Settings: guard.DefaultSettings(root, root, nil)}, nil
		}
	}
	return tool.Workspace{}, &tool.Error{Code: "cwd_outside_workspace", Msg: "no workspace"}
}

func (p places) Default() (string, error) { return p[0], nil }

func TestN10_AChildWorksWhereItsParentDoes(t *testing.T) {
	var one, two string
	w := newWorld(t, func(o *Options) {
		dir, err := o.Workspaces.Default()
		must(t, err)
		one, two = filepath.Join(dir, "one"), filepath.Join(dir, "two")
		must(t, errors.Join(os.MkdirAll(one+"/below", 0o700), os.MkdirAll(one+"/was", 0o700), os.Mkdir(two, 0o700)))
		o.Workspaces = places{one, two}
	})
	up := func(dir string) string {
		var s session
		must(t, json.Unmarshal(w.do(tool.RoleAgent, "POST", "/sessions", `{"cwd":"`+dir+`"}`).Data, &s))
		return s.ID
	}
	parent, moved := up(one), up(one+"/was")
	must(t, errors.Join(os.Remove(one+"/was"), os.Symlink(two, one+"/was")))
	for _, tt := range []struct {
		body   string
		status int
	}{
		{`{"parent":"` + parent + `","agent":"a"}`, 201},
		{`{"parent":"` + parent + `","agent":"b","cwd":"` + one + `/below"}`, 201},
		{`{"parent":"` + parent + `","agent":"c","cwd":"` + two + `"}`, 403},
		{`{"parent":"` + parent + `","agent":"d","cwd":"` + one + `/was"}`, 403},
		{`{"parent":"` + moved + `","agent":"e"}`, 403},
		{`{"parent":"` + parent + `","agent":"Self"}`, 400},
	} {
		if _, a := w.child(tool.RoleAgent, tt.body); a.status != tt.status {
			t.Errorf("%s: got %d %+v", tt.body, a.status, a.Error)
		}
	}
}

func TestN02_AChildHasNoMoreToolsThanItsParent(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	tools := func(session string) []string {
		t.Helper()
		var list []struct{ Name string }
		must(t, json.Unmarshal(w.do(tool.RoleAgent, "GET", "/sessions/"+session+"/tools", "").Data, &list))
		var names []string
		for _, d := range list {
			names = append(names, d.Name)
		}
		return names
	}
	all, _ := w.child(tool.RoleAgent, `{"parent":"`+id+`","agent":"all","allowed_tools":[]}`)
	less, _ := w.child(tool.RoleAgent, `{"parent":"`+id+`","agent":"less","allowed_tools":["Wait","Nothing"]}`)
	none, _ := w.child(tool.RoleAgent,
		`{"parent":"`+less.ID+`","agent":"none","allowed_tools":["Echo","Wait"],"disallowed_tools":["wait"]}`)
	for _, tt := range []struct {
		session string
		want    []string
	}{{all.ID, []string{"Echo", "Wait"}}, {less.ID, []string{"Wait"}}, {none.ID, nil}} {
		if got := tools(tt.session); !slices.Equal(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	call := func(session string) tool.Status {
		var r tool.Result
		must(t, json.Unmarshal(w.do(tool.RoleAgent, "POST", "/sessions/"+session+"/calls", `{"tool":"Echo","args":{}}`).Data, &r))
		return r.Status
	}
	if got := call(all.ID); got != tool.StatusSuccess {
		t.Errorf("Echo is %s", got)
	}
	if got := call(less.ID); got != tool.StatusNotFound {
		t.Errorf("a tool that was not given is %s", got)
	}
	if a := w.do(tool.RoleOperator, "PUT", "/sessions/"+id+"/tools/Echo", `{"enabled":false}`); a.status != http.StatusOK {
		t.Fatalf("got %d", a.status)
	}
	if got := call(all.ID); got != tool.StatusNotFound {
		t.Errorf("a tool that the parent lost is %s", got)
	}
}
