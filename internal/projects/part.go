package projects

import (
	"context"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Changes makes the changes that operators ask for. By names the person.
type Changes interface {
	AllowProject(ctx context.Context, dir, by string) (Answer, error)
	RemoveProject(ctx context.Context, dir, by string) (Answer, error)
}

// Part returns the list as a part of the daemon.
func (l *List) Part(c Changes) part.Part {
	h := handlers{l, c}
	return part.Part{Routes: h.routes(), Status: func() any { return l.All() }}
}

type handlers struct {
	list    *List
	changes Changes
}

func (h handlers) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /projects", Role: tool.RoleOperator, Handle: h.all,
			Spec: route.Spec{ID: "listProjects", Summary: "Directories that a person allowed", Out: []Status{}},
		},
		{
			Pattern: "POST /projects", Role: tool.RoleOperator, Handle: h.allow,
			Spec: route.Spec{
				ID: "allowProject", Summary: "Let agents work in a directory", In: directory{}, Out: Answer{},
				Created: true,
			},
		},
		{
			Pattern: "POST /projects/remove", Role: tool.RoleOperator, Handle: h.remove,
			Spec: route.Spec{
				ID: "removeProject", Summary: "Take a directory back, and end the calls that run there",
				In: directory{}, Out: Answer{},
			},
		},
	}
}

// directory is the request about one directory.
type directory struct {
	Dir string `json:"dir"`
}

func (h handlers) all(*http.Request) (any, error) { return h.list.All(), nil }

func (h handlers) allow(r *http.Request) (any, error) {
	a, err := ask(r, h.changes.AllowProject)
	if err != nil || !a.Change {
		return a, err
	}
	return route.Created{Data: a}, nil
}

func (h handlers) remove(r *http.Request) (any, error) {
	return ask(r, h.changes.RemoveProject)
}

func ask(r *http.Request, change func(ctx context.Context, dir, by string) (Answer, error)) (Answer, error) {
	var in directory
	if err := route.Read(r, &in); err != nil {
		return Answer{}, err
	}
	// The change is made as a whole, also for a client that goes away.
	return change(context.WithoutCancel(r.Context()), in.Dir, route.CallerOf(r).Operator())
}
