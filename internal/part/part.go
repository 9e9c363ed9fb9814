// Package part is the form in which a stateful feature joins the daemon.
//
// A feature is one package and one element of the daemon's list. Its [Definition] says
// what must be known before anything is opened: its name, its tables and its section
// of the configuration. Open then makes the [Part]: tools, routes, what happens in the
// life of a session, a reload, metrics, status, Close.
//
//	part.Definition{
//		Name:   "notes",
//		Schema: store.Embedded("notes", migrations),
//		Config: func() part.Config { return &Config{Max: 100} },
//		Open:   Open,
//	}
//
// Name and Open are required. A part with tool groups, routes or types of the API needs
// Describe too, because the documents and the checks of the configuration are made without
// a daemon. Parts do not import each other, and no stage imports a feature. The list is in
// internal/daemon/parts.go. The daemon opens parts in the order of that list and closes them in the
// opposite one; Host.TaskJobs and Host.Teams are what earlier parts have brought. The
// stages of the request path that have routes or metrics join as a [Part], too.
//
// The daemon calls Open once, then Serve, and Close when Serve and all calls have ended. If the
// start fails after Open, it calls Close without Serve. The other functions of a Part are called
// between Open and Close, by several goroutines at once; those that measure what is kept also
// during Close and after it.
//
// Open may use DB, Local, Dir, Free, Config, Sessions, Used, Record, Events, TaskJobs, Teams,
// Socket, Redact, Pieces and Log of its [Host]. The request path and the sockets begin after it:
// everything else in Host is for Serve, for routes and for tools.
//
// A [Config] with directories that no agent may write, with files that no call may see, or with programs also
// implements [Trusting], [Hiding] or [Running]. A new field of [Host] is filled in by the daemon
// (internal/daemon/parts.go) and tested in parts_test.go there.
package part

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"net/http"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Definition is what is known of a part before anything is opened.
type Definition struct {
	Name   string                                    // lower case; also the key of its section in the configuration
	Schema store.Schema                              // its tables; the zero value has none
	Config func() Config                             // a pointer to the defaults of its section; nil has no section
	Open   func(context.Context, Host) (Part, error) // an error keeps the daemon from starting
	// Describe returns the part with nothing behind it but its section: its groups, routes and shared
	// types, for documents and for the check of the configuration. It may name methods, but must read no
	// field that Open fills. Of its tools, only what describes them is called, and Uses.
	Describe func(Config) Part
	// Deferred are tools that a model is shown only after it looked for them, unless the
	// configuration says otherwise.
	Deferred []string
	// Doctor says what holds on this host, for sandboxd doctor; no daemon is needed.
	Doctor func(context.Context, Config) []Finding
}

// Described returns the part with nothing behind it but a section, the defaults if that is nil.
func (d Definition) Described(c Config) Part {
	switch {
	case d.Describe == nil:
		return Part{}
	case c == nil && d.Config != nil:
		c = d.Config()
	}
	return d.Describe(c)
}

// Config is a section of the configuration file. It is decoded with the yaml tags of
// the struct that it points to; keys that the struct does not have are errors.
type Config interface {
	// Check refuses values that cannot be served. It changes nothing on the machine.
	Check() error
}

// Trusting is a Config with directories of the user, in which no agent may write: what is read there
// is taken for the user's.
type Trusting interface {
	Config
	Trusts() map[string][]string // by key of its section
}

// Hiding is a Config with files that no call may see.
type Hiding interface {
	Config
	Hides() []string
}

// Running is a Config with programs of the operator's that the daemon runs outside of the sandbox.
type Running interface {
	Config
	Programs() map[string][]string // by key of its section, with their arguments
}

// Host is what the daemon gives a part. It outlives the part.
type Host struct {
	DB *store.DB // with the tables of the part: the one that daemons share, if it has tables there
	// Local is the daemon's own, which may be the same.
	Local *store.DB
	Dir   string // for files of the part, which makes it; no program in a sandbox sees it
	// Free is how many bytes are free there, above what is kept for the record.
	Free     func() int64
	Config   Config // of the part, checked; nil without a section
	Sessions Sessions
	// Used notes that a session is used by something that is no call and does not change its row.
	Used   func(session string)
	Record func(context.Context, tool.Note) error // no record, no change
	Events *events.Broker
	Do     func(context.Context, tool.Request) tool.Result // the whole request path
	// Admit takes a place in the budget of an account, for work that no request of it brought. The context has it.
	Admit func(ctx context.Context, account string) (admitted context.Context, release func(), err error)
	// TaskJobs are calls that go on, as far as the tools of tasks take their ids too.
	TaskJobs TaskJobs
	// Hooked reports whether an event has hooks, and Fire runs them.
	Hooked func(Event) bool
	Fire   func(context.Context, Happening) (tool.Advice, error)
	// RunAgent runs a program of the operator's as an agent. What it says on stderr is for the log.
	RunAgent func(context.Context, tool.AgentProgram) (stdout []byte, stderr string, err error)
	Teams    Teams
	Socket   string // where agents call the daemon
	// NewSession makes a session, below its parent if it names one. Model is the one that the transcript
	// of a session names.
	NewSession func(context.Context, tool.Session) (tool.Session, error)
	Model      func(session string) string
	// Heard are the authors of what the model of a session was shown.
	Heard func(ctx context.Context, session string) ([]tool.Origin, error)
	// Tools are those that a session has on and its skills let be called.
	Tools func(tool.Session) []tool.Tool
	// Busy are the sessions of an account in which a call runs.
	Busy func(account string) map[string]bool
	// Companions make the cages of programs that the part keeps for sessions beside their calls.
	Companions Companions
	// Account is the account of a uid now; false if it is not let in.
	Account func(uid int) (string, bool)
	// Roots are the directories that sessions may write.
	Roots func() []string
	// Known reports whether a tool of any session, or of clients, has a name, in any case.
	Known  func(name string) bool
	Redact func(string) string
	Pieces func() route.Pieces // redacts a text that comes in pieces
	// Operators serves the routes of operators to somebody whom the part has let in on a listener of
	// its own.
	Operators func(route.Caller) http.Handler
	// ServeAgents serves the routes of agents on a listener of the part until the context ends.
	ServeAgents func(context.Context, net.Listener, route.LetIn) error
	Log         *slog.Logger
}

// Sessions finds the session of an account. The error of one that there is not, or
// that is of another account, is session_not_found.
type Sessions interface {
	Session(ctx context.Context, account, id string) (tool.Session, error)
	// Patch changes a session in one step; an error of change leaves it as it is.
	Patch(ctx context.Context, account, id string, change func(*tool.Session) error) (tool.Session, error)
	// All are those of an account, each after its parent.
	All(ctx context.Context, account string) ([]tool.Session, error)
}

// Event is a moment that a part sees, by the name that hooks have for it.
type Event string

// The events that parts see.
const (
	TaskCreated   Event = "taskCreated"
	TaskCompleted Event = "taskCompleted"
	SubagentStart Event = "subagentStart"
	SubagentStop  Event = "subagentStop"
	TeammateIdle  Event = "teammateIdle"

	WorktreeCreate Event = "worktreeCreate"
	WorktreeRemove Event = "worktreeRemove"
)

// Happening is an event, for hooks.
type Happening struct {
	Event   Event
	Session tool.Session // where it happened
	Task    string       // id
	Subject string       // of the task
	Agent   tool.Session // of an agent that another one started
	Team    string       // name
	Path    string       // of a worktree
}

// Teams are the teams of trees of agents, for the tool that starts agents.
type Teams interface {
	// Join makes an agent a member of the active team with a name, of the tree of a session, if it is
	// none. Without an agent it only says whether there is that team.
	Join(ctx context.Context, s tool.Session, team, agent string) error
	// Of are the names of the active teams that the agent of a session is in.
	Of(ctx context.Context, s tool.Session) ([]string, error)
}

// TaskJobs are the jobs of the session of a call, for tools that take the ids of tasks and of jobs.
type TaskJobs interface {
	Output(context.Context, tool.In) (tool.Output, error)
	Stop(context.Context, tool.In) (tool.Output, error)
	// List is the jobs, and a line for each.
	List(tool.In) (jobs any, lines []string)
}

// Companions make the cages of companions.
type Companions interface {
	// Box returns the box of a companion, and its settings. Connections are judged by them and by the rules in force.
	Box(context.Context, tool.Session, tool.Companion) (sandbox.Box, guard.Settings, error)
	// Settings are those that it would have now.
	Settings(tool.Session, tool.Companion) (guard.Settings, error)
	// Forget ends what runs in its cage, and removes its private files.
	Forget(session string, c tool.Companion) error
}

// Part is a feature that is open.
type Part struct {
	Groups []catalog.Group // of tools
	Inject []tool.Tool     // tools of every session that has any other (V-18)
	Routes []route.Route
	// Jobs keeps calls that go on when they have been answered; one part has it.
	Jobs tool.Jobs
	// TaskJobs is the same for the tools of tasks, of a part that is opened later.
	TaskJobs TaskJobs
	// Teams likewise, for the part that starts agents.
	Teams Teams
	// Shared are the types that the OpenAPI document holds once, by their name there.
	Shared map[string]any

	// Created, Deleted and Forked run in the transaction that makes or deletes a session; an
	// error undoes it.
	Created func(tx *sql.Tx, s tool.Session) error
	Deleted func(tx *sql.Tx, session string) error
	// Opened hears that somebody made a session over HTTP, outside the transaction. It must not block.
	Opened func(tool.Session, route.Caller)
	// Abandoned runs before Deleted when a session is deleted because nobody used it for long: it
	// ends what a client that has gone left open.
	Abandoned func(tx *sql.Tx, session string) error
	// Own: the part keeps what it has of sessions for its daemon alone. Where daemons share the database
	// of sessions, Created, Deleted and Forked get a transaction of the daemon's own, after that one, and
	// with Forget they run too when another daemon deleted the session.
	Own bool
	// Forked runs after Created of a session that is made from another one of the account.
	Forked func(tx *sql.Tx, from, to string) error
	// Forget ends what runs outside the database for a session that was deleted. It
	// runs after the transaction, before the answer; an error is the answer.
	Forget func(context.Context, tool.Session) error
	// Ended hears of every call when its end is recorded. It must not block.
	Ended func(*tool.Call)
	// Kept is how many bytes of files the part keeps for each session; limits.accountDisk bounds
	// them with what else the session keeps.
	Kept func() map[string]int64
	// KeptBy is how many bytes it keeps for each account that are of no session.
	KeptBy func() map[string]int64
	// Journal keeps what calls change; one part at most brings one.
	Journal Journal

	// Reload puts another configuration in force, checked. It is called only when
	// everything else of the new configuration can be used. A part without it needs a
	// restart when its section changes.
	Reload func(context.Context, Config)
	// Serve runs while the daemon answers, until the context ends; an error ends the daemon.
	Serve func(context.Context) error
	// Metrics are read at every scrape.
	Metrics []Gauge
	// Status is what GET /status says of the part, below parts and its name; nil says nothing.
	Status func() any
	Close  func() error
}

// Journal keeps what calls change. The request path calls Keep before a tool runs, which gets
// the context that it returns, or does not run; and Collect after it, whatever came of it.
type Journal interface {
	Keep(ctx context.Context, c *tool.Call) (context.Context, error)
	// Collect gets that context too. It fills c.Changes.
	Collect(ctx context.Context, c *tool.Call) error
	// Whole says why not everything that the call may change or delete is kept as it is now; "" if it is.
	Whole(ctx context.Context, c *tool.Call) (why string)
}

// Gauge is one number. Its name is shown below sandboxd_ and follows the rules of
// Prometheus.
type Gauge struct {
	Name, Help string
	Value      func() float64
}

// Finding is one row of the doctor.
type Finding struct {
	What string // "the index of notes"
	OK   bool
	Why  string // what was seen, and what to do
}

// Session returns the session that a route names by {id}, of the caller's account.
func (h Host) Session(r *http.Request) (tool.Session, error) {
	return h.Sessions.Session(r.Context(), route.CallerOf(r).Account, r.PathValue("id"))
}
