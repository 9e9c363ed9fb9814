package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/input"
)

// Evidence is what the decision about one call was made of. It belongs to the
// context with which the call is judged, so it lives exactly as long; a call that is
// judged again replaces it.
//
//	ctx, seen := policy.WithEvidence(ctx)
//	d, err := engine.Decide(ctx, c)
//	x, err := seen.Explain(d)
type Evidence struct {
	mu   sync.Mutex
	last *evidence // guarded by mu; nil: no rule was asked
}

// evidence is what one pass of the rules saw and said.
type evidence struct {
	revision *revision
	input    *input.Document
	deadline time.Duration // of the rules; 0: that of the engine
	findings []Finding     // in the order of their packages, those of policies and callback last

	call     string    // its id
	at       time.Time // when the rules were asked
	first    time.Time // when they were asked for the first time about this call
	rewrites bool      // this pass, or one before it, changed the arguments
	opinion  *opinion  // of the callback; nil: it was not asked
}

// opinion is what the callback said; a nil verdict is no opinion.
type opinion struct{ *callback.Opinion }

type evidenceKey struct{}

// WithEvidence returns a context for one call, and what will be known of its
// decision.
func WithEvidence(ctx context.Context) (context.Context, *Evidence) {
	v := &Evidence{}
	return context.WithValue(ctx, evidenceKey{}, v), v
}

// evidenceOf returns the evidence of the call with this context; nil if nobody wants it.
func evidenceOf(ctx context.Context) *Evidence {
	v, _ := ctx.Value(evidenceKey{}).(*Evidence)
	return v
}

func (v *Evidence) set(seen *evidence) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if old := v.last; old != nil && seen != nil && old.call == seen.call {
		seen.first, seen.rewrites = old.first, old.rewrites
	}
	v.last = seen
}

// of returns the evidence of this decision. A decision without a revision was made without the rules.
func (v *Evidence) of(d tool.Decision) *evidence {
	if v == nil || d.Revision == "" {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

// Explain says what a decision was made of.
func (v *Evidence) Explain(d tool.Decision) (Explanation, error) {
	x := Explanation{Decision: d, Findings: []Finding{}}
	seen := v.of(d)
	if seen == nil {
		x.Note = "no rule was asked"
		return x, nil
	}
	x.Findings = append(x.Findings, seen.findings...)
	var err error
	x.Input, err = seen.input.JSON()
	return x, err
}

// opinions returns the findings of list policies and of the callback. What a policy allows stays advisory unless the
// operator chose final; a callback is final.
func (e *Engine) opinions(ctx context.Context, c *tool.Call, seen *evidence, ask callback.CanUseTool) (
	[]Finding, error,
) {
	var out []Finding
	about := callback.Context{Session: c.Session, Spec: c.Spec, Facts: c.Facts}
	if len(e.opts.Policies) > 0 {
		o, err := callback.NewComposite(e.opts.Policies).Evaluate(ctx, c.Spec.Name, c.In.Args, about)
		if err != nil {
			return nil, fmt.Errorf("list policies: %w", err)
		}
		out = append(out, opinionFindings("policies", o, c.Spec.Name, e.opts.Verdict == callback.VerdictFinal)...)
		if as := tool.As(c.Spec.Name); as != "" {
			o, err := callback.NewComposite(e.opts.Policies).Evaluate(ctx, as, c.In.Args, about)
			if err != nil {
				return nil, fmt.Errorf("list policies: %w", err)
			}
			out = append(out, stricter(opinionFindings("policies", o, as, false), out)...)
		}
	}
	if ask != nil {
		o, err := askAs(ctx, c, about, ask)
		if err != nil {
			return nil, fmt.Errorf("canUseTool: %w", err)
		}
		seen.opinion = &opinion{o}
		out = append(out, opinionFindings("canUseTool", o, c.Spec.Name, true)...)
	}
	return out, nil
}

// askAs asks a callback about a call. A tool that is another by its own name is shown as that other one, because the
// callback may know only that; what it puts in place of the arguments comes back.
func askAs(ctx context.Context, c *tool.Call, about callback.Context, ask callback.CanUseTool) (
	*callback.Opinion, error,
) {
	name, args := c.Spec.Name, slices.Clone(c.In.Args)
	about.Dir = tool.DirAs(name, args, cmp.Or(c.In.Dir, c.Session.Dir), c.In.Home)
	as := tool.As(name)
	if as == "" {
		return ask(ctx, name, args, about)
	}
	about.CalledAs = name
	shown := tool.ArgsAs(name, args)
	o, err := ask(ctx, as, slices.Clone(shown), about)
	if err != nil || o == nil || o.Input == nil {
		return o, err
	}
	back := *o
	back.Input, err = tool.ArgsFrom(name, o.Input, shown)
	return &back, err
}

func opinionFindings(id string, o *callback.Opinion, name string, final bool) []Finding {
	if o == nil {
		return nil
	}
	var out []Finding
	if o.Input != nil && o.Verdict != tool.Deny {
		out = append(out, Finding{
			ID: id, Effect: EffectRewrite, Message: "the arguments were changed by " + id, args: o.Input,
		})
	}
	f := Finding{ID: id, Effect: EffectDeny, Message: o.Reason}
	switch o.Verdict {
	case tool.Allow:
		if !final {
			return out
		}
		f.Effect, f.Message = EffectAllow, name+" is allowed by "+id
	case tool.Ask:
		f.Effect = EffectAsk
		f.Message = cmp.Or(o.Reason, fmt.Sprintf("%s asks before %q", id, name))
	default:
		f.Message = cmp.Or(o.Reason, fmt.Sprintf("Permission denied for tool %q", name))
	}
	return append(out, f)
}
