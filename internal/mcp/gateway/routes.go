package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func (g *gateway) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /sessions/{id}/mcp", Role: tool.RoleAgent, Handle: g.list,
			Spec: route.Spec{
				ID: "listMcpServers", Summary: "The MCP servers of a session, and how they are", Out: []Status{},
			},
		},
		{
			Pattern: "PUT /sessions/{id}/mcp", Role: tool.RoleOperator, Handle: g.put,
			Spec: route.Spec{
				ID: "setMcpServers", Summary: "Set the MCP servers of a session in place of those that it has",
				In: wanted{}, Out: Update{},
			},
		},
		{
			Pattern: "POST /sessions/{id}/mcp/{name}/reconnect", Role: tool.RoleOperator, Handle: g.reconnect,
			Spec: route.Spec{
				ID: "reconnectMcpServer", Summary: "Disconnect an MCP server and connect it again",
				In: struct{}{}, Out: Status{},
			},
		},
		{
			Pattern: "POST /sessions/{id}/mcp/{name}/toggle", Role: tool.RoleOperator, Handle: g.toggle,
			Spec: route.Spec{
				ID: "toggleMcpServer", Summary: "Disconnect an MCP server and keep its configuration, or connect it",
				In: toggled{}, Out: Status{},
			},
		},
		{
			Pattern: "GET /mcp/pins", Role: tool.RoleOperator, Handle: g.pins,
			Spec: route.Spec{
				ID: "listMcpPins", Summary: "What tools of MCP servers said when they were let in",
				Out: []kept.Pinned{},
			},
		},
	}
}

// wanted is the body of PUT /sessions/{id}/mcp: the servers that the session gets, by name.
type wanted struct {
	Servers map[string]json.RawMessage `json:"servers"`
}

// toggled is the body of POST /sessions/{id}/mcp/{name}/toggle. It connects a server, or disconnects it and keeps its
// configuration.
type toggled struct {
	Enabled bool `json:"enabled"`
}

func (g *gateway) sessionOf(r *http.Request) (*session, error) {
	s, err := g.host.Session(r)
	if err != nil {
		return nil, err
	}
	x := g.of(s)
	if x == nil {
		return nil, errors.New("the session is being deleted")
	}
	return x, nil
}

func (g *gateway) list(r *http.Request) (any, error) {
	x, err := g.sessionOf(r)
	if err != nil {
		return nil, err
	}
	all := []Status{}
	for _, v := range x.list() {
		s := v.status()
		if route.CallerOf(r).Role == tool.RoleAgent {
			s.Stderr = "" // it may name files of the operator
		}
		all = append(all, s)
	}
	return all, nil
}

func (g *gateway) put(r *http.Request) (any, error) {
	var in wanted
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	x, err := g.sessionOf(r)
	if err != nil {
		return nil, err
	}
	good, wrong := servers.Parse(in.Servers)
	names := slices.Sorted(maps.Keys(good))
	if err := g.note(r, x, "set", fmt.Sprintf("%v, refused %d", names, len(wrong))); err != nil {
		return nil, err
	}
	return x.put(good, wrong), nil
}

// server returns the server that a request names.
func (g *gateway) server(r *http.Request) (*session, *server, error) {
	x, err := g.sessionOf(r)
	if err != nil {
		return nil, nil, err
	}
	v := x.server(r.PathValue("name"))
	if v == nil {
		return nil, nil, &tool.Error{
			Code: "mcp_server_not_found", Msg: fmt.Sprintf("MCP server not found: %.80s", r.PathValue("name")),
			Hint: "sandboxd mcp servers lists those of the session",
		}
	}
	return x, v, nil
}

func (g *gateway) reconnect(r *http.Request) (any, error) {
	if err := route.Read(r, &struct{}{}); err != nil {
		return nil, err
	}
	x, v, err := g.server(r)
	if err != nil {
		return nil, err
	}
	if err := g.note(r, x, "reconnect", v.name); err != nil {
		return nil, err
	}
	v.enable()
	return v.status(), nil
}

func (g *gateway) toggle(r *http.Request) (any, error) {
	var in toggled
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	x, v, err := g.server(r)
	if err != nil {
		return nil, err
	}
	if err := g.note(r, x, "toggle", fmt.Sprintf("%s enabled=%v", v.name, in.Enabled)); err != nil {
		return nil, err
	}
	if in.Enabled {
		v.enable()
	} else {
		v.disable()
	}
	return v.status(), nil
}

func (g *gateway) pins(r *http.Request) (any, error) {
	account := ""
	if me := route.CallerOf(r); !me.Any {
		account = me.Account
	}
	return g.kept.All(r.Context(), account)
}

// note writes to the record what an operator has changed.
func (g *gateway) note(r *http.Request, x *session, act, what string) error {
	return g.host.Record(context.WithoutCancel(r.Context()), tool.Note{
		Name: "mcp", Account: x.owner, Session: x.id, Message: act + ": " + what,
		Detail: map[string]string{"by": route.CallerOf(r).Operator()},
	})
}
