package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// job is the second half of a call that may go on when its caller has been answered. It is
// the same path, in a goroutine of its own; the caller waits for the first of its end and the
// time that the tool names.
type job struct {
	tool.Job // nil: the call is answered at its end
	p        *Pipeline
	c        *tool.Call
	by       Executor
	wait     time.Duration
	hold     *budget.Hold // in place of that of the request
	judged   tool.Call    // the call as it was admitted
}

// open makes a job of a call that may go on in the background. It makes none of a call that a client runs.
func (j *job) open(ctx context.Context, c *tool.Call) error {
	t, ok := c.Tool.(tool.Lasting)
	if _, ours := j.by.(here); !ok || !ours {
		return nil
	}
	wait, ok := t.Lasts(c.In)
	if !ok {
		return nil
	}
	if j.p.Jobs == nil {
		return &tool.Error{
			Code: "background_unavailable", Msg: "no call goes on here when it has been answered",
			Hint: "leave run_in_background and on_timeout out, or ask a running daemon",
		}
	}
	hold, err := roomToWait(ctx, c)
	if err != nil {
		return err
	}
	opened, err := j.p.Jobs.Open(c, j.p.mayWithhold(c))
	if err != nil {
		hold.Release()
		return err
	}
	j.Job, j.wait, j.hold = opened, wait, hold
	j.judged = *c
	c.Job, c.In.Job = opened, opened
	return nil
}

// run performs the call. It returns the call itself if that ended in time, otherwise an
// answer that says where it goes on.
func (j *job) run(ctx context.Context, leave func(*tool.Call)) *tool.Call {
	c := j.c
	answer := &tool.Call{ID: c.ID, Started: c.Started, Result: c.Result}
	answer.Decision = c.Decision
	own, cancel := context.WithCancelCause(budget.With(context.WithoutCancel(ctx), j.hold))
	attached := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	done, answered, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		j.p.perform(own, c, j.by)
		j.p.end(own, c)
		close(done)
		<-answered // so that Close knows
		j.Close(c)
		leave(c)
		j.hold.Release()
		cancel(nil)
	}()
	if !j.outlasts(done) || !attached() { // it has ended, or its caller has left and it ends now
		close(answered)
		<-gone
		return c
	}
	j.p.running.detach(c.ID, cancel, j)
	answer.Result.Status = tool.StatusSuccess
	answer.Result.Data, answer.Result.FinalText = j.Detach(cancel)
	answer.Result.FormattedText = answer.Result.FinalText
	finish(answer)
	if now := j.p.running.inForce(); now != nil && now != j.p { // it changed while the call was judged
		now.reconsiderJob(context.WithoutCancel(ctx), j)
	}
	close(answered)
	return answer
}

// reconsiderJob judges a job again, by the rules and settings that are now in force, and tells it what
// forbids it. Two things do: a verdict of deny, and a path that the job could reach when it began and
// may not reach now.
// Nobody is asked, hooks are not run again, and rules that count do not count it again. The
// mode stays as it was: a session that begins to plan keeps its servers.
func (p *Pipeline) reconsiderJob(ctx context.Context, j *job) {
	v := j.judged
	v.Request.Hypothetical = true
	err := p.contain(func() error {
		s, err := p.Sessions.Session(ctx, v.Request.Account, v.Request.Session)
		if err != nil {
			return err
		}
		s.Dir, s.Mode = v.Session.Dir, v.Session.Mode
		held := v.Settings
		v.Session = s
		if err := p.find(&v); err != nil {
			return err
		}
		if err := p.decide(ctx, &v); err != nil {
			return err
		}
		if v.Decision.Verdict == tool.Deny {
			return denial(v.Decision)
		}
		if what := v.Settings.Forbids(held); what != "" {
			return errors.New("the settings forbid now what it can reach: " + what)
		}
		return nil
	})
	if err != nil {
		j.Forbid(err.Error())
	} else {
		j.Forbid("")
	}
}

// outlasts waits as long as the caller does. It reports whether the call goes on then; one
// that was to go on at once does so if its program was started at all.
func (j *job) outlasts(done <-chan struct{}) bool {
	select {
	case <-j.Ready():
	case <-done:
		select {
		case <-j.Ready():
		default:
			return false
		}
	}
	if j.wait == 0 {
		return true
	}
	t := time.NewTimer(j.wait)
	defer t.Stop()
	select {
	case <-done:
		return false
	case <-t.C:
		return true
	}
}
