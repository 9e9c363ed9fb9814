package projects

import (
	"context"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// changing is a daemon that changes a list, in which one call runs.
type changing struct{ *place }

func (c changing) AllowProject(_ context.Context, dir, by string) (Answer, error) {
	return c.list.Allow(dir, by, c.record)
}

func (c changing) RemoveProject(_ context.Context, dir, by string) (Answer, error) {
	a, err := c.list.Remove(dir, by, c.record)
	a.Ended = 1
	return a, err
}

func TestTheRoutesOfProjects(t *testing.T) {
	p := newPlace(t, each())
	a, sub := p.at("a"), p.at("a/sub")
	routes := p.list.Part(changing{p}).Routes
	answer := func(dir, in, rest string) string { return `{"dir":"` + dir + `","in":"` + in + `",` + rest + `}` }
	for _, tt := range []struct{ line, dir, want string }{
		{"POST /projects", a, "created " + answer(a, a, `"change":true,"ended":0`)},
		{"POST /projects", a, answer(a, a, `"change":false,"ended":0`)},
		{"POST /projects", sub, answer(sub, a, `"change":false,"ended":0`)},
		{"POST /projects/remove", sub, "project_not_found: "},
		{"POST /projects/remove", a, answer(a, a, `"change":true,"ended":1`)},
		{"POST /projects", p.at("b"), "created "},
	} {
		got := routetest.Call(t, routes, tool.RoleOperator, tt.line, `{"dir":"`+tt.dir+`"}`)
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.line, tt.dir, got, tt.want)
		}
	}
	list := func() string { return routetest.Call(t, routes, tool.RoleOperator, "GET /projects", "") }
	if got := list(); !strings.HasPrefix(got, `[{"dir":"`+p.at("b")+`","allowed_at":"20`) ||
		!strings.HasSuffix(got, `,"by":"uid:7"}]`) {
		t.Errorf("the list is %s", got)
	}
	if status, ok := p.list.Part(changing{p}).Status().([]Status); !ok || len(status) != 1 || status[0].Dir != p.at("b") {
		t.Errorf("the status of the daemon has %+v", status)
	}
	p.list.Use(Rules{})
	if got := list(); !strings.Contains(got, `,"problem":"`) {
		t.Errorf("of what the configuration rules out the list says %s", got)
	}
}
