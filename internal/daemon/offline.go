package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// OfflineOptions say what only a daemon and its clients could know.
type OfflineOptions struct {
	Dir      string // of the sessions, in a workspace; "" is the first workspace
	Home     string // of the caller; "" is that of this user
	Confined *bool  // whether programs run confined; nil asks this host
	// Policies are directories to try beside those of the configuration. They may lie where agents can write; a
	// daemon would refuse to serve such.
	Policies []string
}

// Offline judges a call as a daemon with this configuration would judge the first call of a new session, on the same
// request path. It runs no tool, hook or callback, and keeps nothing. One goroutine at a time may use it.
type Offline struct {
	parts   *components
	line    *pipeline.Pipeline
	session tool.Session // that of every call, with its own id and mode
	said    *stated
	note    string
	close   func()
}

// Offline opens the request path of the configuration for judging alone. The caller closes it.
func (s *Site) Offline(ctx context.Context, o OfflineOptions) (*Offline, error) {
	home := cmp.Or(o.Home, api.HomeOf(os.Getuid()))
	h, cfg := *s, *s.Config
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if err := h.here(cmp.Or(o.Dir, dir)); err != nil {
		return nil, err
	}
	h.projects = projects.Fixed(h.workspace())
	if dir, err = h.projects.Default(); err != nil {
		return nil, err
	}
	dir, err = api.Directory(guard.NewRules(h.Settings), h.projects, cmp.Or(o.Dir, dir), home)
	if err != nil {
		return nil, err
	}
	account, _ := s.Config.Accounts.Of(os.Getuid(), os.Geteuid()) // as for a daemon of this user
	cfg.Hooks, cfg.Policy.CanUseTool = nil, config.CanUseTool{}
	cfg.Policy.Dirs = slices.Concat(cfg.Policy.Dirs, o.Policies)
	h.Config = &cfg
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, schemas(s.features)...)
	if err != nil {
		return nil, err
	}
	said := &stated{sessions: map[string]policy.Example{}}
	p, err := h.build(ctx, db, newJudging(&h, o.Confined), said, nil)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	p.join(p.vars.Part(part.Host{}), p.sessionTools(), s.describedTools())
	x := &Offline{
		parts: p, said: said, note: s.notAsked(),
		session: tool.Session{
			Account: account, Dir: dir, Home: home, Mode: cfg.Sessions.Mode, Profile: cfg.Profile,
		},
		close: func() { db.Close() }, // it is in memory
	}
	said.Vars = p.vars
	stages := p.stages(nil, noRecord{})
	stages.Vars = said
	x.line = pipeline.New(stages)
	return x, nil
}

// Close releases what Offline opened.
func (x *Offline) Close() { x.close() }

// Explain says how the call would be judged, and why.
func (x *Offline) Explain(ctx context.Context, e policy.Example, nearest bool) (policy.Explanation, error) {
	req, err := x.request(ctx, e)
	if err != nil {
		return policy.Explanation{}, err
	}
	x.said.assumed = false
	got, err := api.Explain(ctx, x.line, req, nearest)
	notes := []string{got.Note, x.note}
	if x.said.assumed {
		notes = append(notes, "a rule counts calls, and none was counted before this one; recent says what was")
	}
	notes = slices.DeleteFunc(notes, func(s string) bool { return s == "" })
	got.Note = strings.Join(notes, "; ")
	return got, err
}

// Connection says how the daemon would decide if a call connected, and which setting names the host, if one does.
func (x *Offline) Connection(ctx context.Context, e policy.Example, conn egress.Connection) (
	d tool.Decision, at string, err error,
) {
	req, err := x.request(ctx, e)
	if err != nil {
		return d, "", err
	}
	if addr, ok := x.parts.Settings.Network.Address(conn.Host, conn.Port); ok {
		at = addr.String()
	}
	d, err = x.line.ExplainConnection(ctx, req, conn)
	return d, at, err
}

// Judge returns a function that judges one call each time it is called. What comes before the facts is done once.
func (x *Offline) Judge(ctx context.Context, e policy.Example) (func() error, error) {
	req, err := x.request(ctx, e)
	if err != nil {
		return nil, err
	}
	c := x.line.Decide(ctx, req)
	if c.Tool == nil {
		return nil, c.Result.Error
	}
	return func() error {
		_, err := x.line.Rejudge(ctx, c, c.In.Args, c.Session.Mode)
		return err
	}, nil
}

// request makes the session and the request of the call.
func (x *Offline) request(ctx context.Context, e policy.Example) (tool.Request, error) {
	if e.Connection != nil || e.Changes != nil {
		return tool.Request{}, errors.New("connections and changes are judged when their call has begun, and this " +
			"judges what has not: leave connection and changes out")
	}
	want := x.session
	want.Mode = cmp.Or(e.Mode, want.Mode)
	s, err := x.parts.sessions.Create(ctx, want)
	if err != nil {
		return tool.Request{}, err
	}
	x.said.sessions[s.ID] = e
	return tool.Request{
		Account: s.Account, Role: tool.RoleAgent, User: sandbox.Daemon(), Session: s.ID, Tool: e.Tool, Args: e.Args,
	}, nil
}

// facts returns those that examples of policies may use: every tool of the configuration is on. No tool runs, so the
// tools of parts need no daemon.
func facts(c *config.Config, features []part.Definition) policy.Facts {
	tools := catalog.NewRegistry(config.BuiltIn(features...)...)
	tools.SetDefaults(catalog.Defaults{AllGroups: true})
	custom, err := customTools(c)
	tools.Register(custom)
	path := pipeline.Options{Tools: tools, Workspaces: tool.Workspace{Settings: c.Sandbox}}
	return func(ctx context.Context, call *tool.Call) error {
		if err != nil {
			return err
		}
		return path.Facts(ctx, call)
	}
}

// describedTools returns the tools of parts that only a daemon opens. They say what a call would touch. They cannot
// run.
func (s *Site) describedTools() part.Part {
	all := part.Part{Groups: []catalog.Group{{Name: config.PeopleGroup, Tools: approvals.Tools(nil)}}}
	for _, f := range s.features {
		said := f.Described(s.Config.Parts[f.Name])
		all.Groups, all.Inject = append(all.Groups, said.Groups...), append(all.Inject, said.Inject...)
	}
	return all
}

// notAsked names the programs and people that a daemon would ask and that are not asked here.
func (s *Site) notAsked() string {
	var names []string
	if len(s.Config.Hooks) > 0 {
		names = append(names, "hooks")
	}
	if u := s.Config.Policy.CanUseTool; len(u.Command) > 0 || u.Webhook != "" {
		names = append(names, "policy.canUseTool")
	}
	if names == nil {
		return ""
	}
	return strings.Join(names, " and ") + " of the configuration were not asked; with --live the daemon asks them"
}

// stated answers with what the example states of its session: who wrote the text that the model has read, and what
// was counted before.
type stated struct {
	pipeline.Vars
	sessions map[string]policy.Example // by id
	assumed  bool                      // a rule counts, and nothing was said
}

// Resolve adds the authors that the example states.
func (s *stated) Resolve(ctx context.Context, session string, args json.RawMessage) (
	json.RawMessage, tool.Origins, error,
) {
	args, from, err := s.Vars.Resolve(ctx, session, args)
	for _, o := range s.sessions[session].Origins {
		if !slices.Contains(from.Session, o) {
			from.Session = append(from.Session, o)
		}
	}
	return args, from, err
}

// Judge hands on the counts that the example states, and counts nothing itself.
func (s *stated) Judge(c *tool.Call, judge func(before func() *input.Recent) []string) {
	judge(func() *input.Recent {
		if r := s.sessions[c.Session.ID].Recent; r != nil {
			return r
		}
		s.assumed = true
		return new(input.Recent)
	})
}

// End counts nothing.
func (*stated) End(*tool.Call) {}

// noRecord is the record of calls that are only judged.
type noRecord struct{}

func (noRecord) Begin(context.Context, *tool.Call) error {
	return errors.New("this call is only judged")
}
func (noRecord) End(context.Context, *tool.Call) error { return nil }

// judging is a cage for judging alone: it says what holds, opens nothing and starts
// nothing.
type judging struct{ probe func() sandbox.Report }

// newJudging asks this host what holds, or takes it as said.
func newJudging(s *Site, confined *bool) judging {
	if confined == nil {
		return judging{sync.OnceValue(s.probe)}
	}
	var r sandbox.Report
	if *confined {
		r = sandbox.Report{Isolation: "namespaces", Layers: guard.Layers}
	}
	return judging{func() sandbox.Report { return r }}
}

// probe asks this host what holds. It starts a launcher and no program.
func (s *Site) probe() sandbox.Report {
	backend, err := s.Backend("")
	if err != nil {
		return sandbox.Report{Missing: []string{"netns: " + err.Error()}}
	}
	defer backend.Close()
	return backend.Probe()
}

func (j judging) Probe() sandbox.Report { return j.probe() }
func (judging) Forget(string) error     { return nil }
func (judging) Binds() error            { return nil }
func (judging) Close() error            { return nil }

func (j judging) Box(_ context.Context, _ string, profile sandbox.Profile, s guard.Settings) (sandbox.Box, error) {
	r := j.Probe()
	r.Profile = profile
	return closedBox{r}, r.Require(s)
}

// closedBox is a box in which nothing runs: it stands for the sandbox where calls are only judged.
type closedBox struct{ report sandbox.Report }

var errJudging = errors.New("this call is only judged")

func (closedBox) Open(context.Context, guard.PathUse, int) (*os.File, error) { return nil, errJudging }

func (closedBox) Start(context.Context, sandbox.Spec) (sandbox.Proc, error) { return nil, errJudging }

func (b closedBox) Judged(egress.Judge) sandbox.Box { return b }
func (closedBox) Ledger() egress.Ledger             { return egress.Ledger{} }

func (closedBox) Dial(context.Context, egress.Connection) (net.Conn, error) { return nil, errJudging }
func (closedBox) LookPath(string) (string, []string)                        { return "", nil }
func (b closedBox) As(sandbox.User) sandbox.Box                             { return b }
func (closedBox) Do(guard.PathUse, func() error) error                      { return errJudging }
func (b closedBox) Report() sandbox.Report                                  { return b.report }
func (closedBox) Close() error                                              { return nil }
