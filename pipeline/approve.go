package pipeline

import (
	"context"

	"github.com/sandboxd/sandboxd/tool"
)

// maxQuestions is how often one call may ask, because what it was judged by
// changed while a person thought.
const maxQuestions = 3

// approve waits for a person where the verdict is ask, and judges again: what was
// approved is what runs, or it is asked again.
func (p *Pipeline) approve(ctx context.Context, c *tool.Call) error {
	for range maxQuestions {
		if c.Decision.Verdict == tool.Allow {
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
		asked := c.Digest
		if answer.Args != nil {
			// Whoever edits the arguments knows them: their digest is the one approved.
			c.In.Args = answer.Args
		}
		if err := p.judge(ctx, c); err != nil {
			return err
		}
		if c.Digest == asked || answer.Args != nil {
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

func (p *Pipeline) ask(ctx context.Context, c *tool.Call) (tool.Approval, error) {
	defer tool.Park(ctx)()
	return p.Approvals.Execution(ctx, c)
}
