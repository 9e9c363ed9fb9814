package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// session has the servers of one session.
type session struct {
	g     *gateway
	id    string
	owner string // the account

	tools atomic.Pointer[map[string]tool.Tool] // the tools that models get; the map itself never changes

	changing sync.Mutex // held while servers come and go, so that changes do not overlap
	mu       sync.Mutex // guards the fields below
	servers  map[string]*server
	own      bool // an operator has set them
	closed   bool
}

func newSession(g *gateway, s tool.Session) *session {
	x := &session{g: g, id: s.ID, owner: s.Account, servers: map[string]*server{}}
	x.tools.Store(&map[string]tool.Tool{})
	return x
}

func (x *session) offered() map[string]tool.Tool { return *x.tools.Load() }

// list returns the servers, sorted by name.
func (x *session) list() []*server {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]*server, 0, len(x.servers))
	for _, name := range slices.Sorted(maps.Keys(x.servers)) {
		all = append(all, x.servers[name])
	}
	return all
}

func (x *session) server(name string) *server {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.servers[name]
}

// current returns the session as it is now.
func (x *session) current(ctx context.Context) (tool.Session, error) {
	return x.g.host.Sessions.Session(ctx, x.owner, x.id)
}

// reload takes over the servers of a configuration, unless an operator has set others.
func (x *session) reload(want map[string]servers.Server) {
	x.mu.Lock()
	own := x.own
	x.mu.Unlock()
	if !own {
		x.set(want, nil)
	}
}

// Update says which servers a change has added and removed (M-19).
type Update struct {
	Added   []string          `json:"added"`
	Removed []string          `json:"removed"`
	Errors  map[string]string `json:"errors"`
}

// put sets the servers for an operator. A server with a mistake is left out and named; a running server of that name
// goes on.
func (x *session) put(good map[string]servers.Server, wrong map[string]error) Update {
	x.mu.Lock()
	x.own = true
	x.mu.Unlock()
	u := x.set(good, wrong)
	for name, err := range wrong {
		u.Errors[name] = err.Error()
	}
	return u
}

// set gives the session these servers. It closes those that are gone, then starts new ones and restarts changed
// ones; it does not touch the others (M-18). A server that keep names stays as it is.
func (x *session) set(want map[string]servers.Server, keep map[string]error) Update {
	x.changing.Lock()
	defer x.changing.Unlock()
	u := Update{Added: []string{}, Removed: []string{}, Errors: map[string]string{}}
	var closing, begin []*server
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return u
	}
	for name, have := range x.servers {
		next, still := want[name]
		if _, wrong := keep[name]; wrong || still && next.Equal(have.conf) {
			continue
		}
		closing = append(closing, have)
		delete(x.servers, name)
		if !still {
			u.Removed = append(u.Removed, name)
		}
	}
	for name, conf := range want {
		if x.servers[name] != nil {
			continue
		}
		if !slices.ContainsFunc(closing, func(v *server) bool { return v.name == name }) {
			u.Added = append(u.Added, name)
		}
		v := newServer(x, name, conf)
		x.servers[name] = v
		begin = append(begin, v)
	}
	x.mu.Unlock()
	var wg sync.WaitGroup
	for _, v := range closing {
		wg.Go(v.close)
	}
	wg.Wait()
	for _, v := range begin { // each connects in a goroutine of its own (M-11)
		v.enable()
	}
	x.publish()
	slices.Sort(u.Added)
	slices.Sort(u.Removed)
	return u
}

func (x *session) close() {
	x.changing.Lock()
	defer x.changing.Unlock()
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	var wg sync.WaitGroup
	for _, v := range x.list() {
		wg.Go(v.close)
	}
	wg.Wait()
}

// publish makes the map of all tools that were let in, and notifies those who follow the session.
func (x *session) publish() {
	x.mu.Lock()
	all := map[string]tool.Tool{}
	for _, v := range x.servers {
		maps.Copy(all, v.offered())
	}
	before := x.offered()
	same := maps.EqualFunc(before, all, func(a, b tool.Tool) bool { return a == b })
	if !same {
		x.tools.Store(&all)
	}
	x.mu.Unlock()
	if !same {
		x.g.host.Events.Publish(events.Event{Type: events.SessionChanged, Account: x.owner, Session: x.id})
	}
}

// foreign returns a function that returns a word if it names a tool or a server other than of and its tools, else "".
func (x *session) foreign(of *server) func(word string) string {
	x.mu.Lock()
	names := map[string]bool{}
	for name, v := range x.servers {
		if v == of {
			continue
		}
		names[strings.ToLower(name)] = true
		for _, t := range v.known() {
			names[strings.ToLower(t)] = true
		}
	}
	x.mu.Unlock()
	own := map[string]bool{strings.ToLower(of.name): true}
	for _, t := range of.known() {
		own[strings.ToLower(t)] = true
	}
	return func(word string) string {
		folded := strings.ToLower(word)
		if strings.HasPrefix(folded, "mcp__") && !strings.HasPrefix(folded, "mcp__"+strings.ToLower(of.name)+"__") {
			return word
		}
		if !own[folded] && (names[folded] || x.g.host.Known(word)) {
			return word
		}
		return ""
	}
}

// reconsider judges the tools of the other servers again, because a tool may speak of one that has come since.
func (x *session) reconsider(because *server) {
	for _, v := range x.list() {
		if v != because {
			v.again()
		}
	}
}
