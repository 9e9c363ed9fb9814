package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/callback"
)

// opinions are the findings of list policies and of the callback. What a policy
// allows stays advisory unless the operator chose final; a callback is final.
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
		o, err := ask(ctx, c.Spec.Name, slices.Clone(c.In.Args), about)
		if err != nil {
			return nil, fmt.Errorf("canUseTool: %w", err)
		}
		seen.opinion = &opinion{o}
		out = append(out, opinionFindings("canUseTool", o, c.Spec.Name, true)...)
	}
	return out, nil
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
