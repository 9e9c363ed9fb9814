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

// shadow is policy.shadow of one configuration.
type shadow struct {
	judge  *policy.Shadow // lives as long as the daemon; nil outside it
	engine *policy.Engine // nil: none is configured, or it does not load
	failed error          // why it does not load
}

// load loads the policies of the shadow. They judge nothing that counts, so a mistake in them
// keeps nothing from starting; use tells of it.
func (s *shadow) load(ctx context.Context, p *components) {
	s.engine, s.failed = nil, nil
	if s.judge == nil || p.Config.Policy.Shadow == "" {
		return
	}
	opts := p.shadowOptions()
	opts.CanUseTool = p.canUseTool() // never asked: its answer to the live policies is used
	s.engine, s.failed = policy.New(ctx, opts)
}

// use puts the shadow in force, with what its files say now.
func (s *shadow) use(log *slog.Logger) {
	s.judge.Use(s.engine, s.failed)
	if state := s.judge.State(); state != nil && state.Failure != "" {
		log.Warn("policy.shadow judges by older files or not at all", "error", state.Failure)
	}
}

// shadowOptions are the policies of the configuration with policy.shadow for policy.dirs.
func (s *Site) shadowOptions() policy.Options {
	o := s.PolicyOptions()
	o.Dirs = []string{s.Config.Policy.Shadow}
	return o
}

// comparedCalls are how many of the newest recorded calls a reload compares.
const comparedCalls = 10_000

// compareTime bounds that: a slow rule must not hold up whoever stops the daemon.
const compareTime = 15 * time.Second

// namedCalls are how many of those that are looser are named.
const namedCalls = 5

// compare looks at the policies that a reload of files would put in force.
func (p *components) compare(ctx context.Context, before, after policy.Judge, loosen bool) (policy.Loosening, error) {
	return p.loosening(ctx, before, after, p.Config.Policy.GuardReload && !loosen)
}

// loosenedBy looks at the policies of another configuration, under the guard of this one. It is
// nil where the policies are the same.
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

// loosening says what the second judge lets pass of the recorded calls that the first does not.
// With a guard that is an error, and so is what cannot be known.
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
	if err != nil && ctx.Err() != nil { // a reload of all came between, or whoever asked left
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
