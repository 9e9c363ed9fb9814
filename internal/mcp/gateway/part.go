package gateway

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/listen"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Definition is MCP servers as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name: "mcp", Schema: kept.Schema(), Config: func() part.Config { return servers.Defaults() },
		Open:     openPart,
		Describe: func(part.Config) part.Part { return (&gateway{}).part() },
	}
}

func openPart(ctx context.Context, h part.Host) (part.Part, error) {
	c := h.Config.(*servers.Config)
	var port *listen.Port
	if c.Listen != "" {
		var err error
		if port, err = listen.Open(c.Listen, c.TokenFile); err != nil {
			return part.Part{}, err
		}
	}
	g := open(ctx, h)
	g.port = port
	return g.part(), nil
}

// part returns what the gateway adds to the daemon.
func (g *gateway) part() part.Part {
	return part.Part{
		Groups: []catalog.Group{{
			Name: "mcp", Tools: []tool.Tool{listResources{g}, readResource{g}}, Of: g.tools,
		}},
		Routes: g.routes(),
		Opened: func(s tool.Session, by route.Caller) {
			if by.Role == tool.RoleAgent { // servers do not get the rights of an operator
				o := kept.Owner{UID: by.UID, GID: by.GID, Groups: by.Groups, Name: by.Name, Home: by.Home}
				if err := g.kept.SetOwner(g.ctx, s.ID, o); err != nil {
					g.log.Error("who made a session was not kept", "session", s.ID, "error", err)
				}
			}
			g.opened(s)
		},
		Own:     true, // what it keeps of sessions: servers, and with whose rights they run
		Deleted: kept.Forget,
		Forget: func(_ context.Context, s tool.Session) error {
			g.forget(s.ID)
			return nil
		},
		Serve:  g.serve,
		Reload: func(_ context.Context, c part.Config) { g.reload(c.(*servers.Config)) },
		Metrics: []part.Gauge{{
			Name: "mcp_servers_connected", Help: "MCP servers that answer, of all sessions.",
			Value: func() float64 { return float64(g.connected()) },
		}},
		Status: func() any {
			said := map[string]any{"connected": g.connected()}
			if g.port != nil {
				said["url"] = g.port.URL()
			}
			return said
		},
		Close: g.close,
	}
}

// serve answers on the port, if there is one, and follows the pins of other daemons.
func (g *gateway) serve(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return g.follow(ctx) })
	if g.port != nil {
		both.Go(func() error { return g.host.ServeAgents(ctx, g.port, g.port.Caller) })
	}
	return both.Wait()
}
