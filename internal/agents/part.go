package agents

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Definition returns the feature agents as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name:   "agents",
		Config: func() part.Config { return defaults() },
		Open: func(_ context.Context, h part.Host) (part.Part, error) {
			f := newFeature(h)
			f.config.Store(h.Config.(*Config))
			return f.part(), nil
		},
		Describe: func(part.Config) part.Part { return newFeature(part.Host{}).part() },
	}
}

// feature is the state of agents in one daemon.
type feature struct {
	host   part.Host
	config atomic.Pointer[Config]

	mu   sync.Mutex // guards the fields below
	used map[which]Usage
	runs map[string]*working // by session
}

// which tells a session from one that its account made anew with the same id.
type which struct {
	id   string
	made int64
}

func whichOf(s tool.Session) which { return which{s.ID, s.Created.UnixNano()} }

// working is an agent whose program runs.
type working struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the agent has ended
}

func newFeature(h part.Host) *feature {
	return &feature{host: h, used: map[which]Usage{}, runs: map[string]*working{}}
}

// enter notes that an agent runs in a session. A second agent cannot enter until that one has left.
func (f *feature) enter(session string, cancel context.CancelCauseFunc) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runs[session] != nil {
		return nil, &tool.Error{
			Code: "agent_runs", Msg: fmt.Sprintf("the agent of session %q works already", session),
			Hint: "wait for its answer, or start another one",
		}
	}
	x := &working{cancel, make(chan struct{})}
	f.runs[session] = x
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.runs, session)
		close(x.done)
	}, nil
}

// lateCalls is how long the calls of a session that was deleted may take to end.
const lateCalls = time.Minute

// forget ends the agent of a session that was deleted.
func (f *feature) forget(_ context.Context, s tool.Session) error {
	f.mu.Lock()
	x := f.runs[s.ID]
	f.mu.Unlock()
	if x != nil {
		x.cancel(tool.ErrAtOnce)
		<-x.done
	}
	forgetUsed := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.used, whichOf(s))
	}
	forgetUsed()
	time.AfterFunc(lateCalls, forgetUsed) // of calls that end behind this
	return nil
}

func (f *feature) part() part.Part {
	return part.Part{
		Routes: []route.Route{{
			Pattern: "GET /agents", Role: tool.RoleAgent, Handle: f.list,
			Spec: route.Spec{
				ID: "listAgents", Summary: "Who runs under whom: the sessions of this account, each after its parent",
				Out: []Agent{},
			},
		}},
		Groups: []catalog.Group{f.group()},
		Ended:  f.ended,
		Forget: f.forget,
		Reload: func(_ context.Context, c part.Config) { f.config.Store(c.(*Config)) },
	}
}

// Agent is a session of an account as people see it, also one in which no agent works now.
type Agent struct {
	Session string    `json:"session_id"`
	Agent   string    `json:"agent,omitempty"`
	Parent  string    `json:"parent,omitempty"`
	Mode    tool.Mode `json:"mode"` // the mode in force
	Type    string    `json:"agent_type,omitempty"`
	State   string    `json:"state"` // running or idle
	Dir     string    `json:"cwd"`
	Created time.Time `json:"created_at"`
	Used    Usage     `json:"used"`
}

// Usage is what the calls of an agent have cost since the daemon started.
type Usage struct {
	Calls  int   `json:"calls"`
	CPUMS  int64 `json:"cpu_ms"`
	WallMS int64 `json:"wall_ms"`
}

func (f *feature) list(r *http.Request) (any, error) {
	account := route.CallerOf(r).Account
	all, err := f.host.Sessions.All(r.Context(), account)
	if err != nil {
		return nil, err
	}
	runs := f.host.Busy(account)
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Agent, 0, len(all))
	for _, s := range all {
		a := Agent{
			Session: s.ID, Agent: s.Agent, Parent: s.Parent, Mode: s.Mode, Type: s.Type, State: "idle", Dir: s.Dir,
			Created: s.Created, Used: f.used[whichOf(s)],
		}
		if runs[s.ID] || f.runs[s.ID] != nil {
			a.State = "running"
		}
		out = append(out, a)
	}
	return out, nil
}

// ended counts a call.
func (f *feature) ended(c *tool.Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.used[whichOf(c.Session)]
	u.Calls++
	u.WallMS += time.Since(c.Started).Milliseconds()
	if c.Result.Usage != nil {
		u.CPUMS += c.Result.Usage.CPUMS
	}
	f.used[whichOf(c.Session)] = u
}
