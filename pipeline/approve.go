package pipeline

import (
	"context"
	"encoding/json"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// maxQuestions bounds the questions of one call. A call asks again if the session, the settings or the policies changed
// while a person thought.
const maxQuestions = 3

// approve asks a person if the verdict is ask, and waits. It then judges the call again by the session and the
// configuration of that moment, for which hooks that are new advise as well. If anything differs from what the person
// approved, it asks again.
func (p *Pipeline) approve(ctx context.Context, c *tool.Call) error {
	for range maxQuestions {
		if c.Decision.Verdict == tool.Allow || p.undoReplacesQuestion(ctx, c) {
			return nil
		}
		answer, err := p.ask(ctx, c)
		if err != nil {
			return err
		}
		c.Approval = &answer
		if !answer.Approved {
			return rejection{tool.StatusExecutionRejected, answer}
		}
		approved, advised := c.Digest, c.Advice
		if answer.Args != nil { // judged when they were submitted, see Edited
			c.In.Args, c.Advice.Saw, approved = answer.Args, answer.Args, answer.Digest
		}
		now := p.running.inForce()
		if err := now.lookup(ctx, c); err != nil {
			return err
		}
		if err := now.beforeAgain(ctx, c); err != nil {
			return err
		}
		if err := now.judge(ctx, c); err != nil {
			return err
		}
		if c.Digest == approved && !newlyAsks(c.Advice, advised) {
			return nil
		}
	}
	if c.Decision.Verdict == tool.Allow {
		return nil
	}
	return &tool.Error{
		Code: "approval_stale",
		Msg:  "what the call would do changed each time while it waited for a person",
		Hint: "call again when the files, the mode and the policies are at rest",
	}
}

// newlyAsks reports whether hooks ask about a call for a reason that a person who answered before did not know.
func newlyAsks(now, then tool.Advice) bool {
	return now.Ask && (!then.Ask || now.Reason != then.Reason)
}

// undoReplacesQuestion reports whether the call may run without the question of its rules. That needs three things: the
// rules ask only about lost files, the settings let changes pass that can be undone, and everything that the call may
// lose is kept. The last is checked again before the tool runs.
func (p *Pipeline) undoReplacesQuestion(ctx context.Context, c *tool.Call) bool {
	now := p.running.inForce()
	other := c.Decision.Else
	if !now.Undoable || other == nil || other.Verdict != tool.Allow || p.Journal == nil {
		return false
	}
	// Without a cage it may write where nothing is kept; what runs elsewhere is not kept at all.
	if !p.confined || c.Request.DryRun || c.Request.Outside || c.Request.Own != nil {
		return false
	}
	why := p.Journal.Whole(ctx, c)
	if why != "" {
		if len(c.Decision.Reasons) > 0 { // in the message, for a person is not shown the hints
			c.Decision.Reasons[0].Message += "; not everything can be undone: " + why
		}
		return false
	}
	asked := reasonOf(c.Decision)
	c.Undoable, c.Decision = true, *other
	c.Decision.By = tool.ByRule
	c.Decision.Reasons = []tool.Reason{{
		Rule:    "undoable",
		Message: "nobody is asked, for everything is kept that it may lose (policy.undoable): " + asked,
	}}
	return true
}

// Edit is the arguments that a person gives to a call that waits for an answer.
type Edit struct {
	CallID  string
	Call    tool.Request // with the arguments that the question showed
	Origins tool.Origins // of those
	Digest  string       // of the question
	Args    json.RawMessage
}

// Edited judges an edit by the settings and policies that are in force now. It returns the digest that the answer
// binds, or "" if something that the question showed has changed since: the edited call then needs a new question. If
// the policies deny the arguments, the error says why, and the person can change them.
func (p *Pipeline) Edited(ctx context.Context, e Edit) (digest string, err error) {
	err = p.contain(func() error {
		edited, err := p.judged(ctx, e, e.Args)
		if err != nil {
			return err
		}
		shown, err := p.judged(ctx, e, e.Call.Args)
		if err != nil || shown.Digest != e.Digest {
			return nil // it is denied by now, or it is another question
		}
		for path, sum := range edited.Binding.Sums {
			if was, both := shown.Binding.Sums[path]; both && was != sum {
				return nil
			}
		}
		digest = edited.Digest
		return nil
	})
	return digest, err
}

// judged judges a copy of a waiting call with other arguments, and computes its digest.
func (p *Pipeline) judged(ctx context.Context, e Edit, args json.RawMessage) (*tool.Call, error) {
	req := e.Call
	req.Args, req.Hypothetical = args, true // the call that waits is counted
	req.User = p.running.user(e.CallID)
	c := tool.NewCall(req)
	c.Origins, c.In.Origins = e.Origins, e.Origins
	c.Approval = &tool.Approval{Approved: true} // so that there is a digest whatever the verdict
	return c, p.running.inForce().again(ctx, c)
}

// again judges a call once more after a wait, by the session and the settings of now.
func (p *Pipeline) again(ctx context.Context, c *tool.Call) error {
	if err := p.lookup(ctx, c); err != nil {
		return err
	}
	return p.judge(ctx, c)
}

func (p *Pipeline) ask(ctx context.Context, c *tool.Call) (tool.Approval, error) {
	if by := c.Request.Approver; by != "" {
		return tool.Approval{Approved: true, By: by, Reason: "asked for the call"}, nil
	}
	defer tool.YieldSlot(ctx)()
	return p.Approvals.Execution(ctx, c)
}
