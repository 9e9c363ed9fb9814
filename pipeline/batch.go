package pipeline

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// maxEarly is how many bytes of results one batch may hold that cannot be answered yet,
// because a call before them has not ended.
const maxEarly = 4 << 20

// shortText is how many bytes of text stay in a result that is shortened for lack of room.
const shortText = 2000

// ran is one result of a batch, with the memory that it takes.
type ran struct {
	tool.Result
	hold  *budget.Hold
	early int64 // bytes of maxEarly that it takes
}

// DoAll runs a batch: read-only calls side by side, then the others in order. It yields
// one result per call in the order of the calls, each as soon as it can be. A result that
// must wait for others is shortened when they are large: the whole of it is in its variable.
func (p *Pipeline) DoAll(ctx context.Context, session tool.Session, reqs []tool.Request) iter.Seq[tool.Result] {
	readOnly := func(r tool.Request) bool {
		t, err := p.Tools.Lookup(session, r.Tool)
		return err == nil && t.Spec().ReadOnly
	}
	run := func(ctx context.Context, req tool.Request) ran {
		hold := budget.Of(ctx).Part()
		return ran{Result: p.Do(budget.With(ctx, hold), req), hold: hold}
	}
	var early atomic.Int64
	keep := func(r ran) ran {
		r.early = heldBy(&r.Result)
		if early.Add(r.early) > maxEarly {
			early.Add(-r.early)
			r.Result = shortened(r.Result)
			r.early = 0
			r.hold.Release() // what is left is small, and of no more calls than a batch may have
		}
		return r
	}
	return func(yield func(tool.Result) bool) {
		for r := range tool.Batch(ctx, reqs, readOnly, run, keep) {
			more := yield(r.Result)
			early.Add(-r.early)
			r.hold.Release()
			if !more {
				return
			}
		}
	}
}

// heldBy estimates the memory of a result, in bytes.
func heldBy(r *tool.Result) int64 {
	const besides = 2 << 10 // the decision, the report, and what is small
	n := besides + len(r.FinalText) + len(r.FormattedText) + len(r.RejectReason)
	if r.Data != nil {
		n += len(r.FormattedText) // data says the same in another form
	}
	for _, c := range r.Content {
		n += len(c.Text) + len(c.Data)
	}
	for _, m := range r.SystemMessages {
		n += len(m)
	}
	return int64(n)
}

// shortened returns the result with a short text; its variable has the whole text.
func shortened(r tool.Result) tool.Result {
	r.Data, r.Content, r.FormattedText = nil, nil, ""
	if len(r.FinalText) <= shortText {
		return r
	}
	r.Truncated = true
	r.FinalText, _ = tool.TruncateText(r.FinalText, shortText)
	where := "run the call alone to see all of it"
	if r.VarResult != "" {
		where = fmt.Sprintf("the whole of it is in variable %s", r.VarResult)
	}
	r.FinalText += "\n\n[shortened: the results of this batch are too large to wait for the calls before them; " +
		where + "]"
	return r
}
