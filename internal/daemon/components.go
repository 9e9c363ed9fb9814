package daemon

import (
	"context"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools"
	"github.com/sandboxd/sandboxd/internal/vars"
	"github.com/sandboxd/sandboxd/metrics"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// components are the stages, built over one database.
type components struct {
	*Site
	extra    []catalog.Group
	backend  sandbox.Backend
	sessions *sessions.Store
	vars     *vars.System
	tools    *catalog.Registry
	policy   *policy.Engine

	decisions *policy.Decisions // nil outside the daemon
	journal   pipeline.Journal  // likewise
	shadow    shadow

	testOnlyCompare time.Duration // in place of compareTime

	counts   counts
	hooks    *hooks.Registry
	jobs     tool.Jobs     // nil outside the daemon
	taskJobs part.TaskJobs // likewise
	teams    part.Teams    // likewise
	paces    *egress.Paces
	redactor *audit.Redactor
	meter    meter
	notify   func(session string, n hooks.Notification) // nil outside the daemon

	connected func(*tool.Call, egress.Connection, egress.Verdict) // likewise
	changed   func()                                              // likewise: called after the policies were reloaded
}

// outsidePart is the part of limits.agentBytes that one scope may keep as text from outside, for comparison with later
// arguments. This memory is beside the budget. All sessions together have an index of half as much again, at three
// bytes for each byte of text.
const outsidePart = 16

// build makes the stages of every request path. Extra groups of tools come after the built-in ones. If build fails,
// it closes the backend.
func (s *Site) build(ctx context.Context, db *store.DB, backend sandbox.Backend, counts counts,
	beside *policy.Shadow, extra ...catalog.Group,
) (_ *components, err error) {
	p := &components{
		Site: s, extra: extra, redactor: audit.NewRedactor(audit.EnvSecrets(os.Environ())...),
		meter: unmetered{}, backend: backend, counts: counts, shadow: shadow{judge: beside},
	}
	// Probe the host while the policies compile: both take a while.
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		p.backend.Probe()
	}()
	defer func() {
		if err != nil {
			<-probed
			p.backend.Close()
		}
	}()
	p.vars = vars.New(db, vars.Options{
		Capacity: s.Config.Vars.Capacity, Nested: vars.Nested(s.Config.Vars.Nested), MaxValue: s.Config.Vars.MaxValue,
		MaxOutside: int(s.Config.Limits.AgentBytes / outsidePart), Root: s.rootOf, Redact: p.redactor.String,
		Room: s.disk.Room, Log: s.log,
	})
	if err := p.vars.Declare(s.Config.Tools.Declared()...); err != nil {
		return nil, err
	}
	pace := s.Config.Limits.AccountNetwork
	p.paces = egress.NewPaces(pace.ConnectionsPerSecond, pace.BytesPerSecond)
	p.sessions = sessions.New(db, sessions.Options{
		PerAccount: s.Config.Sessions.PerAccount, Transcripts: s.transcripts, Local: s.local,
	})
	o := p.hookOptions()
	o.DB = db
	if p.hooks, err = hooks.New(o); err != nil {
		return nil, err
	}
	return p, p.configure(ctx)
}

// renew returns the components for another configuration. It keeps what holds the state of sessions: the database,
// the variables, the cage, and what hooks said.
func (p *components) renew(ctx context.Context, h *Site) (*components, error) {
	n := *p
	n.Site = h
	var err error
	if n.hooks, err = p.hooks.Next(n.hookOptions()); err != nil {
		return nil, err
	}
	return &n, n.configure(ctx)
}

// configure builds the components that have no state of their own.
func (p *components) configure(ctx context.Context) error {
	groups, err := p.groups()
	if err != nil {
		return err
	}
	p.tools = catalog.NewRegistry()
	p.tools.Restrict(p.Config.Tools.Allowed, p.Config.Tools.Denied)
	own := p.Config.Tools
	p.tools.SetDefaults(catalog.Defaults{AllGroups: own.AllGroups, Groups: own.Enabled(), Tools: own.Tools})
	p.tools.SetPermissions(own.Permissions)
	p.tools.SetDeferred(tools.ToolSearch{}.Spec().Name, own.Deferred...)
	p.register(groups...)
	opts := p.PolicyOptions()
	opts.CanUseTool, opts.Recent, opts.Shadow = p.canUseTool(), p.counts, p.shadow.judge
	opts.Compare = p.compare
	opts.Reloaded = func(err error) {
		p.meter.Reloaded(err)
		p.meter.SetRules(p.ruleIDs())
		if p.changed != nil {
			p.changed()
		}
	}
	if p.policy, err = policy.New(ctx, opts); err != nil {
		return err
	}
	p.shadow.load(ctx, p)
	return nil
}

// join adds the tools of parts, and the functions that parts call when a session is made or deleted.
func (p *components) join(parts ...part.Part) {
	for _, x := range parts {
		p.register(x.Groups...)
		p.tools.Inject(x.Inject...)
	}
	p.sessions.Attach(parts...)
}

// joinAlone adds the parts that one command without a daemon has.
func (p *components) joinAlone() { p.join(p.vars.Part(part.Host{}), p.sessionTools()) }

// sessionTools returns the tools that work on the state of a session, and the operator's own groups.
func (p *components) sessionTools() part.Part {
	own := p.Config.OwnGroups()
	return part.Part{Groups: append([]catalog.Group{tools.SessionGroup(p.sessions, p.tools)}, own...)}
}

// register adds groups of tools, each with the prompt and the rules that the configuration adds to it.
func (p *components) register(groups ...catalog.Group) {
	for _, g := range groups {
		p.tools.Register(p.Config.Tools.Extend(g))
	}
}

// canUseTool returns the callback that the configuration names. If there is none, it returns nil, which has no
// opinion.
func (p *components) canUseTool() callback.CanUseTool {
	u := p.Config.Policy.CanUseTool
	switch {
	case len(u.Command) > 0:
		return callback.Command(u.Timeout, func(ctx context.Context, stdin []byte) ([]byte, error) {
			return p.hooks.Program(ctx, u.Command, stdin)
		})
	case u.Webhook != "":
		return callback.Webhook(u.Webhook, u.Timeout)
	}
	return nil
}

func (p *components) groups() ([]catalog.Group, error) {
	custom, err := customTools(p.Config)
	return append(append(tools.Groups(), p.extra...), custom), err
}

// customTools returns the tools that the operator has declared.
func customTools(c *config.Config) (catalog.Group, error) {
	custom := catalog.Group{Name: config.CustomGroup}
	for _, c := range c.Tools.Custom {
		t, err := tools.NewCustom(c.Custom)
		if err != nil {
			return custom, err
		}
		custom.Tools = append(custom.Tools, t)
	}
	return custom, nil
}

func (p *components) hookOptions() hooks.Options {
	box := func(ctx context.Context) (sandbox.Box, error) {
		return p.backend.Box(ctx, "/hooks", p.Config.Profile, p.Settings) // no session has a slash in its id
	}
	return hooks.Options{
		Child: ChildPath(), Hooks: p.Config.Hooks, Writable: p.Roots, Box: box, Observe: p.observe,
		Notify: func(session string, n hooks.Notification) {
			if p.notify != nil {
				p.notify(session, n)
			}
		},
	}
}

func (p *components) observe(r hooks.Run) {
	if !r.Skipped {
		p.meter.Hook(r.Name, r.Duration)
	}
	if r.Err != "" {
		p.log.Warn("hook failed", "hook", r.Name, "event", r.Event, "onError", r.OnError,
			"error", r.Err[:min(len(r.Err), 500)])
	}
}

// describe tells the metrics which labels may occur: the names of tools, rules and hooks.
func (p *components) describe(set *metrics.Set) {
	var names, hookNames []string
	for _, g := range p.tools.Groups() {
		for _, t := range g.Tools {
			names = append(names, t.Spec().Name)
		}
	}
	for _, h := range p.hooks.List() {
		hookNames = append(hookNames, h.Name)
	}
	set.SetTools(names)
	set.SetRules(p.ruleIDs())
	set.SetHooks(hookNames)
	set.Sandbox(p.backend.Probe())
	set.Reloaded(nil)
}

func (p *components) ruleIDs() []string {
	var ids []string
	for _, r := range p.policy.Status().Rules {
		ids = append(ids, r.ID)
	}
	return ids
}

func (p *components) pipeline(people pipeline.Approvals, record pipeline.Record) *pipeline.Pipeline {
	return pipeline.New(p.stages(people, record))
}

// counts is told of calls, for the rules that count them.
type counts interface {
	policy.Counts
	End(c *tool.Call)
}

// kept returns the stage that keeps decisions. Without one it returns a nil interface, because an interface that
// holds a nil pointer would count as a stage.
func (p *components) kept() pipeline.Decisions {
	if p.decisions == nil {
		return nil
	}
	return keptAndCounted{p.decisions, p.counts, p.shadow.judge}
}

// keptAndCounted keeps decisions and also counts how calls ended.
type keptAndCounted struct {
	*policy.Decisions
	counts counts
	shadow *policy.Shadow
}

// Judged keeps and counts a call that has ended.
func (k keptAndCounted) Judged(ctx context.Context, c *tool.Call) {
	k.counts.End(c)
	k.shadow.Ended(c)
	k.Decisions.Judged(ctx, c)
}

func (p *components) stages(people pipeline.Approvals, record pipeline.Record) pipeline.Options {
	return pipeline.Options{
		Sessions: sessions.Runs{Store: p.sessions}, Tools: p.tools, Vars: p.vars, Hooks: hookStage{p.hooks},
		Policy:    p.policy,
		Approvals: people, Record: record, Decisions: p.kept(), Journal: p.journal, Meter: p.meter,
		Backend: p.backend, Jobs: p.jobs, Workspaces: p.workspaces(), DiskRoom: p.room, Log: p.log,
		Own: p.Config.Metrics.Serves, Paces: p.paces, Connected: p.connected,
		Undoable: p.Config.Policy.Undoable == config.UndoableAllow,
	}
}

func (p *components) auditOptions() audit.Options {
	o := p.Site.AuditOptions()
	o.Redactor = p.redactor
	return o
}

// hookStage gives the request path the registry of hooks.
type hookStage struct{ *hooks.Registry }

func (h hookStage) Posts() bool {
	return h.Has(hooks.PostToolUse) || h.Has(hooks.PostToolUseFailure)
}

// meter counts what happens in the stages that the daemon and sandboxd exec share.
type meter interface {
	pipeline.Meter
	Hook(name string, d time.Duration)
	Reloaded(err error)    // after each reload of the policies
	SetRules(ids []string) // all rules after a reload
}

// unmetered counts nothing: nobody scrapes a single sandboxd exec.
type unmetered struct{}

func (unmetered) Stage(string, time.Duration) {}
func (unmetered) Done(*tool.Call)             {}
func (unmetered) Hook(string, time.Duration)  {}
func (unmetered) Reloaded(error)              {}
func (unmetered) SetRules([]string)           {}
