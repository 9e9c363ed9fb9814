package pipeline

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// fail makes the result of a call that ended with an error in a stage. Whatever
// an earlier stage put there for the model is gone.
func fail(c *tool.Call, stage string, err error) {
	r := &c.Result
	r.Data, r.Content, r.FormattedText, r.VarResult, r.VarArgs, r.Truncated = nil, nil, "", "", "", false
	if no, ok := asRejection(err); ok {
		rejected(r, stage, no)
		return
	}
	e := tool.ErrorOf(err)
	if e != nil {
		with := *e
		r.Error = &with
	} else {
		r.Error = &tool.Error{Code: stage + "_failed", Msg: err.Error()}
	}
	if r.Error.Stage == "" {
		r.Error.Stage = stage
	}
	r.Status = tool.StatusError
	if r.Error.Code == "tool_not_found" || r.Error.Code == "tool_disabled" {
		r.Status = tool.StatusNotFound
	}
	r.FinalText = r.Error.Msg
	if stage == "run" && e == nil {
		r.FinalText = fmt.Sprintf("Error executing tool %s: %s", c.Spec.Name, err)
	}
	if r.Error.Hint != "" {
		r.FinalText += "\nHint: " + r.Error.Hint
	}
	if notes := refusedConnections(c); notes != "" {
		r.FinalText += "\n" + notes
	}
}

// rejected is a call or a result that a person, or the absence of one, refused.
// The reason is for the model to heed.
func rejected(r *tool.Result, stage string, no rejection) {
	r.Status = no.status
	what, code := "Execution not approved", "execution_rejected"
	if no.status == tool.StatusResultRejected {
		what, code = "Result not approved for LLM", "result_rejected"
	}
	if stage == "settle" {
		what = "Changes not approved"
	} else {
		stage = "approve"
	}
	r.RejectReason = no.Error()
	r.Error = &tool.Error{Code: cmp.Or(no.answer.Code, code), Stage: stage, Msg: what}
	r.FinalText = what + ": " + r.RejectReason
}

// refused reports whether a person, a policy, the floor or a hook denied the call. A call that could not be tried has
// failed instead.
func refused(c *tool.Call) bool {
	switch c.Result.Status {
	case tool.StatusExecutionRejected, tool.StatusResultRejected:
		return true
	}
	return c.Advice.Block || c.Decision.Verdict == tool.Deny && len(c.Decision.Reasons) > 0
}

// finish adds what is known on every path: the decision, the layers and the cost.
func finish(c *tool.Call) {
	r := &c.Result
	if c.Decision.Revision != "" || len(c.Decision.Reasons) > 0 {
		d := c.Decision
		r.Decision = &d
	}
	if r.Status == "" { // judged only
		r.Status = tool.StatusSuccess
		r.FinalText = "judged, not run: " + c.Decision.Verdict.String()
	}
	if c.Report.Profile != "" {
		rep := c.Report
		if rep.Denials == nil {
			rep.Denials = []sandbox.Denial{}
		}
		if rep.Missing == nil {
			rep.Missing = []string{}
		}
		r.Sandbox = &rep
	}
	r.Changes, r.Undo = c.Changes.List, c.Changes.Undo
	if c.Changes.Total > len(r.Changes) {
		r.ChangesTotal = c.Changes.Total
	}
	if n := c.Network; len(n.Connections) > 0 || n.Omitted > 0 {
		r.Network = &n
	}
	u := tool.Usage{WallMS: time.Since(c.Started).Milliseconds()}
	if o := c.Output.Usage; o != nil {
		u.CPUMS, u.MaxRSSBytes = o.CPU.Milliseconds(), o.MaxRSSBytes
	}
	r.Usage = &u
}
