package team

import (
	"net/http"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func (f *feature) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /sessions/{id}/tasks", Role: tool.RoleAgent, Handle: f.listTasks,
			Spec: route.Spec{
				ID: "listTasks", Summary: "The tasks of a tree of agents, by number",
				Query: append([]route.Param{{Name: "status"}, {Name: "owner"}}, route.PageQuery...),
				Out:   []Task{}, Paged: true,
			},
		},
		{
			Pattern: "POST /sessions/{id}/tasks", Role: tool.RoleAgent, Keeps: true, Handle: f.createTask,
			Spec: route.Spec{ID: "createTask", Summary: "Make a task", In: newTask{}, Out: Task{}, Created: true},
		},
		{
			Pattern: "GET /sessions/{id}/tasks/{task}", Role: tool.RoleAgent, Handle: f.getTask,
			Spec: route.Spec{ID: "getTask", Summary: "One task", Out: Task{}},
		},
		{
			Pattern: "PATCH /sessions/{id}/tasks/{task}", Role: tool.RoleAgent, Keeps: true, Handle: f.patchTask,
			Spec: route.Spec{
				ID: "patchTask", Summary: "Change a task, if it is as expected", In: Change{}, Out: Task{},
				Errors: []int{409},
			},
		},
		{
			Pattern: "GET /sessions/{id}/teams", Role: tool.RoleAgent, Handle: f.listTeams,
			Spec: route.Spec{ID: "listTeams", Summary: "The teams of a tree of agents", Out: []Team{}},
		},
		{
			Pattern: "GET /sessions/{id}/teams/{team}", Role: tool.RoleAgent, Handle: f.getTeam,
			Spec: route.Spec{ID: "getTeam", Summary: "One team", Out: Team{}},
		},
		{
			Pattern: "POST /sessions/{id}/teams/{team}/members", Role: tool.RoleAgent, Keeps: true, Handle: f.addMember,
			Spec: route.Spec{
				ID: "addMember", Summary: "Add an agent to a team, for its leader", In: newMember{}, Out: Team{},
				Created: true, Errors: []int{403, 409},
			},
		},
		{
			Pattern: "DELETE /sessions/{id}/teams/{team}/members/{name}", Role: tool.RoleAgent, Handle: f.removeMember,
			Spec: route.Spec{
				ID: "removeMember", Summary: "Take an agent out of a team, for its leader", Out: Team{},
				Errors: []int{403, 409},
			},
		},
		{
			Pattern: "GET /sessions/{id}/mailbox", Role: tool.RoleAgent, Handle: f.look,
			Spec: route.Spec{
				ID: "lookIntoMailbox", Summary: "What is in a mailbox, which stays there", Out: []Message{},
			},
		},
		{
			Pattern: "POST /sessions/{id}/mailbox/read", Role: tool.RoleAgent, Handle: f.take,
			Spec: route.Spec{
				ID: "readMailbox", Summary: "What is in a mailbox, which is empty then",
				In: struct{}{}, Out: []Message{},
			},
		},
		{
			Pattern: "POST /sessions/{id}/mailbox", Role: tool.RoleAgent, Keeps: true, Handle: f.send,
			Spec: route.Spec{
				ID: "sendMessage", Summary: "Send a message of the agent of a session to another one of a team",
				In: Outgoing{}, Out: sent{}, Created: true, Errors: []int{409},
			},
		},
	}
}

// newTask is the request for a task.
type newTask struct {
	Subject     string            `json:"subject"`
	Description string            `json:"description,omitempty"`
	Owner       string            `json:"owner,omitempty"`
	Status      string            `json:"status,omitempty"`
	BlockedBy   []string          `json:"blocked_by,omitempty"`
	Blocks      []string          `json:"blocks,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

type newMember struct {
	Name string `json:"name"`
	Role Role   `json:"role,omitempty"`
}

type sent struct {
	To []string `json:"to"`
}

// author returns who writes by HTTP: a person on the operator socket, else a model.
func author(r *http.Request) provenance.Authors {
	if route.CallerOf(r).Role == tool.RoleOperator {
		return provenance.ByPerson
	}
	return provenance.ByModel
}

// asked returns the session that a route names, and its place. It counts as used.
func (f *feature) asked(r *http.Request) (tool.Session, Place, error) {
	s, err := f.host.Session(r)
	if err == nil {
		f.host.Used(s.ID)
	}
	p := PlaceOf(s)
	p.Operator = route.CallerOf(r).Role == tool.RoleOperator
	return s, p, err
}

func (f *feature) listTasks(r *http.Request) (any, error) {
	page, err := route.Paging(r)
	if err != nil {
		return nil, err
	}
	filter := Filter{Owner: r.FormValue("owner"), Limit: page.Limit, Offset: page.Offset}
	if text := r.FormValue("status"); text != "" {
		if filter.Status, err = ParseStatus(text); err != nil {
			return nil, err
		}
	}
	_, p, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	all, total, err := f.store.List(r.Context(), p, filter)
	return page.List(all, len(all), total), err
}

func (f *feature) createTask(r *http.Request) (any, error) {
	var in newTask
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	t := Task{
		Subject: in.Subject, Description: in.Description, Owner: in.Owner, Status: Pending, BlockedBy: in.BlockedBy,
		Blocks: in.Blocks, Metadata: in.Metadata,
	}
	if in.Status != "" {
		var err error
		if t.Status, err = ParseStatus(in.Status); err != nil {
			return nil, err
		}
	}
	s, _, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	if t, err = f.create(r.Context(), s, t, author(r)); err != nil {
		return nil, err
	}
	return route.Created{Data: t}, nil
}

func (f *feature) getTask(r *http.Request) (any, error) {
	_, p, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	return f.store.Get(r.Context(), p, r.PathValue("task"))
}

func (f *feature) patchTask(r *http.Request) (any, error) {
	var in Change
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	s, _, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	return f.update(r.Context(), s, r.PathValue("task"), in, author(r))
}

func (f *feature) listTeams(r *http.Request) (any, error) {
	_, p, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	return f.store.Teams(r.Context(), p)
}

func (f *feature) getTeam(r *http.Request) (any, error) {
	_, p, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	return f.store.Team(r.Context(), p, r.PathValue("team"))
}

func (f *feature) addMember(r *http.Request) (any, error) {
	var in newMember
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	_, p, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	t, err := f.store.AddMember(r.Context(), p, r.PathValue("team"), Member(in))
	if err != nil {
		return nil, err
	}
	return route.Created{Data: t}, nil
}

func (f *feature) removeMember(r *http.Request) (any, error) {
	_, p, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	return f.store.RemoveMember(r.Context(), p, r.PathValue("team"), r.PathValue("name"))
}

func (f *feature) look(r *http.Request) (any, error) {
	_, p, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	all, _, err := f.store.Look(r.Context(), p)
	return all, err
}

func (f *feature) take(r *http.Request) (any, error) {
	if err := route.Read(r, &struct{}{}); err != nil {
		return nil, err
	}
	_, p, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	all, _, err := f.store.Take(r.Context(), p)
	return all, err
}

func (f *feature) send(r *http.Request) (any, error) {
	var in Outgoing
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	_, p, err := f.asked(r)
	if err != nil {
		return nil, err
	}
	to, err := f.store.Send(r.Context(), p, in, author(r))
	if err != nil {
		return nil, err
	}
	return route.Created{Data: sent{to}}, nil
}
