package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/replay"
)

// shadow is the setting policy.shadow of one configuration, loaded.
type shadow struct {
	judge  *policy.Shadow // lives as long as the daemon; nil outside it
	engine *policy.Engine // nil if none is configured, or it does not load
	failed error          // why it does not load
}

// load loads the policies of the shadow. They decide nothing, so a mistake in them does not keep the daemon from
// starting; use logs it.
func (s *shadow) load(ctx context.Context, p *components) {
	s.engine, s.failed = nil, nil
	if s.judge == nil || p.Config.Policy.Shadow == "" {
		return
	}
	opts := p.shadowOptions()
	opts.CanUseTool = p.canUseTool() // never asked: its answer to the live policies is used
	s.engine, s.failed = policy.New(ctx, opts)
}

// use puts the shadow in force, with the content that its files have now.
func (s *shadow) use(log *slog.Logger) {
	s.judge.Use(s.engine, s.failed)
	if state := s.judge.State(); state != nil && state.Failure != "" {
		log.Warn("policy.shadow judges by older files or not at all", "error", state.Failure)
	}
}

// shadowOptions returns the policies of the configuration, with policy.shadow in place of policy.dirs.
func (s *Site) shadowOptions() policy.Options {
	o := s.PolicyOptions()
	o.Dirs = []string{s.Config.Policy.Shadow}
	return o
}

// comparedCalls is how many of the newest recorded calls a reload compares.
const comparedCalls = 10_000

// compareTime bounds the comparison: a slow rule must not hold up somebody who stops the daemon.
const compareTime = 15 * time.Second

// namedCalls is how many of the calls that would be looser are named.
const namedCalls = 5

// compare judges recorded calls by the policies in force and by those that a reload of their files would put in
// force.
func (p *components) compare(ctx context.Context, before, after policy.Judge, loosen bool) (policy.Loosening, error) {
	return p.loosening(ctx, before, after, p.Config.Policy.GuardReload && !loosen)
}

// loosenedBy compares the policies of another configuration with these, under the guard of this configuration. It
// returns nil if the policies are the same.
func (p *components) loosenedBy(ctx context.Context, next *components, loosen bool) (*policy.Loosening, error) {
	was, now := p.Config.Policy, next.Config.Policy
	guarded := was.GuardReload && !loosen
	if guarded && !now.GuardReload {
		return nil, loosens("policy.guardReload is on, and would be off")
	}
	before, after := p.policy.Judge(), next.policy.Judge()
	if before.Revision() == after.Revision() && reflect.DeepEqual(was.CanUseTool, now.CanUseTool) {
		return nil, nil
	}
	l, err := p.loosening(ctx, before, after, guarded)
	if err != nil || l.Looser+l.Unknown == 0 {
		return nil, err
	}
	return &l, nil
}

// loosening returns which recorded calls the policies after let pass and the policies before do not. With
// policy.guardReload such a call is an error, and so is a call that cannot be judged.
func (p *components) loosening(ctx context.Context, before, after policy.Judge, guarded bool) (
	policy.Loosening, error,
) {
	l := policy.Loosening{Examples: []string{}}
	if p.decisions == nil {
		return l, nil
	}
	p.decisions.Flush()
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(p.testOnlyCompare, compareTime))
	defer cancel()
	report, err := replay.Run{Was: &before, Now: after, Last: comparedCalls}.Of(bounded, p.decisions.Records())
	if err != nil && ctx.Err() != nil { // another reload came, or whoever asked has left
		return l, ctx.Err()
	}
	if err != nil {
		if !guarded {
			p.log.Error("what a reload loosens is not known", "error", err)
			return l, nil
		}
		return l, loosens("the recorded calls cannot be judged again, so it is not known what it loosens: " +
			err.Error())
	}
	l.Compared, l.Looser, l.Unknown = report.Calls, report.Looser, report.Lost
	for _, f := range report.Flips {
		if f.Looser && len(l.Examples) < namedCalls {
			l.Examples = append(l.Examples, f.Words())
		}
	}
	switch {
	case !guarded:
	case l.Looser+l.Unknown > 0:
		return l, loosens("it " + l.Words())
	case l.Compared == 0:
		return l, loosens("no recorded call can be compared, so it is not known what it loosens")
	}
	return l, nil
}

func loosens(why string) error {
	return &tool.Error{
		Code: "reload_loosens", Msg: "the reload is refused: " + why,
		Hint: "policy.guardReload is on; sandboxd reload --loosen puts it in force all the same",
	}
}
