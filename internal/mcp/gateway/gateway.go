package gateway

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/listen"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/secrets"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// gateway has the MCP servers of all sessions of a daemon.
type gateway struct {
	host    part.Host
	port    *listen.Port // nil if none is configured
	kept    *kept.Store
	config  atomic.Pointer[servers.Config]
	secrets secrets.Reader
	log     *slog.Logger

	ctx  context.Context // ends with the daemon
	stop context.CancelFunc

	mu       sync.Mutex // guards the fields below
	sessions map[string]*session
	gone     map[string]bool // sessions that were deleted; somebody may still ask for their tools
}

func open(ctx context.Context, h part.Host) *gateway {
	g := &gateway{
		host: h, kept: kept.New(h.DB, h.Local), log: h.Log,
		sessions: map[string]*session{}, gone: map[string]bool{},
	}
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.config.Store(h.Config.(*servers.Config))
	return g
}

// of returns what a session has, and makes it if there is nothing yet. It returns nil for a session that cannot have
// servers.
func (g *gateway) of(s tool.Session) *session {
	if s.ID == "" || g.ctx == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if x := g.sessions[s.ID]; x != nil || g.gone[s.ID] || g.ctx.Err() != nil {
		return x
	}
	x := newSession(g, s)
	g.sessions[s.ID] = x
	x.set(g.config.Load().Servers, nil)
	return x
}

// tools returns the tools of a session, by name (M-22).
func (g *gateway) tools(s tool.Session) map[string]tool.Tool {
	if x := g.of(s); x != nil {
		return x.offered()
	}
	return nil
}

// user returns the user with whose rights the servers of a session run: the one who made it, or the session above
// it.
func (g *gateway) user(ctx context.Context, s tool.Session) (sandbox.User, error) {
	if !sandbox.TakesRights() {
		return sandbox.Daemon(), nil
	}
	for _, x := range append([]tool.Session{s}, s.Above...) {
		o, known, err := g.kept.Owner(ctx, x.ID)
		if err != nil {
			return sandbox.User{}, err
		}
		if known {
			return sandbox.NewUser(o.UID, o.GID, o.Groups, o.Name, o.Home), nil
		}
	}
	return sandbox.User{}, errNoOwner
}

// reload puts other servers in force, except in sessions whose servers an operator has set.
func (g *gateway) reload(c *servers.Config) {
	g.config.Store(c)
	for _, x := range g.all() {
		x.reload(c.Servers)
	}
}

func (g *gateway) all() []*session {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*session, 0, len(g.sessions))
	for x := range maps.Values(g.sessions) {
		all = append(all, x)
	}
	return all
}

// forget ends the servers of a session that was deleted (M-29).
func (g *gateway) forget(id string) {
	g.mu.Lock()
	x := g.sessions[id]
	delete(g.sessions, id)
	g.gone[id] = true
	g.mu.Unlock()
	if x != nil {
		x.close()
	}
}

// follow judges withheld tools again after a person has let in a definition, in another session or at another
// daemon.
func (g *gateway) follow(ctx context.Context) error {
	for range g.kept.Changes(ctx) {
		for _, x := range g.all() {
			for _, v := range x.list() {
				if v.withholds() {
					v.again()
				}
			}
		}
	}
	return nil
}

// opened notes that a session with this id exists again.
func (g *gateway) opened(s tool.Session) {
	g.mu.Lock()
	delete(g.gone, s.ID)
	g.mu.Unlock()
	g.of(s)
}

func (g *gateway) close() error {
	if g.port != nil {
		_ = g.port.Close() // whoever served the port may have closed it
	}
	g.stop()
	var wg sync.WaitGroup
	for _, x := range g.all() {
		wg.Go(x.close)
	}
	wg.Wait()
	return nil
}

// connected returns how many servers answer.
func (g *gateway) connected() (n int) {
	for _, x := range g.all() {
		for _, v := range x.list() {
			if v.status().Status == Connected {
				n++
			}
		}
	}
	return n
}
