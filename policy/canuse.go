package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/tool"
)

// Opinion is the result of a [PermissionPolicy] or a [CanUseTool] callback (P-09).
// Make one with [Allow], [Deny], [AskPerson] or [AllowWithInput].
type Opinion struct {
	Effect Effect
	Reason string
	Input  json.RawMessage // of AllowWithInput: the arguments to use instead
}

// Allow lets the call run.
func Allow() *Opinion { return &Opinion{Effect: EffectAllow} }

// Deny refuses the call with a reason for the model.
func Deny(reason string) *Opinion { return &Opinion{Effect: EffectDeny, Reason: reason} }

// AskPerson sends the call to a person.
func AskPerson(reason string) *Opinion { return &Opinion{Effect: EffectAsk, Reason: reason} }

// AllowWithInput lets the call run with other arguments, which are judged like
// any others (P-10).
func AllowWithInput(input json.RawMessage) *Opinion {
	return &Opinion{Effect: EffectAllow, Input: input}
}

// Context is what a policy may know besides tool name and input.
type Context struct {
	Session tool.Session
	Spec    tool.Spec
	Facts   tool.Facts
}

// CanUseTool decides about one call; nil means that it has no opinion and the
// next check decides (P-08). An error denies.
type CanUseTool func(ctx context.Context, toolName string, input json.RawMessage, c Context) (*Opinion, error)

// SetCanUseTool sets the callback of one session, which has priority over the
// mode; nil returns control to the mode (P-20).
func (e *Engine) SetCanUseTool(session string, cb CanUseTool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cb == nil {
		delete(e.callbacks, session)
		return
	}
	e.callbacks[session] = cb
}

// ModeChanged must be called when the mode of a session was set: the new mode
// takes effect with the next call and the session's callback is gone (P-19).
func (e *Engine) ModeChanged(session string) { e.SetCanUseTool(session, nil) }

func (e *Engine) callback(session string) CanUseTool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cb, ok := e.callbacks[session]; ok {
		return cb
	}
	return e.opts.CanUseTool
}

// opinions are the findings of list policies and of the callback. What a policy
// allows stays advisory unless the operator chose final; a callback is final.
func (e *Engine) opinions(ctx context.Context, c *tool.Call) ([]Finding, error) {
	var out []Finding
	about := Context{Session: c.Session, Spec: c.Spec, Facts: c.Facts}
	if len(e.opts.Policies) > 0 {
		o, err := e.opts.composite().Evaluate(ctx, c.Spec.Name, c.In.Args, about)
		if err != nil {
			return nil, fmt.Errorf("list policies: %w", err)
		}
		out = append(out, opinionFindings("policies", o, c.Spec.Name, e.opts.Verdict == VerdictFinal)...)
	}
	if cb := e.callback(c.Session.ID); cb != nil {
		o, err := cb(ctx, c.Spec.Name, slices.Clone(c.In.Args), about)
		if err != nil {
			return nil, fmt.Errorf("canUseTool: %w", err)
		}
		out = append(out, opinionFindings("canUseTool", o, c.Spec.Name, true)...)
	}
	return out, nil
}

func opinionFindings(id string, o *Opinion, name string, final bool) []Finding {
	if o == nil {
		return nil
	}
	var out []Finding
	if o.Input != nil && o.Effect != EffectDeny {
		out = append(out, Finding{ID: id, Effect: EffectRewrite, Message: "the arguments were changed by " + id, args: o.Input})
	}
	f := Finding{ID: id, Effect: o.Effect, Message: o.Reason}
	switch o.Effect {
	case EffectAllow:
		if !final {
			return out
		}
		f.Message = name + " is allowed by " + id
	case EffectAsk:
		f.Message = cmp.Or(o.Reason, fmt.Sprintf("%s asks before %q", id, name))
	default:
		f.Effect = EffectDeny
		f.Message = cmp.Or(o.Reason, fmt.Sprintf("Permission denied for tool %q", name))
	}
	return append(out, f)
}
