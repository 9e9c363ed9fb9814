// Package api serves the daemon over HTTP: on its Unix sockets for agents and operators, and
// on listeners of parts for callers that a part has let in.
//
// Requests are strict JSON: unknown and duplicate fields, wrong case and invalid
// UTF-8 are errors. A success is {"data": …}, a list has "meta" beside it, and a failure is
// {"error": {code, message, stage?, hint?, details?}} with a stable code; event streams, profiles
// and metrics have a form of their own. A call that was judged is HTTP 200 whatever its status.
// All other requests that fail have an HTTP error, such as those that are malformed, not let in,
// over the budget, or about what does not exist.
//
//	s := api.New(api.Options{Pipeline: p, Sessions: sessions, …})
//	l, err := api.Listen(path, api.Access{}) // the caller holds the lock of the state directory
//	f := api.NewFront(s)
//	err = f.Serve(ctx, l, tool.RoleAgent)    // returns when ctx has ended, and the calls with it
//	f.Swap(other)                            // meanwhile: a reload made another Server
//
// A [Server] is one configuration, and [Front] keeps the listeners. Requests that have begun
// before a Swap end on the old Server. A socket that the service manager made comes from
// [Inherited], and [OfGroup] checks it. When ctx ends, running calls have Options.StopGrace.
//
// On a socket, the socket decides the role of a request, and the uid of its peer the
// account. A program that runs a sub-agent has the account of that agent and reaches
// its session only; a program of a hook is refused. On a listener of a part, the part
// says who calls ([Front.ServeAgents], [Front.As]). Nothing else in a request changes
// role or account, except that an operator may name the account to act for. An operator
// who names none reaches the sessions and calls of every account by their id.
//
// Each request passes the same checks in this order: the budget of the account (agents only), no
// other site in a browser, whether the route exists, who calls, the account that it is about, the
// role of the route, the query, room on the disk (route.Route.Keeps). Then the handler runs. With
// ServeAgents, the check of the part comes before all of these.
//
// A route of a feature belongs to the part of the feature, and most routes of policies to package
// policy. Here are those of sessions and their messages, tools and prompt, calls, /decide and
// /check, leases, /policies/explain, and the daemon (health, status, metrics, reload, stop,
// profiles). A new one is a route.Route in the function of its file that lists routes, a row in
// docs/http.md, and a run of make generate. An error code whose status is not 400 needs an entry in
// the table of json.go, unless the handler returns a route.Error, which has its status. This
// package decides nothing about calls; that is package pipeline.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/idspace"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Options say what the routes serve, and to whom.
type Options struct {
	Parts    []part.Part // their routes are served too
	Pipeline *pipeline.Pipeline
	Sessions *sessions.Store
	Tools    *catalog.Registry
	Hooks    *hooks.Registry
	Events   *events.Broker
	Metrics  http.Handler

	Callers
	Defaults

	// Redact removes secrets from the text of results that operators read.
	Redact func(string) string
	Pieces func() route.Pieces // does the same for output that comes in pieces
	// Admit admits or refuses a request after which the daemon keeps n bytes more. nil admits all.
	Admit     func(by route.Caller, n int64) error
	Daemon    Daemon
	Status    func() Status // returns the status of the daemon, for the configuration that is served
	StopGrace time.Duration // how long calls may still run when the daemon stops
	Log       *slog.Logger

	testOnlyTake      time.Duration // in place of takeTime
	testOnlyOpenFiles int           // in place of what this process may open
}

// Callers says who may connect, and how much each may ask for.
type Callers struct {
	// Peer returns who is at the other end of a connection. nil asks the kernel.
	Peer func(fd int) (idspace.Peer, error)
	// Account returns the account of a uid, and whether the uid may use the agent socket.
	Account func(uid int) (name string, ok bool)
	// Operators are the uids that may use the operator socket, beside root and the daemon's own.
	Operators      []int
	OperatorGroups []int         // their members may use it too
	Limits         budget.Limits // for agents; Limits.Connections follows from the open files
}

// Defaults says what new sessions have, and what an agent may ask for.
type Defaults struct {
	Settings   guard.Settings  // those of the configuration, for judging outside of any workspace
	Workspaces Workspaces      // where sessions may work
	Private    []string        // paths that no cage shows; clients that run a lease get them
	Mode       tool.Mode       // mode of new sessions
	MaxMode    tool.Mode       // the loosest mode that an agent may ask for
	Profile    sandbox.Profile // sandbox profile of new sessions
}

// Workspaces returns the directories in which agents may work.
type Workspaces interface {
	// Of returns the workspace of a directory. If the directory is in none, the error says how a person lets agents
	// work there.
	Of(dir string) (tool.Workspace, error)
	// Default returns where a session starts if its client names no directory.
	Default() (dir string, err error)
}

// Daemon does what operators may do with the daemon as a whole.
type Daemon interface {
	// Reload reads the configuration again. After an error, the old one stays in force. If the new policies let
	// calls pass that the old ones did not, loosen may be needed.
	Reload(ctx context.Context, by string, loosen bool) error
	// Config says which configuration is in force.
	Config() ConfigStatus
	// StopAll cancels every call, refuses every question and ends the daemon at once. It returns how many calls it
	// has cancelled.
	StopAll(ctx context.Context, by string) (int, error)
}

// Status is the answer to GET /status.
type Status struct {
	Version   string         `json:"version"`
	Uptime    int            `json:"uptime_seconds"`
	Config    ConfigStatus   `json:"config"`
	RoleSplit string         `json:"role_split"`  // "enforced" or "advisory"
	Rights    string         `json:"tool_rights"` // whose rights tools have: "caller" or "daemon"
	Sandbox   sandbox.Report `json:"sandbox"`
	Policy    PolicyStatus   `json:"policy"`
	Pending   int            `json:"approvals_pending"`
	Waits     int            `json:"approvals_timeout_seconds"` // how long a question waits for a person
	Roots     []string       `json:"workspace_roots"`
	Parts     map[string]any `json:"parts,omitempty"` // by name
}

// PolicyStatus says which policies are in force.
type PolicyStatus struct {
	Profile  policy.Profile  `json:"profile"`
	Revision string          `json:"revision"`
	Failure  *policy.Failure `json:"last_failure"`

	Shadow *policy.ShadowState `json:"shadow,omitempty"`
}

// ConfigStatus says which configuration is in force.
type ConfigStatus struct {
	File    string         `json:"file,omitempty"` // "" when only defaults hold
	Loaded  time.Time      `json:"loaded_at"`
	Failure *ReloadFailure `json:"last_failure,omitempty"` // set while the file cannot be loaded

	Loosens *policy.Loosening `json:"loosens,omitempty"` // what its policies let pass and the older ones did not

	// Lacking are ids of accounts, such as "uid 1002", that the daemon gets only when it starts again.
	Lacking     []string `json:"lacking,omitempty"`
	StartsAgain bool     `json:"starts_again,omitempty"` // no call runs, so the daemon starts again now
}

// ReloadFailure is a reload that did not take effect.
type ReloadFailure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// Server answers requests under one configuration. It is safe for concurrent use.
type Server struct {
	Options
	rules    *guard.Rules // made of Settings
	handlers map[tool.Role]http.Handler
}

// New returns a server for these options.
func New(o Options) *Server {
	s := &Server{Options: o, rules: guard.NewRules(o.Settings)}
	s.handlers = map[tool.Role]http.Handler{
		tool.RoleAgent: s.handler(tool.RoleAgent), tool.RoleOperator: s.handler(tool.RoleOperator),
	}
	return s
}

// routes lists every route.
func (s *Server) routes() []route.Route {
	all := slices.Concat(s.Events.Routes(), s.callRoutes(), s.leaseRoutes(), s.operatorRoutes(), s.policyRoutes(),
		s.profileRoutes(), s.sessionRoutes(), s.messageRoutes())
	for _, p := range s.Parts {
		all = append(all, p.Routes...)
	}
	return all
}

// handler serves all routes for one role, with the /v1 prefix and without.
func (s *Server) handler(role tool.Role) http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		h := s.wrap(r, role)
		method, path, _ := strings.Cut(r.Pattern, " ")
		mux.Handle(method+" "+path, h)
		mux.Handle(method+" /v1"+path, h)
	}
	metrics := s.wrap(route.Route{
		Role:   tool.RoleOperator,
		Handle: func(*http.Request) (any, error) { return route.Raw{Serve: s.Metrics}, nil },
	}, role)
	mux.Handle("GET /metrics", metrics)
	mux.Handle("GET /v1/metrics", metrics)
	mux.HandleFunc("/", notFound(mux))
	return http.NewCrossOriginProtection().Handler(mux)
}
