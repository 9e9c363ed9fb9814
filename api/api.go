// Package api serves the daemon over HTTP on its two Unix sockets.
//
// Requests are strict JSON: unknown and duplicate fields, wrong case and invalid
// UTF-8 are errors. A success is {"data": …}, a failure {"error": {code, message,
// hint?, details?}} with a stable code. A call that was judged is HTTP 200
// whatever its status; HTTP errors are for requests that are not calls.
//
//	s := api.New(api.Options{Pipeline: p, Sessions: sessions, …})
//	l, err := api.Listen(path)
//	err = api.NewFront(s).Serve(ctx, l, tool.RoleAgent)
//
// The socket a request came by is its role, and the uid of its peer its account:
// nothing in a request can change either, but that an operator may name the
// account to act for. This package decides nothing about calls; that is package
// pipeline.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/audit"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sessions"
	"github.com/sandboxd/sandboxd/tool"
	"github.com/sandboxd/sandboxd/vars"
)

// Options are what the routes serve.
type Options struct {
	Pipeline  *pipeline.Pipeline
	Sessions  *sessions.Store
	Tools     *tool.Registry
	Vars      *vars.System
	Approvals *approvals.Queue
	Policy    *policy.Engine
	Decisions *policy.Decisions
	Hooks     *hooks.Registry
	Record    *audit.Log
	Events    *Events
	Backend   sandbox.Backend
	Metrics   http.Handler
	Settings  sandbox.Settings

	Roots    []string // workspaces; the first is the default directory
	Private  []string // what no cage shows; who runs a held call is told
	Mode     string   // of new sessions
	MaxMode  string   // the loosest an agent may ask for
	Profile  string   // sandbox profile of new sessions
	Accounts map[int]string
	// Operators are the uids admitted on the operator socket, beside root and the
	// daemon's own.
	Operators      []int
	OperatorGroups []int // whose members are admitted there too
	AuditPath      string
	Limits         Limits        // of each account
	StopGrace      time.Duration // in which running calls may finish when the daemon stops
	Daemon         Daemon
	Version        string
	Started        time.Time
	RoleSplit      string // "enforced" or "advisory"
	Log            *slog.Logger
}

// Daemon is what operators may do to the whole.
type Daemon interface {
	// Reload reads the configuration again; on an error the old one stays in force.
	Reload(ctx context.Context, by string) error
	// Config says which configuration is in force.
	Config() ConfigStatus
	// StopAll cancels every call, refuses every question and ends the daemon, all
	// without a grace. It returns how many calls it cancelled.
	StopAll(ctx context.Context, by string) (int, error)
}

// ConfigStatus is the configuration in force.
type ConfigStatus struct {
	File    string         `json:"file,omitempty"` // "" when only defaults hold
	Loaded  time.Time      `json:"loaded_at"`
	Failure *ReloadFailure `json:"last_failure,omitempty"` // set while an older configuration holds than the file says
}

// ReloadFailure is a reload that did not take effect.
type ReloadFailure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// Server answers requests under one configuration. It is safe for concurrent use.
type Server struct {
	Options
	handlers map[tool.Role]http.Handler
}

// New returns a server over these parts.
func New(o Options) *Server {
	s := &Server{Options: o}
	s.handlers = map[tool.Role]http.Handler{
		tool.RoleAgent: s.Handler(tool.RoleAgent), tool.RoleOperator: s.Handler(tool.RoleOperator),
	}
	return s
}

// route is one line of the table of routes.
type route struct {
	pattern string // method and path
	role    tool.Role
	handle  func(*http.Request) (any, error)
}

func (s *Server) routes() []route {
	agent, operator := tool.RoleAgent, tool.RoleOperator
	return []route{
		{"GET /healthz", agent, s.health},
		{"GET /status", agent, s.status},
		{"POST /sessions", agent, s.createSession},
		{"GET /sessions", agent, s.listSessions},
		{"GET /sessions/{id}", agent, s.getSession},
		{"PATCH /sessions/{id}", agent, s.patchSession},
		{"DELETE /sessions/{id}", agent, s.deleteSession},
		{"GET /sessions/{id}/tools", agent, s.listTools},
		{"GET /sessions/{id}/prompt", agent, s.prompt},
		{"POST /sessions/{id}/hook-events", agent, s.hookEvent},
		{"PUT /sessions/{id}/groups/{name}", operator, s.enableGroup},
		{"PUT /sessions/{id}/tools/{name}", operator, s.enableTool},
		{"POST /sessions/{id}/calls", agent, s.call},
		{"GET /calls", agent, s.listCalls},
		{"GET /calls/{id}", agent, s.getCall},
		{"POST /calls/{id}/cancel", agent, s.cancelCall},
		{"POST /calls/{id}/run", agent, s.runHeld},
		{"POST /calls/{id}/ended", agent, s.heldEnded},
		{"POST /decide", agent, s.decide},
		{"POST /check", agent, s.check},
		{"GET /sessions/{id}/vars", agent, s.listVars},
		{"POST /sessions/{id}/vars/remove", agent, s.removeVars},
		{"GET /sessions/{id}/vars/{name}", agent, s.getVar},
		{"PUT /sessions/{id}/vars/{name}", agent, s.putVar},
		{"PATCH /sessions/{id}/vars/{name}", agent, s.patchVar},
		{"DELETE /sessions/{id}/vars/{name}", agent, s.deleteVar},
		{"GET /sessions/{id}/origins", agent, s.getOrigins},
		{"POST /sessions/{id}/origins/reset", operator, s.resetOrigins},
		{"POST /records", agent, s.record},
		{"GET /events", agent, s.events},
		{"GET /approvals", operator, s.listApprovals},
		{"GET /approvals/stream", operator, s.approvalStream},
		{"GET /approvals/{id}", operator, s.getApproval},
		{"POST /approvals/{id}", operator, s.answerApproval},
		{"GET /grants", operator, s.listGrants},
		{"DELETE /grants/{id}", operator, s.revokeGrant},
		{"GET /policies", operator, s.policies},
		{"POST /policies/reload", operator, s.reloadPolicies},
		{"POST /policies/explain", operator, s.explain},
		{"GET /decisions/{id}", operator, s.decision},
		{"GET /hooks", operator, s.listHooks},
		{"POST /hooks/test", operator, s.testHooks},
		{"GET /audit", operator, s.auditTail},
		{"POST /reload", operator, s.reload},
		{"POST /stop-all", operator, s.stopAll},
	}
}

// Handler serves all routes for one role, with the /v1 prefix and without.
func (s *Server) Handler(role tool.Role) http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		h := s.wrap(r, role)
		method, path, _ := strings.Cut(r.pattern, " ")
		mux.Handle(method+" "+path, h)
		mux.Handle(method+" /v1"+path, h)
	}
	metrics := s.wrap(route{role: tool.RoleOperator}, role)
	if role == tool.RoleOperator {
		metrics = s.Metrics
	}
	mux.Handle("GET /metrics", metrics)
	mux.Handle("GET /v1/metrics", metrics)
	mux.HandleFunc("/", notFound(mux))
	return http.NewCrossOriginProtection().Handler(mux)
}
