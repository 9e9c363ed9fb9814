package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/audit"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/metrics"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/tool"
)

// daemon is what lives as long as the process, and the configuration in force.
type daemon struct {
	db      *store.DB
	record  *audit.Log
	queue   *approvals.Queue
	metrics *metrics.Set
	events  *api.Events
	front   *api.Front
	started time.Time
	stop    context.CancelCauseFunc // ends serve
	ctx     context.Context         // of serve

	mu      sync.Mutex // guards what follows; one reload at a time
	parts   *parts
	line    *pipeline.Pipeline
	unwatch context.CancelFunc // of the policies in force

	status   sync.Mutex // guards inForce; apart, for a reload takes a while
	inForce  api.ConfigStatus
	watching sync.WaitGroup
}

// openDaemon opens the state and builds everything over it.
func openDaemon(ctx context.Context, h *house, stop context.CancelCauseFunc) (_ *daemon, err error) {
	d := &daemon{metrics: metrics.New(version), events: new(api.Events), started: time.Now(), stop: stop, ctx: ctx}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.db, err = store.Open(ctx, store.Options{Path: h.paths.Database, Sync: h.cfg.Store.Sync}, schemas()...); err != nil {
		return nil, err
	}
	p, err := h.build(ctx, d.db, filepath.Join(h.paths.StateDir, "cage"))
	if err != nil {
		return nil, err
	}
	d.parts = p
	if err := p.vars.DropPending(ctx); err != nil {
		return nil, err
	}
	if d.record, err = audit.Open(ctx, p.auditOptions(), audit.NewMirror(d.db)); err != nil {
		return nil, err
	}
	d.queue, err = approvals.New(ctx, d.db, approvals.Options{
		Approver: h.cfg.Approvals.Approver, Timeout: h.approvalTimeout(), MaxPerSession: h.cfg.Approvals.MaxPerSession,
		Record: func(ctx context.Context, e approvals.Event) error { return d.record.Append(ctx, questionEvent(e)) },
	})
	if err != nil {
		return nil, err
	}
	p.meter = d.metrics
	p.notify = func(session string, n hooks.Notification) {
		d.events.Publish(api.Event{Type: api.EventNotification, Session: session, Status: n.Level, Title: n.Title, Message: n.Body})
	}
	p.decisions = policy.NewDecisions(d.db, policy.DecisionOptions{
		Keep: h.cfg.Policy.KeepDecisions, Redact: p.redactor.String,
		Failed: func(err error) { h.log.Error("decisions are not kept", "error", err) },
	})
	d.line = p.pipeline(d.queue, told{d.record, d.events, p.log, p.redactor.String})
	d.front = api.NewFront(d.use(p))
	return d, nil
}

// close ends what openDaemon began; the calls have ended before.
func (d *daemon) close() {
	if d.unwatch != nil {
		d.unwatch()
	}
	d.watching.Wait()
	if d.record != nil {
		d.record.Close()
	}
	if d.parts != nil {
		d.parts.backend.Close()
		if d.parts.decisions != nil {
			d.parts.decisions.Close()
		}
	}
	if d.db != nil {
		d.db.Close()
	}
}

// use makes p the parts in force, and a server over them and d.line.
func (d *daemon) use(p *parts) *api.Server {
	h, split := p.house, p.roleSplit()
	p.tools.Register(tool.Group{Name: "people", Tools: approvals.Tools(d.queue)})
	p.describe(d.metrics)
	d.metrics.RoleSplit(split == "enforced")
	d.metrics.ConfigLoaded(nil)
	if d.unwatch != nil {
		d.unwatch()
	}
	d.parts = p
	var ctx context.Context
	ctx, d.unwatch = context.WithCancel(d.ctx)
	d.watching.Go(func() { p.policy.Watch(ctx, func(err error) { d.policiesChanged(ctx, p.log, err) }) })
	d.setStatus(api.ConfigStatus{File: h.cfg.File, Loaded: time.Now().UTC()})
	return api.New(api.Options{
		Pipeline: d.line, Sessions: p.sessions, Tools: p.tools, Vars: p.vars, Approvals: d.queue, Policy: p.policy, Decisions: p.decisions,
		Hooks: p.hooks, Record: d.record, Events: d.events, Backend: p.backend, Metrics: d.metrics.Handler(), Settings: h.settings,
		Roots: h.roots, Private: h.private(), Mode: h.cfg.Sessions.Mode, MaxMode: h.cfg.Sessions.MaxMode, Profile: h.cfg.Profile,
		Accounts: h.cfg.Accounts, Operators: h.cfg.Operators.UIDs, OperatorGroups: h.cfg.Operators.GIDs, AuditPath: p.auditOptions().Path(),
		Limits: api.Limits{PerSecond: h.cfg.API.PerSecond, Concurrent: h.cfg.API.Concurrent}, StopGrace: h.cfg.API.StopGrace,
		Daemon: d, Version: version, Started: d.started, RoleSplit: split, Log: h.log,
	})
}

// policiesChanged records that files of policies changed.
func (d *daemon) policiesChanged(ctx context.Context, log *slog.Logger, err error) {
	said := audit.Event{Name: "reload", Message: "policies loaded, for their files changed"}
	if err != nil {
		said.Message = "policies kept, for the changed ones failed: " + err.Error()
	}
	if err := d.record.Append(context.WithoutCancel(ctx), said); err != nil {
		log.Error("a reload of policies is not recorded", "error", err)
	}
}

// Reload reads the whole configuration again and builds the parts anew, which
// new requests get; calls that run finish on the old ones. A bad configuration
// changes nothing.
func (d *daemon) Reload(ctx context.Context, by string) error {
	err := d.configChange(ctx, by)
	d.mu.Lock()
	defer d.mu.Unlock()
	var next *parts
	if err == nil {
		next, err = d.next(ctx)
	}
	said := audit.Event{Name: "reload", Message: "configuration loaded by " + by}
	if err != nil {
		said.Message = "configuration kept, for the new one cannot be used: " + err.Error()
	}
	if recorded := d.record.Append(ctx, said); recorded != nil {
		err = errors.Join(err, recorded) // no record, no change
	}
	if err != nil {
		d.metrics.ConfigLoaded(err)
		d.parts.log.Error("configuration kept", "by", by, "error", err)
		failed := d.Config()
		failed.Failure = &api.ReloadFailure{At: time.Now().UTC(), Error: err.Error()}
		d.setStatus(failed)
		d.events.Publish(api.Event{Type: api.EventReload, Status: "failed"})
		return err
	}
	d.line = d.line.Next(next.stages(d.queue, told{d.record, d.events, next.log, next.redactor.String}))
	d.front.Swap(d.use(next))
	next.decisions.Keep(next.cfg.Policy.KeepDecisions)
	next.log.Info("configuration loaded", "by", by)
	d.events.Publish(api.Event{Type: api.EventReload, Status: "ok"})
	return nil
}

// configChange asks the hooks in force, which may keep their configuration in
// force. They run without the lock, for StopAll must not wait for them.
func (d *daemon) configChange(ctx context.Context, by string) error {
	d.mu.Lock()
	p := d.parts
	d.mu.Unlock()
	answer, err := p.hooks.Fire(ctx, hooks.ConfigChange, hooks.Input{Trigger: by, FilePath: p.cfg.File})
	if err != nil {
		return err
	}
	if answer.Advice.Block {
		return &tool.Error{Code: "hook_blocked", Msg: answer.Advice.Reason, Hint: "hooks.configChange of the configuration in force; a restart reads the new one"}
	}
	return nil
}

func (d *daemon) next(ctx context.Context) (*parts, error) {
	h, err := loadHouse(d.parts.flags)
	if err != nil {
		return nil, err
	}
	if key := d.parts.cfg.NeedsRestart(h.cfg); key != "" {
		return nil, &tool.Error{Code: "restart_required", Msg: key + " cannot change while the daemon runs", Hint: "restart it, or put the value back"}
	}
	return d.parts.renew(ctx, h)
}

// announce tells the webhook and the program of questions, where there are any.
func (d *daemon) announce(ctx context.Context) error {
	c, log := d.parts.cfg.Approvals, d.parts.log
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

// announceTime is what a program that announces one question may take.
const announceTime = 30 * time.Second

// hooksInForce are those of the last reload; they know what runs.
func (d *daemon) hooksInForce() *hooks.Registry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.parts.hooks
}

// Config says which configuration is in force.
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

// StopAll ends every call, every question and the daemon.
func (d *daemon) StopAll(ctx context.Context, by string) (int, error) {
	if err := d.record.Append(ctx, audit.Event{Name: "stop_all", Message: "everything was stopped by " + by}); err != nil {
		d.parts.log.Error("stop-all is not recorded", "error", err) // stopping is always safe
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.line.CancelAll(api.ErrStopAll)
	d.stop(api.ErrStopAll)
	return n, nil
}

// questionEvent is what the record says of a question or its answer.
func questionEvent(e approvals.Event) audit.Event {
	return audit.Event{
		Name: string(e.Kind), Account: e.Item.Account, Session: e.Item.SessionID, Call: e.Item.CallID, Tool: e.Item.Tool,
		Digest: e.Item.Digest, Message: e.Item.Reason,
		Detail: map[string]string{"approval": e.Item.ID, "status": string(e.Item.Status), "by": e.By, "grant": e.Grant, "remember": e.Item.Remembered},
	}
}
