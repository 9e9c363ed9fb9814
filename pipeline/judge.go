package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// judge decides over the arguments as they are now. A policy may rewrite them
// once; the rewrite is judged as if the model had written it.
func (p *Pipeline) judge(ctx context.Context, c *tool.Call) error {
	done, err := whileJudged(ctx, c)
	if err != nil {
		return err
	}
	defer done()
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
			c.Decision = deny(tool.ByCore, tool.Reason{
				Rule: "core.rewritten_twice", Message: "the policies rewrote the arguments a second time",
			})
			return denial(c.Decision)
		}
		c.In.Args = args
	}
	if c.Decision.Verdict != tool.Ask && c.Approval == nil { // no person answers for it
		return nil
	}
	return p.digest(ctx, c)
}

// decide makes one pass: facts, policies, floor, the tool's own policy, the advice of
// hooks. It fills Facts, Settings and Decision.
func (p *Pipeline) decide(ctx context.Context, c *tool.Call) error {
	c.Decision = tool.Decision{}
	settings, err := p.settings(c)
	if err != nil {
		return err
	}
	c.In.Rules = p.floor.Rules(settings)
	if err := p.facts(ctx, c); err != nil {
		return err
	}
	if len(c.Facts.Uses.Siblings) > 0 {
		c.In.Rules = p.floor.Rules(c.Settings) // so that what changes there is kept
	}
	p.made.leaveOut(c)
	d, err := p.Policy.Decide(ctx, c)
	if err != nil {
		return err
	}
	c.Settings = c.Settings.Tighten(d.Obligations)
	c.Beside = p.beside(c)
	c.Decision = d.Beside(c.Beside, c.Spec.Name, c.Session.Mode)
	return nil
}

// Facts finds the tool of a call whose session is known, and fills what policies and the
// floor judge. It needs Tools and Workspaces alone, so that the examples of a policy have the
// facts of a real call.
func (o Options) Facts(ctx context.Context, c *tool.Call) error {
	if err := o.find(c); err != nil {
		return err
	}
	return o.facts(ctx, c)
}

// facts checks the arguments against the schema of the tool, and fills Facts and Settings.
func (o Options) facts(ctx context.Context, c *tool.Call) error {
	defer budget.Of(ctx).Compute(ctx)()
	if err := o.Tools.Validate(c.Spec, c.In.Args); err != nil {
		return err
	}
	uses, err := c.Tool.Uses(ctx, c.In)
	if err != nil {
		return err
	}
	if !c.Session.LetsUse(c.Spec.Name, uses) {
		return c.Session.SkillRestricted(c.Spec.Name, &uses)
	}
	c.Facts = tool.Facts{Class: c.Spec.Class, Mode: c.Session.Mode, Uses: uses, Origins: c.Origins}
	if c.Settings, err = o.settings(c); err != nil {
		return err
	}
	if uses.Unconfined && c.Settings.AllowUnsandboxedCommands {
		c.Settings = c.Settings.Unconfine() // the floor asks a person, see guard.Rules
	} else if s := siblings(c); len(s) > 0 {
		c.Facts.Uses.Siblings = s
		c.Settings = c.Settings.WithSiblings(s) // likewise
	}
	return nil
}

// settings returns those of the session of a call, before policies add to them: never more than those of any session
// above it.
func (o Options) settings(c *tool.Call) (guard.Settings, error) {
	s := c.Workspace.Settings
	if c.Session.Sandbox != nil {
		s = *c.Session.Sandbox
	}
	for _, up := range c.Session.Above {
		if up.Sandbox != nil {
			s = s.Meet(*up.Sandbox)
			continue
		}
		w, err := o.Workspaces.Of(up.Dir)
		if err != nil {
			return guard.Settings{}, err
		}
		s = s.Meet(w.Settings)
	}
	return s, nil
}

// Rejudge returns what the decision about a judged call would be with other arguments in another mode. Hooks are not
// run again; what they advised stays.
func (p *Pipeline) Rejudge(
	ctx context.Context, c *tool.Call, args json.RawMessage, mode tool.Mode,
) (tool.Decision, error) {
	v := *c
	v.In.Args, v.Session.Mode = args, mode
	err := p.contain(func() error { return p.decide(ctx, &v) })
	return v.Decision, err
}

// beside asks the other judges: the settings, the tool, hooks and the cage. A person is not
// asked about what the cage prevents anyway.
func (p *Pipeline) beside(c *tool.Call) tool.Beside {
	b := tool.Beside{
		Execution: c.Spec.Execution, HookAsks: c.Advice.Ask, HookAllow: c.Advice.Allow, HookSays: c.Advice.Reason,
		Confined: p.confined && confinementAnswers(c),
	}
	uses := c.Facts.Uses
	if c.Request.Outside {
		uses.Hosts = nil // the setting is about programs in the sandbox, which this call does not enter
	}
	for _, r := range p.floor.Rules(c.Settings).Check(uses) {
		// A server of others, and another agent's program, connect by themselves: no cage of the call holds them.
		unheld := (c.Request.Theirs || c.Spec.MCP != nil) && r.Ours
		if (r.Ask || r.Guess) && r.Caged && p.confined && !unheld {
			continue
		}
		if unheld && r.Code == "path_denied" && uses.Script == nil {
			r.Ask = false // a person cannot allow a denied file by itself either
			r.Message += ", for this search would read what is denied below it"
			r.Hint += "; or search with a shell command of the sandbox, which leaves out what is denied"
		}
		reason := tool.Reason{Rule: "floor:" + r.Rule, Code: r.Code, Message: r.Message, Hint: r.Hint}
		if at := r.At; at.Line > 0 {
			reason.At = &at
		}
		b.Refused = append(b.Refused, tool.Refused{Reason: reason, Ask: r.Ask})
	}
	return b
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
	return &tool.Error{Code: cmp.Or(r.Code, "policy_denied"), Msg: r.Message, Hint: r.Hint}
}

// confines reports whether a program that runs is isolated at all: by namespaces,
// or by Landlock and seccomp together.
func confines(r sandbox.Report) bool { return r.Isolation != "" }

// rejection is the answer of a person, or of nobody, that ends a call.
type rejection struct {
	status tool.Status
	answer tool.Approval
}

func (r rejection) Error() string { return cmp.Or(r.answer.Reason, "Execution rejected by user") }

var _ error = rejection{}

func asRejection(err error) (rejection, bool) {
	var r rejection
	ok := errors.As(err, &r)
	return r, ok
}
