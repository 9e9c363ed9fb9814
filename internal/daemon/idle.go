package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/pipeline"
)

// idleEvery is how often the daemon looks for sessions that nobody uses.
const idleEvery = time.Hour

// deleteIdle deletes the sessions that nobody has used for sessions.keepDays. It returns when ctx ends.
func (d *daemon) deleteIdle(ctx context.Context) error {
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	for {
		if err := d.deleteIdleNow(ctx); err != nil && ctx.Err() == nil {
			d.current.Load().log.Error("sessions that nobody uses are not deleted", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (d *daemon) deleteIdleNow(ctx context.Context) error {
	p := d.current.Load()
	days := p.Config.Sessions.KeepDays
	if days == 0 {
		return p.sessions.Flush(ctx)
	}
	since := d.state.Now().Add(-time.Duration(days) * 24 * time.Hour)
	idle, err := p.sessions.Idle(ctx, since)
	if err != nil {
		return err
	}
	var errs []error // a session that cannot be deleted does not keep the others
	for _, s := range idle {
		runs := func(c pipeline.State) bool { return c.SessionID == s.ID }
		if slices.ContainsFunc(d.line.Load().Calls(s.Account), runs) { // a job can run for days
			continue
		}
		gone, err := p.sessions.DeleteIdle(ctx, s.Account, s.ID, since)
		if err != nil {
			errs = append(errs, fmt.Errorf("session %q: %w", s.ID, err))
		}
		if !gone {
			continue
		}
		p.log.Info("a session was deleted that nobody used", "session", s.ID, "account", s.Account, "keepDays", days)
	}
	return errors.Join(errs...)
}
