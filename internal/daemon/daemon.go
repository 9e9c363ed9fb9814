package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/diskspace"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/idspace"
	"github.com/sandboxd/sandboxd/internal/mcp/serve"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/metrics"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/recent"
	"github.com/sandboxd/sandboxd/sandbox"
)

// daemon holds what lives as long as the process, and the configuration that is in force.
type daemon struct {
	db      *store.DB // of this daemon alone
	state   *store.DB // what daemons share, or db
	record  *audit.Log
	queue   *approvals.Queue
	metrics *metrics.Set
	events  *events.Broker
	front   *api.Front
	// processors is how many processors this process may use.
	processors int
	mcp        *serve.HTTP
	started    time.Time
	line       atomic.Pointer[pipeline.Pipeline] // in force
	// accounts are those of the configuration in force. Runs that no client asked for take theirs from here.
	accounts atomic.Pointer[config.Accounts]

	shadow   *policy.Shadow
	disk     *diskspace.Guard
	features []feature // each is opened once

	transcripts io.Closer
	sessions    *sessions.Store

	stop context.CancelCauseFunc // ends serve
	ctx  context.Context         // of serve

	inside *idspace.Inside // that of its Site

	current atomic.Pointer[components] // in force

	mu      sync.Mutex         // held by whoever changes current: one reload at a time
	unwatch context.CancelFunc // guarded by mu: ends the watch of the policies in force

	status   sync.Mutex // guards inForce; a mutex of its own, because a reload takes a while
	inForce  api.ConfigStatus
	watching sync.WaitGroup
}

// openDaemon opens the state and builds everything over it.
func openDaemon(ctx context.Context, h *Site, stop context.CancelCauseFunc) (_ *daemon, err error) {
	d := &daemon{
		metrics: metrics.New(h.version), events: new(events.Broker), started: time.Now(), stop: stop, ctx: ctx,
		inside: h.inside, processors: runtime.GOMAXPROCS(0),
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.db, err = h.openDatabase(ctx); err != nil {
		return nil, err
	}
	d.db.ShareBy(budget.Account)
	if h.projects, err = h.openProjects(); err != nil {
		return nil, err
	}
	if err := d.openState(ctx, h); err != nil {
		return nil, err
	}
	h.disk = d.openDisk(h)
	backend, err := h.Backend(h.cageDir())
	if err != nil {
		return nil, err
	}
	d.shadow = policy.NewShadow(policy.ShadowOptions{
		DB: d.db, Counts: recent.New(time.Now), Count: d.metrics.Shadow,
		Failed: func(err error) { h.log.Error("where the shadow differs is not kept", "error", err) },
	})
	counting := time.Now()
	p, err := h.build(ctx, d.state, backend, recent.New(time.Now), d.shadow)
	if err != nil {
		return nil, err
	}
	d.sessions = p.sessions
	d.current.Store(p)
	if err := errors.Join(p.vars.DropPending(ctx), p.sessions.Sweep(ctx)); err != nil {
		return nil, err
	}
	if err := d.openRecord(ctx, p); err != nil {
		return nil, err
	}
	d.queue, err = approvals.New(ctx, d.state, approvals.Options{
		Approver: h.Config.Approvals.Approver, Timeout: h.ApprovalTimeout(),
		MaxPerSession: h.Config.Approvals.MaxPerSession,
		Announced:     h.Config.Approvals.Webhook.URL != "" || len(h.Config.Approvals.Command) > 0,
		Record: func(ctx context.Context, e approvals.Event) error {
			return d.record.Append(ctx, questionEvent(e))
		},
		Edited: func(ctx context.Context, of approvals.Item, args json.RawMessage) (string, error) {
			call := tool.Request{
				Account: of.Account, Session: of.SessionID, Tool: of.Tool, Args: of.Args, Dir: of.Facts.Dir,
				Home:   of.Facts.Home,
				RunsAs: of.RunsAs, DryRun: of.Facts.Elsewhere, Theirs: of.Facts.Elsewhere, Outside: of.Facts.Outside,
				Typed: of.Facts.Typed,
			}
			return d.line.Load().Edited(ctx, pipeline.Edit{
				CallID: of.CallID, Call: call, Origins: of.Facts.Origins, Digest: of.Digest, Args: args,
			})
		},
	})
	if err != nil {
		return nil, err
	}
	p.meter = d.metrics
	p.notify = func(session string, n hooks.Notification) {
		d.events.Publish(events.Event{
			Type: events.Notification, Session: session, Status: n.Level, Title: n.Title, Message: n.Body,
		})
	}
	p.connected, p.changed = d.connected, d.reconsider
	p.decisions = policy.NewDecisions(d.db, policy.DecisionOptions{
		Keep: h.Config.Policy.KeepDecisions, Redact: p.redactor.String, Counting: counting,
		Failed: func(err error) { h.log.Error("decisions are not kept", "error", err) },
	})
	if err := d.openFeatures(ctx, p); err != nil {
		return nil, err
	}
	d.line.Store(p.pipeline(d.queue, d.notified(p)))
	d.mcp = serve.NewHTTP(client.Over(toItself{d}), h.version, p.log)
	d.front = api.NewFront(d.use(p))
	d.metrics.Budget(d.front.Use)
	d.metrics.Disk(h.disk.Use)
	h.disk.Begin()
	return d, nil
}

// close ends what openDaemon began. The caller sees to it that all calls have ended.
func (d *daemon) close() {
	if d.unwatch != nil {
		d.unwatch()
	}
	d.watching.Wait()
	if d.mcp != nil {
		d.mcp.Close()
	}
	d.closeFeatures()
	if d.sessions != nil {
		if err := d.sessions.Flush(context.Background()); err != nil {
			d.current.Load().log.Error("which sessions were used is not stored", "error", err)
		}
	}
	if d.record != nil {
		d.record.Close()
	}
	if d.current.Load() != nil {
		d.current.Load().backend.Close()
		if d.current.Load().decisions != nil {
			d.current.Load().decisions.Close()
		}
	}
	if d.shadow != nil {
		d.shadow.Close()
	}
	if d.disk != nil {
		d.disk.Stop()
	}
	if d.state != nil && d.state != d.db {
		d.state.Close()
	}
	if d.db != nil {
		d.db.Close()
	}
	if d.transcripts != nil {
		d.transcripts.Close()
	}
	d.disk.Close()
}

// use puts the components p in force and returns a server for them and d.line.
func (d *daemon) use(p *components) *api.Server {
	parts := d.parts(p)
	p.join(parts...)
	p.describe(d.metrics)
	d.metrics.RoleSplit(p.RoleSplit() == "enforced")
	d.metrics.ConfigLoaded(nil)
	for _, line := range p.Idle(d.ctx, p.backend) {
		p.log.Warn(line)
	}
	d.current.Store(p)
	d.accounts.Store(&p.Config.Accounts)
	p.shadow.use(p.log)
	d.watchPolicies(p)
	d.setStatus(api.ConfigStatus{File: p.Config.File, Loaded: time.Now().UTC()})
	return d.server(p, parts)
}

// watchPolicies watches the files of the policies in force and stops watching others.
func (d *daemon) watchPolicies(p *components) {
	if d.unwatch != nil {
		d.unwatch()
	}
	var ctx context.Context
	ctx, d.unwatch = context.WithCancel(d.ctx)
	d.watching.Go(func() { p.policy.Watch(ctx, func(err error) { d.policiesChanged(ctx, p, err) }) })
	if e := p.shadow.engine; e != nil {
		d.watching.Go(func() { e.Watch(ctx, func(error) { p.shadow.use(p.log) }) })
	}
}

// server returns the routes over the components p and d.line.
func (d *daemon) server(p *components, parts []part.Part) *api.Server {
	h := p.Site
	var peer func(fd int) (idspace.Peer, error) // nil asks the kernel
	if d.inside != nil {
		peer = d.inside.PeerOf
	}
	return api.New(api.Options{
		Parts: parts, Pipeline: d.line.Load(), Sessions: p.sessions, Tools: p.tools, Hooks: p.hooks, Events: d.events,
		Metrics: d.metrics.Handler(),
		Callers: api.Callers{
			Peer:      peer,
			Account:   func(uid int) (string, bool) { return h.Config.Accounts.Of(uid, os.Geteuid()) },
			Operators: h.Config.Operators.UIDs, OperatorGroups: h.Config.Operators.GIDs,
			Limits: budget.Limits{
				Bytes:     h.Config.Limits.AgentBytes,
				PerSecond: h.Config.API.PerSecond, Concurrent: h.Config.API.Concurrent,
				Processors: d.processors,
			},
		},
		Defaults: api.Defaults{
			Settings: h.Settings, Workspaces: h.projects, Private: h.private(),
			Mode: h.Config.Sessions.Mode, MaxMode: h.Config.Sessions.MaxMode, Profile: h.Config.Profile,
		},
		Redact: p.redactor.String, Pieces: p.redactor.Pieces,
		Admit:  h.admit,
		Daemon: d, Status: func() api.Status { return d.statusOf(p) }, StopGrace: h.Config.API.StopGrace, Log: h.log,
	})
}

// statusOf returns the status of the daemon while it serves with p.
func (d *daemon) statusOf(p *components) api.Status {
	rules, cage := p.policy.Status(), p.backend.Probe()
	cage.Profile, cage.Denials = p.Config.Profile, []sandbox.Denial{} // of new sessions; nothing runs in a probe
	return api.Status{
		Version: p.version, Uptime: int(time.Since(d.started).Seconds()), Config: d.Config(),
		RoleSplit: p.RoleSplit(), Rights: toolRights(), Sandbox: cage,
		Pending: d.queue.Pending(), Waits: int(math.Ceil(p.ApprovalTimeout().Seconds())),
		Roots: p.Roots,
		Policy: api.PolicyStatus{
			Profile: rules.Profile, Revision: rules.Revision, Failure: rules.Failure, Shadow: d.shadow.State(),
		},
		Parts: d.partStatus(),
	}
}

// toolRights says with whose rights tools run.
func toolRights() string {
	if sandbox.TakesRights() {
		return "caller"
	}
	return "daemon"
}

// policiesChanged records that the files of policies have changed.
func (d *daemon) policiesChanged(ctx context.Context, p *components, err error) {
	said := tool.Note{Name: "reload", Message: "policies loaded, for their files changed"}
	if l := p.policy.Status().Loosens; l != nil {
		said.Message += ": it " + l.Words()
	}
	if err != nil {
		said.Message = "policies kept, for the changed ones failed: " + err.Error()
	}
	if err := d.record.Append(context.WithoutCancel(ctx), said); err != nil {
		p.log.Error("a reload of policies is not recorded", "error", err)
	}
}

// Reload reads the whole configuration again and builds new components for new requests. Calls that run finish with
// the old ones. A bad configuration changes nothing.
func (d *daemon) Reload(ctx context.Context, by string, loosen bool) error {
	err := d.configChange(ctx, by)
	d.mu.Lock()
	defer d.mu.Unlock()
	var next *components
	if err == nil {
		next, err = d.next(ctx)
	}
	var loosens *policy.Loosening
	if err == nil {
		loosens, err = d.current.Load().loosenedBy(ctx, next, loosen)
	}
	said := tool.Note{Name: "reload", Message: "configuration loaded by " + by}
	if loosens != nil {
		said.Message += ": it " + loosens.Words()
	}
	if err != nil {
		said.Message = "configuration kept, for the new one cannot be used: " + err.Error()
	}
	if recorded := d.record.Append(ctx, said); recorded != nil {
		err = errors.Join(err, recorded) // no record, no change
	}
	if err == nil {
		err = next.vars.Declare(next.Config.Tools.Declared()...) // config.Load has checked them
	}
	if err != nil {
		d.metrics.ConfigLoaded(err)
		d.current.Load().log.Error("configuration kept", "by", by, "error", err)
		failed := d.Config()
		failed.Failure = &api.ReloadFailure{At: time.Now().UTC(), Error: err.Error()}
		d.setStatus(failed)
		d.events.Publish(events.Event{Type: events.Reload, Status: "failed"})
		return err
	}
	next.projects.Use(next.projectRules())
	d.line.Store(d.line.Load().Next(next.stages(d.queue, d.notified(next))))
	d.reloadFeatures(ctx, next)
	d.front.Swap(d.use(next))
	d.reconsider()
	loaded := d.Config()
	loaded.Loosens = loosens
	loaded.Lacking, loaded.StartsAgain = d.startsAgain(next.Site)
	d.setStatus(loaded)
	next.decisions.Keep(next.Config.Policy.KeepDecisions)
	next.log.Info("configuration loaded", "by", by)
	d.events.Publish(events.Event{Type: events.Reload, Status: "ok"})
	return nil
}

// reconsider ends the connections that the settings and policies now in force do not allow.
func (d *daemon) reconsider() {
	if line := d.line.Load(); line != nil { // nil: it starts
		line.Reconsider(d.ctx)
	}
}

// configChange asks the hooks in force, which may refuse the new configuration. It holds no lock while they run,
// because StopAll must not wait for them.
func (d *daemon) configChange(ctx context.Context, by string) error {
	d.mu.Lock() // waits for a reload that goes on: its hooks are asked
	p := d.current.Load()
	d.mu.Unlock()
	answer, err := p.hooks.Fire(ctx, hooks.ConfigChange, hooks.Input{Trigger: by, FilePath: p.Config.File})
	if err != nil {
		return err
	}
	if answer.Advice.Block {
		return &tool.Error{
			Code: "hook_blocked", Msg: answer.Advice.Reason,
			Hint: "hooks.configChange of the configuration in force; a restart reads the new one",
		}
	}
	return nil
}

func (d *daemon) next(ctx context.Context) (*components, error) {
	h, err := load(d.current.Load().version, "", d.current.Load().flags, d.current.Load().features)
	if err != nil {
		return nil, err
	}
	if key := d.needsRestart(h); key != "" {
		return nil, &tool.Error{
			Code: "restart_required", Msg: key + " cannot change while the daemon runs",
			Hint: "restart it, or put the value back",
		}
	}
	if d.inside != nil {
		if err := h.ids().Valid(); err != nil {
			return nil, err
		}
	}
	h.projects, h.disk = d.current.Load().projects, d.disk
	return d.current.Load().renew(ctx, h)
}

// announce sends questions to the webhook and the program that are configured.
func (d *daemon) announce(ctx context.Context) error {
	c, log := d.current.Load().Config.Approvals, d.current.Load().log
	var g errgroup.Group
	to := func(send approvals.Send) {
		g.Go(func() error {
			return d.queue.Notify(ctx, send, func(id string, cause error) {
				log.Warn("a question was not announced", "approval", id, "error", cause)
			})
		})
	}
	if c.Webhook.URL != "" {
		to(approvals.Webhook{URL: c.Webhook.URL, Secret: c.Webhook.Secret}.Send)
	}
	if len(c.Command) > 0 {
		to(func(ctx context.Context, notice []byte) (again bool, err error) {
			ctx, cancel := context.WithTimeout(ctx, announceTime)
			defer cancel()
			_, err = d.hooksInForce().Program(ctx, c.Command, notice)
			return err != nil, err
		})
	}
	return g.Wait()
}

// announceTime bounds the program that announces one question.
const announceTime = 30 * time.Second

// hooksInForce returns the hooks of the last reload. They know which programs of hooks run.
func (d *daemon) hooksInForce() *hooks.Registry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current.Load().hooks
}

// Config says which configuration is in force and where it came from.
func (d *daemon) Config() api.ConfigStatus {
	d.status.Lock()
	defer d.status.Unlock()
	return d.inForce
}

func (d *daemon) setStatus(s api.ConfigStatus) {
	d.status.Lock()
	defer d.status.Unlock()
	d.inForce = s
}

// StopAll ends every call, every question and then the daemon.
func (d *daemon) StopAll(ctx context.Context, by string) (int, error) {
	if err := d.record.Append(ctx,
		tool.Note{Name: "stop_all", Message: "everything was stopped by " + by}); err != nil {
		d.current.Load().log.Error("stop-all is not recorded", "error", err) // stopping is always safe
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.line.Load().CancelAll(api.ErrStopAll)
	d.stop(api.ErrStopAll)
	return n, nil
}

// questionEvent returns the line of the record for a question or for its answer.
func questionEvent(e approvals.Event) tool.Note {
	return tool.Note{
		Name: string(e.Kind), Account: e.Item.Account, Session: e.Item.SessionID, Call: e.Item.CallID,
		Tool:   e.Item.Tool,
		Digest: e.Item.Digest, Message: e.Item.Reason,
		Detail: map[string]string{
			"approval": e.Item.ID, "status": string(e.Item.Status), "by": e.By, "grant": e.Grant,
			"remember": e.Item.Remembered,
		},
	}
}
