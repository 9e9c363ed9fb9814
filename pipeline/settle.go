package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	maxAskedDiff = 64 << 10 // bytes of the diff that a person is shown
	maxAsked     = 200      // changes that a question names
)

// settle judges what the call has changed, by the policies that are in force now. What they or a
// person refuse is undone, also where the call failed or was cancelled.
func (p *Pipeline) settle(ctx context.Context, c *tool.Call) error {
	now := p.running.inForce()
	unkept := c.Undoable && c.Changes.Undo != nil && !c.Changes.Undo.Kept
	if c.Changes.Made == nil || !now.Policy.SeesChanges() && !unkept {
		return nil
	}
	d, err := now.judgeChanges(ctx, c)
	if err != nil {
		d = deny(tool.ByCore, tool.Reason{Rule: "core.changes", Message: err.Error()})
	}
	if unkept && d.Verdict == tool.Allow { // nobody was asked because all would be kept
		d.Verdict, d.By = tool.Ask, tool.ByCore
		d.Reasons = []tool.Reason{{Rule: "undoable", Message: "not everything can be undone: " + c.Changes.Undo.Why}}
	}
	switch {
	case d.Verdict == tool.Allow, d.Verdict == tool.Ask && now.mayStay(c):
		return nil
	case d.Verdict == tool.Ask:
		answer, err := now.askChanges(ctx, c, d)
		if err != nil {
			answer = tool.Approval{Reason: err.Error()}
		}
		c.Approval = &answer
		if answer.Approved {
			return nil
		}
		return p.takeBack(ctx, c, cmp.Or(answer.Reason, reasonOf(d)), "A person can have the changes again")
	}
	return p.takeBack(ctx, c, reasonOf(d), "When the rule is changed, a person can have the changes again")
}

func (p *Pipeline) judgeChanges(ctx context.Context, c *tool.Call) (tool.Decision, error) {
	ctx = context.WithoutCancel(ctx) // it is judged whatever ended the call
	changes, err := c.Changes.Made.Facts(ctx)
	if err != nil {
		return tool.Decision{}, err
	}
	return p.Policy.JudgeChanges(ctx, c, changes)
}

// mayStay reports whether nobody is asked: a person approved the call before it ran or asked for
// it, or everything can be undone and the settings let that pass.
func (p *Pipeline) mayStay(c *tool.Call) bool {
	return c.Approved() || c.Request.Approver != "" || p.Undoable && c.Changes.Undo != nil && c.Changes.Undo.Kept
}

func (p *Pipeline) askChanges(ctx context.Context, c *tool.Call, d tool.Decision) (tool.Approval, error) {
	diff, err := c.Changes.Made.Diff(context.WithoutCancel(ctx), maxAskedDiff)
	if err != nil {
		return tool.Approval{}, err
	}
	made := tool.Changing{
		Changes: c.Changes.List[:min(len(c.Changes.List), maxAsked)], Total: c.Changes.Total, Diff: diff,
		Why: d.Reasons,
	}
	if u := c.Changes.Undo; u != nil {
		made.Kept, made.Unkept = u.Kept, u.Why
	}
	defer tool.YieldSlot(ctx)()
	return p.Approvals.Changes(ctx, c, made)
}

func reasonOf(d tool.Decision) string {
	if len(d.Reasons) == 0 {
		return "denied without a reason, which is a bug of the judge"
	}
	why := fmt.Sprintf("%s (%s)", d.Reasons[0].Message, d.Reasons[0].Rule)
	if hint := d.Reasons[0].Hint; hint != "" {
		why += ". Hint: " + hint
	}
	return why
}

// takeBack undoes what the call changed. It returns the rejection that ends the call; again says how to get the
// changes again.
func (p *Pipeline) takeBack(ctx context.Context, c *tool.Call, why, again string) error {
	by, left, err := c.Changes.Made.Undo(context.WithoutCancel(ctx))
	c.Changes.List, c.Changes.Total, c.Changes.Made = left, len(left), nil
	lost := c.Changes.Undo != nil && !c.Changes.Undo.Kept
	if len(left) == 0 && err == nil && !lost {
		c.Changes.Undo = nil
	}
	said := []string{why}
	switch {
	case err != nil:
		said = append(said, "What was changed could not be undone: "+err.Error())
	case len(left) > 0:
		said = append(said, fmt.Sprintf("It was undone except %d paths, which the answer names", len(left)))
	case lost:
		said = append(said, "What is known of it was undone, but not everything was kept: "+c.Changes.Undo.Why)
	default:
		said = append(said, "Everything is as it was before")
	}
	if by != "" {
		said = append(said, again+" by "+cmp.Or(p.UndoBy, "sandboxd undo")+" "+by)
	}
	answer := tool.Approval{Code: "changes_rejected", Reason: strings.Join(said, ". ")}
	return rejection{tool.StatusExecutionRejected, answer}
}
