package policy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

const (
	// maxChanges is how many changes rules see at a time.
	maxChanges = 1000
	// changesDeadline is for rules about changes: no program waits for them, and a busy machine must not
	// undo what a call did.
	changesDeadline = 5 * time.Second
)

// JudgeChanges says what the rules say of what a call has changed, beyond what they said of the call:
// all of them are asked again, with input.changes, and what is new counts. Nothing has to be
// allowed. Of many changes rules see some at a time: deletions first, and of those what is in no commit.
// Callbacks and list policies judge calls alone. The error is only ever the cancellation of ctx.
func (e *Engine) JudgeChanges(ctx context.Context, c *tool.Call, changes []tool.Changed) (tool.Decision, error) {
	r := e.current.Load()
	changes = slices.SortedStableFunc(slices.Values(changes), func(a, b tool.Changed) int {
		return cmp.Compare(weight(b), weight(a))
	})
	all := tool.Decision{Verdict: tool.Allow, Revision: r.id}
	for some := range slices.Chunk(changes, maxChanges) {
		d := e.judgeChanges(ctx, r, c, some)
		if err := ctx.Err(); err != nil {
			return coreDeny(r.id, "core.cancelled", err.Error()), err
		}
		if d.Verdict < all.Verdict { // the strictest counts
			all = d
		}
	}
	return all, nil
}

// weight is more for what rules should see together.
func weight(c tool.Changed) (n int) {
	for i, is := range []bool{c.Tracked, c.Uncommitted, c.Kind == tool.ChangeModify, c.Kind == tool.ChangeDelete} {
		if is {
			n += 1 << i
		}
	}
	return n
}

// SeesChanges reports whether a rule reads input.changes.
func (e *Engine) SeesChanges() bool { return e.current.Load().changes }

func (e *Engine) judgeChanges(ctx context.Context, r *revision, c *tool.Call, changes []tool.Changed) tool.Decision {
	said, err := input.New(c)
	if err != nil {
		return coreDeny(r.id, "core.input", err.Error())
	}
	in, err := input.NewChanged(c, changes)
	if err != nil {
		return coreDeny(r.id, "core.input", err.Error())
	}
	return e.fresh(ctx, r, c, changesDeadline, said, in)
}
