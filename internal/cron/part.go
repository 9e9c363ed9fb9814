package cron

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Definition is cron jobs as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name:     "cron",
		Schema:   store.Embedded("cron", migrations),
		Config:   func() part.Config { return Defaults() },
		Deferred: []string{"CronCreate", "CronDelete", "CronList"},
		Open: func(_ context.Context, h part.Host) (part.Part, error) {
			f := newFeature(h)
			f.config.Store(h.Config.(*Config))
			return f.part(), nil
		},
		Describe: func(part.Config) part.Part { return newFeature(part.Host{}).part() },
	}
}

// feature is cron jobs in a daemon.
type feature struct {
	host          part.Host
	table         table
	config        atomic.Pointer[Config]
	daemonStarted time.Time
	changed       chan struct{} // wakes the clock
	skipped       atomic.Int64
	going         sync.WaitGroup

	mu    sync.Mutex               // guards what follows
	runs  map[key]*flight          // that are going on, or wait for their turn
	slots map[string]chan struct{} // by account
}

func newFeature(h part.Host) *feature {
	return &feature{
		host: h, table: table{h.DB}, daemonStarted: time.Now(), changed: make(chan struct{}, 1),
		runs: map[key]*flight{}, slots: map[string]chan struct{}{},
	}
}

func (f *feature) part() part.Part {
	return part.Part{
		Groups: []catalog.Group{f.group()}, Routes: f.routes(),
		Deleted: func(tx *sql.Tx, session string) error { return drop(tx, session) },
		Forget:  func(ctx context.Context, s tool.Session) error { return f.end(ctx, s.ID, 0) },
		Reload:  func(_ context.Context, c part.Config) { f.config.Store(c.(*Config)) },
		Serve:   f.serve,
		Metrics: []part.Gauge{
			{Name: "cron_running", Help: "Runs of cron jobs that are going on.", Value: func() float64 {
				return float64(f.running())
			}},
			{
				Name: "cron_missed", Help: "Runs of cron jobs that were missed since the daemon began.",
				Value: func() float64 { return float64(f.skipped.Load()) },
			},
		},
		Status: func() any {
			return map[string]int64{"running": int64(f.running()), "missed": f.skipped.Load()}
		},
	}
}

// running returns how many runs are going on.
func (f *feature) running() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.runs)
}

func (f *feature) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /cron", Role: tool.RoleAgent, Handle: f.listAll,
			Spec: route.Spec{ID: "listCronJobs", Summary: "Cron jobs of this account", Out: []Job{}},
		},
		{
			Pattern: "GET /sessions/{id}/cron", Role: tool.RoleAgent, Handle: f.listSession,
			Spec: route.Spec{ID: "listSessionCronJobs", Summary: "Cron jobs of a session", Out: []Job{}},
		},
		{
			Pattern: "DELETE /sessions/{id}/cron/{cron}", Role: tool.RoleAgent, Handle: f.deleteOne,
			Spec: route.Spec{
				ID: "deleteCronJob", Summary: "Delete a cron job, and end its run", Out: route.Deleted{},
			},
		},
	}
}

func (f *feature) listAll(r *http.Request) (any, error) {
	me := route.CallerOf(r)
	if me.Any {
		return f.table.ofAccount(r.Context(), "")
	}
	return f.table.ofAccount(r.Context(), me.Account)
}

func (f *feature) listSession(r *http.Request) (any, error) {
	s, err := f.host.Session(r)
	if err != nil {
		return nil, err
	}
	return f.table.ofSession(r.Context(), s.ID)
}

func (f *feature) deleteOne(r *http.Request) (any, error) {
	s, err := f.host.Session(r)
	if err != nil {
		return nil, err
	}
	by := "an agent"
	if me := route.CallerOf(r); me.Role == tool.RoleOperator {
		by = "operator " + me.Operator()
	}
	j, err := f.delete(r.Context(), s.ID, r.PathValue("cron"), by)
	if err != nil {
		return nil, err
	}
	return route.Deleted{ID: j.ID, Deleted: true}, nil
}

// delete deletes a job, and ends its run.
func (f *feature) delete(ctx context.Context, session, id, by string) (Job, error) {
	j, err := f.table.remove(ctx, session, id)
	if err != nil {
		return j, err
	}
	f.publish(events.CronDeleted, j, "", "")
	err = f.note(context.WithoutCancel(ctx), j, "cron_deleted", j.label()+" was deleted by "+by, nil)
	return j, errors.Join(err, f.end(ctx, session, j.number)) // the job is gone: nothing else ends its run
}
