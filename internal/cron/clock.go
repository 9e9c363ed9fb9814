package cron

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	// lookAgain is how long the clock of the machine may change, or the database fail, before it is looked at again.
	lookAgain = 30 * time.Second
	// late is the delay after which a due run is missed and not started.
	late = time.Minute
	// atOnce is how many runs of one account there are at a time; more wait.
	atOnce = 4
)

// serve is the clock: at each tick a job that is due gets its turn, and a turn that may run makes one call. It ends
// with ctx. Runs that are going on then are cancelled, and it waits for them.
func (f *feature) serve(ctx context.Context) error {
	defer f.going.Wait()
	if err := f.lostRuns(ctx); err != nil && ctx.Err() == nil {
		f.host.Log.Error("which runs of cron jobs the last daemon left is not known", "error", err)
	}
	for ctx.Err() == nil {
		wait := time.NewTimer(f.tick(ctx, time.Now()))
		select {
		case <-ctx.Done():
		case <-f.changed:
		case <-wait.C:
		}
		wait.Stop()
	}
	return nil
}

// lostRuns reports the runs that were under way when an earlier daemon was killed.
func (f *feature) lostRuns(ctx context.Context) error {
	all, err := f.table.ofAccount(ctx, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, j := range all {
		if j.Last == nil || j.Last.Status != running {
			continue
		}
		errs = append(errs, f.note(ctx, j, "cron_lost", "the daemon went away during a run of "+j.label(), nil))
		_, err := f.table.change(ctx, j, func(j *Job) { j.Last.Status = lost })
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tick starts the jobs that are due now, and returns when it must be called again.
func (f *feature) tick(ctx context.Context, now time.Time) time.Duration {
	due, err := f.table.due(ctx, now)
	if err != nil && ctx.Err() == nil {
		f.host.Log.Error("which cron jobs are due is not known", "error", err)
		return lookAgain
	}
	for _, j := range due {
		if err := f.turn(ctx, j, now); err != nil && ctx.Err() == nil {
			f.host.Log.Error("a cron job is not run", "session", j.Session, "cron", j.ID, "error", err)
			return lookAgain // its change was not kept, so it is due still
		}
	}
	next, err := f.table.next(ctx)
	if err != nil || next.IsZero() {
		return lookAgain
	}
	return min(max(time.Until(next), time.Millisecond), lookAgain)
}

// turn runs a job that is due, or reports why it does not run.
func (f *feature) turn(ctx context.Context, j Job, now time.Time) error {
	line, err := ParseLine(j.Schedule)
	if err != nil {
		return err
	}
	count, why := 0, ""
	if now.Sub(j.Next) >= late {
		count, why = line.between(j.Next.Local(), now.Local()), "no daemon ran"
		if j.Next.After(f.daemonStarted) {
			why = "the daemon or its machine stood still"
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	if count == 0 && !f.enter(j, cancel) {
		count, why = 1, "the run before it had not ended"
	}
	found, err := f.table.change(ctx, j, func(j *Job) {
		j.Next = line.After(now.Local())
		if count == 0 {
			j.Last = &Run{At: now.UTC(), Status: running}
			return
		}
		m := cmp.Or(j.Missed, &Missed{})
		j.Missed = &Missed{Count: m.Count + count, Last: now.UTC(), Reason: why}
	})
	if count > 0 {
		cancel()
		if err == nil && found {
			f.missed(ctx, j, count, why)
		}
		return err
	}
	if err != nil || !found {
		cancel()
		f.leave(j)
		return err
	}
	f.going.Go(func() {
		defer f.leave(j)
		defer cancel()
		f.run(ctx, j)
	})
	return nil
}

// missed reports that a job did not run at its time. The job has the count already, so an error of the record is only
// logged: with it the other jobs that are due would wait.
func (f *feature) missed(ctx context.Context, j Job, count int, why string) {
	f.host.Log.Warn("runs of a cron job were missed", "session", j.Session, "cron", j.ID, "runs", count, "why", why)
	f.publish(events.CronMissed, j, "", "")
	f.skipped.Add(int64(count))
	err := f.note(context.WithoutCancel(ctx), j, "cron_missed",
		fmt.Sprintf("%d runs of %s were missed: %s", count, j.label(), why),
		map[string]string{"runs": strconv.Itoa(count)})
	if err != nil {
		f.host.Log.Error("missed runs of a cron job are not recorded", "session", j.Session, "cron", j.ID, "error", err)
	}
}

// run is one run of a job, to its end.
func (f *feature) run(ctx context.Context, j Job) {
	var call, status, code, reason string
	defer func() {
		if p := recover(); p != nil {
			f.host.Log.Error("panic in a run of a cron job", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			status, code = refused, "internal"
		}
		f.publish(events.CronEnded, j, status, code)
		_, err := f.table.change(context.WithoutCancel(ctx), j, func(j *Job) {
			if j.Last != nil {
				j.Last.Call, j.Last.Status, j.Last.Code, j.Last.Reason = call, status, code, reason
			}
		})
		if err != nil {
			f.host.Log.Error("how a run of a cron job ended is not kept", "cron", j.ID, "error", err)
		}
	}()
	r, err := f.call(ctx, j)
	if e, ok := errors.AsType[*tool.Error](err); ok {
		status, code, reason = refused, e.Code, e.Msg
	} else if err != nil {
		status, reason = refused, err.Error()
	} else {
		call, status = r.CallID, string(r.Status)
		if r.Error != nil {
			code = r.Error.Code
		}
	}
}

// call makes the call of a run. Its error says why no call was made.
func (f *feature) call(ctx context.Context, j Job) (tool.Result, error) {
	release, err := f.slot(ctx, j.account)
	if err != nil {
		return tool.Result{}, err
	}
	defer release()
	ctx, leave, err := f.host.Admit(ctx, j.account)
	if err != nil {
		return tool.Result{}, err
	}
	defer leave()
	s, err := f.host.Sessions.Session(ctx, j.account, j.Session)
	e, ok := errors.AsType[*tool.Error](err)
	if ok && e.Code == "session_not_found" || err == nil && !s.Created.Equal(j.sessionCreated) {
		_, err := f.table.remove(context.WithoutCancel(ctx), j.Session, j.ID) // another daemon deleted it
		return tool.Result{}, errors.Join(errors.New("its session was deleted"), err)
	}
	if err != nil {
		return tool.Result{}, err
	}
	user, err := j.maker.user(j.account, f.host.Account)
	if err != nil {
		return tool.Result{}, f.refuse(ctx, j, err)
	}
	args, err := json.Marshal(map[string]string{"command": j.Command, "description": "run of " + j.label()})
	if err != nil {
		return tool.Result{}, err
	}
	if err := f.note(ctx, j, "cron_run", "a run of "+j.label()+" begins", nil); err != nil {
		return tool.Result{}, fmt.Errorf("the run cannot be recorded: %w", err)
	}
	f.publish(events.CronStarted, j, "", "")
	m := j.maker
	return f.host.Do(ctx, tool.Request{
		Account: j.account, Role: tool.RoleAgent, Session: j.Session, User: user, RunsAs: user.Rights(),
		By:   &tool.Identity{UID: m.UID, GID: m.GID, Groups: m.Groups, Name: m.Name, Home: m.Home},
		Tool: "Bash", Args: args, ToolUseID: j.ID, Scheduled: &tool.Scheduled{By: j.authors.List()},
	}), nil
}

// refuse records that a run is refused, when the last one was not.
func (f *feature) refuse(ctx context.Context, j Job, why error) error {
	if j.Last != nil && j.Last.Status == refused {
		return why
	}
	f.host.Log.Warn("a run of a cron job is refused", "session", j.Session, "cron", j.ID, "why", why)
	return errors.Join(why, f.note(ctx, j, "cron_refused", "a run of "+j.label()+" was refused: "+why.Error(), nil))
}

// slot waits until the account may have one more run.
func (f *feature) slot(ctx context.Context, account string) (release func(), err error) {
	f.mu.Lock()
	slots := f.slots[account]
	if slots == nil {
		slots = make(chan struct{}, atOnce)
		f.slots[account] = slots
	}
	f.mu.Unlock()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, &tool.Error{Code: "cancelled", Msg: "the run was cancelled before its turn came"}
	}
}

// key names a job.
type key struct {
	session string
	number  int64
}

// flight is a run that is under way.
type flight struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
}

// enter notes that a job runs. It returns false if a run of the job is under way already.
func (f *feature) enter(j Job, cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := key{j.Session, j.number}
	if f.runs[at] != nil {
		return false
	}
	f.runs[at] = &flight{cancel, make(chan struct{})}
	return true
}

func (f *feature) leave(j Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := key{j.Session, j.number}
	close(f.runs[at].done)
	delete(f.runs, at)
}

// end cancels the runs of a session, or of one job of it if number is not 0, and waits for their end.
func (f *feature) end(ctx context.Context, session string, number int64) error {
	var mine []*flight
	f.mu.Lock()
	for at, x := range f.runs {
		if at.session == session && (number == 0 || at.number == number) {
			x.cancel()
			mine = append(mine, x)
		}
	}
	f.mu.Unlock()
	for _, x := range mine {
		select {
		case <-x.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// wake lets the clock look at jobs that were made or deleted.
func (f *feature) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *feature) publish(what events.Type, j Job, status, code string) {
	f.host.Events.Publish(events.Event{
		Type: what, Account: j.account, Session: j.Session, Cron: j.ID, Status: status, Code: code,
	})
}

func (f *feature) note(ctx context.Context, j Job, name, message string, more map[string]string) error {
	detail := map[string]string{"cron": j.ID, "schedule": j.Schedule}
	for k, v := range more {
		detail[k] = v
	}
	return f.host.Record(ctx, tool.Note{
		Name: name, Account: j.account, Session: j.Session, Tool: "Bash", Message: message, Detail: detail,
	})
}

// label returns how people know a job.
func (j Job) label() string { return fmt.Sprintf("cron job %s %q", j.ID, j.Name) }
