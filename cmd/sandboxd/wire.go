package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/audit"
	"github.com/sandboxd/sandboxd/config"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/metrics"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sessions"
	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/tool"
	"github.com/sandboxd/sandboxd/tools"
	"github.com/sandboxd/sandboxd/vars"
)

// house is what is known before anything is opened: the configuration and the
// places.
type house struct {
	cfg      *config.Config
	flags    map[string]string // of the command line; a reload keeps them
	paths    config.Paths
	roots    []string // workspaces, physical
	home     string
	settings sandbox.Settings
	log      *slog.Logger
}

// loadHouse reads the configuration; flags, by key, are over everything else.
func loadHouse(flags map[string]string) (*house, error) {
	cfg, err := loadConfig("", flags)
	if err != nil {
		return nil, err
	}
	log, err := newLog(cfg.Log.Level, os.Stderr)
	if err != nil {
		return nil, err
	}
	return &house{
		cfg: cfg, flags: flags, paths: cfg.Paths, roots: cfg.Workspace.Roots, home: cfg.Home, settings: cfg.Sandbox, log: log,
	}, nil
}

// applyExec puts the options of one exec over the configuration.
func (h *house) applyExec(o execOptions) error {
	if o.profile != "" {
		h.cfg.Profile = o.profile
	}
	if o.mode != "" {
		if !policy.ValidMode(o.mode) {
			return &tool.Error{Msg: "unknown mode " + o.mode}
		}
		h.cfg.Sessions.Mode = o.mode
	}
	execOutput(&h.settings)
	if o.settings == "" {
		return nil
	}
	doc, err := os.ReadFile(o.settings)
	if err != nil {
		return err
	}
	if h.settings, err = h.settings.Merge(doc); err != nil {
		return err
	}
	h.settings, _, err = h.settings.Normalise()
	return err
}

// makeState makes the state directory, for this user alone.
func (h *house) makeState() error { return os.MkdirAll(h.paths.StateDir, 0o700) }

// roleSplit says whether the operator socket is out of reach for the agent's uid.
func (h *house) roleSplit() string {
	if len(h.cfg.Accounts) > 0 {
		if _, own := h.cfg.Accounts[os.Getuid()]; !own {
			return "enforced"
		}
	}
	return "advisory"
}

func (h *house) approvalTimeout() time.Duration { return h.cfg.Approvals.Timeout }

// private is what no tool may see: the daemon's own places.
func (h *house) private() []string { return h.cfg.Private() }

// backend is the cage; runtime is where it keeps the private files of sessions, ""
// a directory that goes with the process.
func (h *house) backend(runtime string) (sandbox.Backend, error) {
	return sandbox.NewBackend(sandbox.Options{
		Child: childPath(), Runtime: runtime, Private: h.private(), Roots: h.roots, Home: h.home,
	})
}

// childPath is the small launcher beside this binary; without it this binary
// starts itself as the launcher.
func childPath() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	for _, p := range []string{filepath.Join(filepath.Dir(exe), "sandboxd-child"), "/usr/libexec/sandboxd/sandboxd-child"} {
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0 {
			return p
		}
	}
	return ""
}

func schemas() []store.Schema {
	return []store.Schema{sessions.Schema(), vars.Schema(), approvals.Schema(), audit.Schema(), policy.Schema(), hooks.Schema()}
}

// openMirror opens the database for one line of the record.
func (h *house) openMirror(ctx context.Context) (audit.Mirror, io.Closer, error) {
	db, err := store.Open(ctx, store.Options{Path: h.paths.Database, Sync: h.cfg.Store.Sync}, schemas()...)
	if err != nil {
		return nil, nil, err
	}
	return audit.NewMirror(db), db, nil
}

// parts are the stages, built over one database.
type parts struct {
	*house
	extra    []tool.Group
	backend  sandbox.Backend
	sessions *sessions.Store
	vars     *vars.System
	tools    *tool.Registry
	policy   *policy.Engine

	decisions *policy.Decisions // nil but in the daemon
	hooks     *hooks.Registry
	redactor  *audit.Redactor
	meter     pipeline.Meter
	notify    func(session string, n hooks.Notification) // nil but in the daemon
}

// build makes the stages that the daemon and exec share. Extra groups come after
// the built-in ones.
func (h *house) build(ctx context.Context, db *store.DB, runtime string, extra ...tool.Group) (_ *parts, err error) {
	p := &parts{house: h, extra: extra, redactor: audit.NewRedactor(audit.EnvSecrets(os.Environ())...), meter: unmetered{}}
	if p.backend, err = h.backend(runtime); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.backend.Probe() // it has ended
			p.backend.Close()
		}
	}()
	go p.backend.Probe() // beside the compiler of the policies: both take a while
	groups, err := p.groups()
	if err != nil {
		return nil, err
	}
	p.vars = vars.New(db, vars.Options{
		Capacity: h.cfg.Vars.Capacity, Nested: vars.Nested(h.cfg.Vars.Nested), MaxValue: h.cfg.Vars.MaxValue, Groups: groups, Redact: p.redactor.String, Log: h.log,
	})
	p.sessions = sessions.New(db, sessions.Options{Created: p.vars.SessionCreated, Deleted: p.vars.SessionDeleted, PerAccount: h.cfg.Sessions.PerAccount})
	o := p.hookOptions()
	o.DB = db
	if p.hooks, err = hooks.New(o); err != nil {
		return nil, err
	}
	return p, p.configure(ctx)
}

// renew is the same parts under another configuration. What knows sessions is
// kept: the database, variables, the cage, what hooks said.
func (p *parts) renew(ctx context.Context, h *house) (*parts, error) {
	n := *p
	n.house = h
	var err error
	if n.hooks, err = p.hooks.Next(n.hookOptions()); err != nil {
		return nil, err
	}
	return &n, n.configure(ctx)
}

// configure makes what has no state of its own.
func (p *parts) configure(ctx context.Context) error {
	groups, err := p.groups()
	if err != nil {
		return err
	}
	p.tools = tool.NewRegistry()
	p.tools.Restrict(p.cfg.Tools.Allowed, p.cfg.Tools.Denied)
	for _, g := range groups {
		p.tools.Register(g)
	}
	p.tools.SetDefaults(tool.Defaults{AllGroups: p.cfg.Tools.AllGroups, Groups: p.cfg.Tools.Groups, Tools: p.cfg.Tools.Tools})
	p.tools.SetPermissions(p.cfg.Tools.Permissions)
	p.tools.Register(vars.AgentRules())
	p.tools.Register(p.vars.Group())
	p.tools.Register(tools.SessionGroup(p.sessions, p.tools))
	p.tools.Inject(p.vars.Injected()...)
	opts := p.cfg.Policy.Options()
	opts.CanUseTool = p.canUseTool()
	opts.Reloaded = func(err error) {
		if m, ok := p.meter.(*metrics.Set); ok {
			m.Reloaded(err)
			m.SetRules(p.ruleIDs())
		}
	}
	if p.cfg.Policy.Workspace {
		opts.Workspaces = p.roots
	}
	p.policy, err = policy.New(ctx, opts)
	return err
}

// canUseTool is the callback of the configuration; nil has no opinion.
func (p *parts) canUseTool() policy.CanUseTool {
	u := p.cfg.Policy.CanUseTool
	switch {
	case len(u.Command) > 0:
		return policy.Command(u.Timeout, func(ctx context.Context, stdin []byte) ([]byte, error) {
			return p.hooks.Program(ctx, u.Command, stdin)
		})
	case u.Webhook != "":
		return policy.Webhook(u.Webhook, u.Timeout)
	}
	return nil
}

func (p *parts) groups() ([]tool.Group, error) {
	custom := tool.Group{Name: "custom"}
	for _, c := range p.cfg.Tools.Custom {
		t, err := tools.NewCustom(c.Custom)
		if err != nil {
			return nil, err
		}
		custom.Tools = append(custom.Tools, t)
	}
	return append(append(tools.Groups(), p.extra...), custom), nil
}

func (p *parts) hookOptions() hooks.Options {
	box := func(ctx context.Context) (sandbox.Box, error) {
		return p.backend.Box(ctx, "/hooks", p.cfg.Profile, p.settings) // no session has a slash in its id
	}
	return hooks.Options{Hooks: p.cfg.Hooks, Writable: p.roots, Box: box, Observe: p.observe, Notify: func(session string, n hooks.Notification) {
		if p.notify != nil {
			p.notify(session, n)
		}
	}}
}

func (p *parts) observe(r hooks.Run) {
	if m, ok := p.meter.(*metrics.Set); ok && !r.Skipped {
		m.Hook(r.Name, r.Duration)
	}
}

// describe tells the metrics which labels there can be.
func (p *parts) describe(set *metrics.Set) {
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

func (p *parts) ruleIDs() []string {
	var ids []string
	for _, r := range p.policy.Status().Rules {
		ids = append(ids, r.ID)
	}
	return ids
}

func (p *parts) pipeline(people pipeline.Approvals, record pipeline.Record) *pipeline.Pipeline {
	return pipeline.New(p.stages(people, record))
}

// kept is nil where no decision is kept: a nil pointer would be a stage.
func (p *parts) kept() pipeline.Decisions {
	if p.decisions == nil {
		return nil
	}
	return p.decisions
}

func (p *parts) stages(people pipeline.Approvals, record pipeline.Record) pipeline.Options {
	return pipeline.Options{
		Sessions: p.sessions, Tools: p.tools, Vars: p.vars, Hooks: hookStage{p.hooks}, Policy: p.policy,
		Approvals: people, Record: record, Decisions: p.kept(), Meter: p.meter, Backend: p.backend, Settings: p.settings, Roots: p.roots, Log: p.log,
	}
}

func (p *parts) auditOptions() audit.Options {
	o := p.house.auditOptions()
	o.Redactor = p.redactor
	return o
}

func (h *house) auditOptions() audit.Options {
	return audit.Options{Dir: h.paths.StateDir, KeyFile: h.paths.KeyFile, Sync: h.cfg.Audit.Sync}
}

// auditPlace is where the record is, for commands that only read it.
func auditPlace() (audit.Options, error) {
	h, err := loadHouse(nil)
	if err != nil {
		return audit.Options{}, err
	}
	return h.auditOptions(), nil
}

// hookStage is the registry as the request path sees it.
type hookStage struct{ *hooks.Registry }

func (h hookStage) Posts() bool {
	return h.Has(hooks.PostToolUse) || h.Has(hooks.PostToolUseFailure)
}

// unmetered is the meter of a single exec, which nobody scrapes.
type unmetered struct{}

func (unmetered) Stage(string, time.Duration) {}
func (unmetered) Done(*tool.Call)             {}
