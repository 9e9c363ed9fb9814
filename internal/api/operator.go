package api

import (
	"errors"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
)

func (s *Server) operatorRoutes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /healthz", Role: tool.RoleAgent, Handle: s.health,
			Spec: route.Spec{ID: "getHealth", Summary: "Whether the daemon answers", Out: health{}},
		},
		{
			Pattern: "GET /status", Role: tool.RoleAgent, Handle: s.status,
			Spec: route.Spec{ID: "getStatus", Summary: "What the daemon says of itself", Out: Status{}},
		},
		{
			Pattern: "POST /reload", Role: tool.RoleOperator, Handle: s.reload,
			Spec: route.Spec{
				ID: "reload", Summary: "Read the configuration again", In: policy.Reload{}, Out: ConfigStatus{},
				Errors: []int{409},
			},
		},
		{
			Pattern: "POST /stop-all", Role: tool.RoleOperator, Handle: s.stopAll,
			Spec: route.Spec{ID: "stopAll", Summary: "End every call and the daemon, now", Out: stopping{}},
		},
	}
}

func (s *Server) health(*http.Request) (any, error) { return health{"ok"}, nil }

func (s *Server) status(*http.Request) (any, error) { return s.Status(), nil }

// reload reads the configuration again, and answers with the one in force.
func (s *Server) reload(r *http.Request) (any, error) {
	var in policy.Reload
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if err := s.Daemon.Reload(r.Context(), route.CallerOf(r).Operator(), in.Loosen); err != nil {
		var said *tool.Error
		if !errors.As(err, &said) {
			said = &tool.Error{
				Code: "config_invalid", Msg: err.Error(), Hint: "the configuration before stays in force",
			}
		}
		return nil, said
	}
	return s.Daemon.Config(), nil
}

func (s *Server) stopAll(r *http.Request) (any, error) {
	n, err := s.Daemon.StopAll(r.Context(), route.CallerOf(r).Operator())
	return stopping{err == nil, n}, err
}
