package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// judge decides over the arguments as they are now. A policy may rewrite them
// once; the rewrite is judged as if the model had written it.
func (p *Pipeline) judge(ctx context.Context, c *tool.Call) error {
	for rewritten := false; ; rewritten = true {
		if err := p.decide(ctx, c); err != nil {
			return err
		}
		args := c.Decision.Args
		if c.Decision.Verdict == tool.Deny {
			return denial(c.Decision)
		}
		if args == nil {
			break
		}
		if rewritten {
			c.Decision = deny(tool.ByCore, tool.Reason{Rule: "core.rewritten_twice", Message: "the policies rewrote the arguments a second time"})
			return denial(c.Decision)
		}
		c.In.Args = args
	}
	if c.Decision.Verdict != tool.Ask {
		return nil
	}
	digest, err := p.digest(ctx, c)
	c.Digest = digest
	return err
}

// decide makes one pass: schema, uses, policies, floor, the tool's own policy,
// the advice of hooks. It fills Facts, Settings and Decision.
func (p *Pipeline) decide(ctx context.Context, c *tool.Call) error {
	c.Decision = tool.Decision{}
	if err := p.Tools.Validate(c.Spec, c.In.Args); err != nil {
		return err
	}
	uses, err := c.Tool.Uses(ctx, c.In)
	if err != nil {
		return err
	}
	c.Facts = tool.Facts{Class: c.Spec.Class, Mode: c.Session.Mode, Uses: uses, Origins: c.Origins}
	c.Settings = p.Settings
	if c.Session.Sandbox != nil {
		c.Settings = *c.Session.Sandbox
	}
	if uses.Unconfined && c.Settings.AllowUnsandboxedCommands {
		c.Settings = c.Settings.Unconfine() // the floor asks a person, see sandbox.Check
	}
	d, err := p.Policy.Decide(ctx, c)
	if err != nil {
		return err
	}
	c.Settings = c.Settings.Tighten(d.Obligations)
	d = p.underFloor(d, sandbox.Check(uses, c.Settings))
	d = withTool(d, c.Spec)
	d = p.withAdvice(d, c)
	if d.Verdict == tool.Ask && c.Session.Mode == "dontAsk" { // P-06: nothing is ever asked
		d.Verdict = tool.Deny
	}
	c.Decision = d
	return nil
}

// Rejudge is what the decision about a judged call would be with other arguments
// in another mode. Hooks are not run again; what they advised stays.
func (p *Pipeline) Rejudge(ctx context.Context, c *tool.Call, args json.RawMessage, mode string) (tool.Decision, error) {
	v := *c
	v.In.Args, v.Session.Mode = args, mode
	err := p.contain(func() error { return p.decide(ctx, &v) })
	return v.Decision, err
}

// underFloor adds what the settings refuse. Nothing lifts a refusal; what a person
// may allow is asked, but for what the cage holds anyway.
func (p *Pipeline) underFloor(d tool.Decision, refused []sandbox.Refusal) tool.Decision {
	var hard, soft []tool.Reason
	for _, r := range refused {
		reason := tool.Reason{Rule: "floor:" + r.Rule, Code: r.Code, Message: r.Message, Hint: r.Hint}
		if at := r.At; at.Line > 0 {
			reason.At = &at
		}
		switch {
		case r.Ask && r.Caged && p.confined:
		case r.Ask:
			soft = append(soft, reason)
		default:
			hard = append(hard, reason)
		}
	}
	if len(hard) > 0 {
		if d.Verdict != tool.Deny {
			d.Reasons = nil
		}
		d.Verdict, d.By, d.Args = tool.Deny, tool.ByFloor, nil
		d.Reasons = append(hard, d.Reasons...)
		return d
	}
	return tighten(d, tool.ByFloor, soft...)
}

func withTool(d tool.Decision, s tool.Spec) tool.Decision {
	if s.Execution == tool.ExecAuto || s.Execution == "" {
		return d
	}
	return tighten(d, tool.ByTool, tool.Reason{Rule: "tool:" + string(s.Execution), Message: s.Name + " asks a person before it runs"})
}

// withAdvice lets hooks tighten, and lets them, or the rule that confined commands
// need no question, answer what only the mode asked (CX-38).
func (p *Pipeline) withAdvice(d tool.Decision, c *tool.Call) tool.Decision {
	if c.Advice.Ask {
		d = tighten(d, tool.ByHook, tool.Reason{Rule: "hook", Message: or(c.Advice.Reason, "a hook wants a person to look")})
	}
	if d.Verdict != tool.Ask || d.By != tool.ByMode {
		return d
	}
	switch {
	case c.Advice.Allow:
		d.Verdict, d.By = tool.Allow, tool.ByHook
		d.Reasons = []tool.Reason{{Rule: "hook", Message: or(c.Advice.Reason, "a hook allowed it")}}
	case c.Spec.Class == tool.ClassExec && c.Settings.AutoAllowBashIfSandboxed && p.confined && c.Session.Mode != "plan":
		d.Verdict = tool.Allow
		d.Reasons = []tool.Reason{{Rule: "floor:autoAllowBashIfSandboxed", Message: "it runs confined, so the mode does not ask"}}
	}
	return d
}

// tighten turns an allow into a question, or adds reasons to one.
func tighten(d tool.Decision, by tool.By, reasons ...tool.Reason) tool.Decision {
	if len(reasons) == 0 || d.Verdict == tool.Deny {
		return d
	}
	if d.Verdict == tool.Allow || d.By == tool.ByMode {
		d.By, d.Reasons = by, nil
	}
	if d.By == tool.ByTool { // a grant answers for the tool, and must not for who else asks
		d.By = by
	}
	d.Verdict = tool.Ask
	d.Reasons = append(slices.Clone(d.Reasons), reasons...)
	return d
}

func deny(by tool.By, reasons ...tool.Reason) tool.Decision {
	return tool.Decision{Verdict: tool.Deny, By: by, Reasons: reasons}
}

// denial is the error of a decision: the first reason speaks for it.
func denial(d tool.Decision) error {
	if len(d.Reasons) == 0 {
		return &tool.Error{Code: "denied", Msg: "denied without a reason, which is a bug of the judge"}
	}
	r := d.Reasons[0]
	return &tool.Error{Code: or(r.Code, "policy_denied"), Msg: r.Message, Hint: r.Hint}
}

// confines reports whether a program that runs is isolated at all: by namespaces,
// or by Landlock and seccomp together.
func confines(r sandbox.Report) bool { return r.Rung != "" }

// rejection is the answer of a person, or of nobody, that ends a call.
type rejection struct {
	status tool.Status
	answer tool.Approval
}

func (r rejection) Error() string { return or(r.answer.Reason, "Execution rejected by user") }

var _ error = rejection{}

func asRejection(err error) (rejection, bool) {
	var r rejection
	ok := errors.As(err, &r)
	return r, ok
}
