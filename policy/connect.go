package policy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// Connect says what the rules say of one connection of a call that runs, beyond what they
// said of the call: all of them are asked again, with input.connection and with its host
// among input.hosts, and what is new counts. Of what allows only findings count whose
// subject is the connection. A decision without reasons means that no rule has an opinion.
//
// Callbacks and list policies judge calls alone. The connection is not counted for rules that
// count, which see zeros here. The error is only ever the cancellation of ctx.
func (e *Engine) Connect(ctx context.Context, c *tool.Call, conn egress.Connection) (tool.Decision, error) {
	d := e.connect(ctx, e.current.Load(), c, conn)
	if err := ctx.Err(); err != nil {
		return coreDeny(d.Revision, "core.cancelled", err.Error()), err
	}
	return d, nil
}

// SeesRequests reports whether a rule reads the method or the path of input.connection. If
// none does, all requests to a host have the same answer.
func (e *Engine) SeesRequests() bool { return e.current.Load().requests }

// Revision is the revision of the policies in force.
func (e *Engine) Revision() string { return e.current.Load().id }

func (e *Engine) connect(ctx context.Context, r *revision, c *tool.Call, conn egress.Connection) tool.Decision {
	said, err := input.New(c)
	if err != nil {
		return coreDeny(r.id, "core.input", err.Error())
	}
	in, err := input.NewConnecting(c, conn)
	if err != nil {
		return coreDeny(r.id, "core.input", err.Error())
	}
	return e.fresh(ctx, r, c, e.opts.Deadline, said, in)
}

// fresh decides by what rules say of in beyond what they said before.
func (e *Engine) fresh(
	ctx context.Context, r *revision, c *tool.Call, deadline time.Duration, said, in *input.Document,
) tool.Decision {
	var found [2][]Finding
	for i, doc := range []*input.Document{said, in} {
		seen := &evidence{revision: r, input: doc, call: c.ID, deadline: deadline}
		if err := e.findings(ctx, c, seen, nil); err != nil {
			return coreDeny(r.id, coreRule(err), err.Error())
		}
		found[i] = seen.findings
	}
	fresh := slices.DeleteFunc(found[1], func(f Finding) bool {
		return slices.ContainsFunc(found[0], func(old Finding) bool {
			return f.ID == old.ID && f.Effect == old.Effect && f.Message == old.Message && f.Subject == old.Subject
		})
	})
	return combineFresh(r.id, fresh, in)
}

// combineFresh makes one decision of what rules say of a call that has begun. It is total.
func combineFresh(revision string, fresh []Finding, in *input.Document) tool.Decision {
	if !in.Mode.Valid() {
		return coreDeny(revision, "core.mode", fmt.Sprintf("%q is not a permission mode", in.Mode))
	}
	by := map[Effect][]Finding{}
	for _, f := range fresh {
		e := known(f.Effect)
		if e == EffectRewrite || f.Obligations != (guard.Obligations{}) {
			return coreDeny(revision, "core.rewrite",
				fmt.Sprintf("%s changes the call or its settings, and the call has begun", f.ID))
		}
		if e == EffectAllow && (in.Connection == nil || f.Subject != input.SubjectConnection) {
			continue // it allows the call, not where the call connects
		}
		by[e] = append(by[e], f)
	}
	d := tool.Decision{Verdict: tool.Allow, Revision: revision}
	asks := by[EffectAsk]
	if in.Mode == tool.ModeBypassPermissions { // P-07, as before the call
		asks = nil
	}
	switch {
	case len(by[EffectDeny]) > 0:
		d.Verdict, d.By, d.Reasons = tool.Deny, tool.ByRule, reasons(by[EffectDeny], in)
	case len(asks) > 0:
		d.Verdict, d.By, d.Reasons = tool.Ask, tool.ByRule, reasons(asks, in)
	case len(by[EffectAllow]) > 0:
		d.By, d.Reasons = tool.ByRule, reasons(by[EffectAllow], in)
	}
	return d.InMode(in.Mode)
}

// seesRequests reports whether what differs between requests is among refs.
func seesRequests(refs []ast.Ref) bool {
	return slices.ContainsFunc(refs, func(ref ast.Ref) bool {
		if !ref[0].Equal(ast.InputRootDocument) || len(ref) > 1 && !ref[1].Equal(ast.StringTerm("connection")) {
			return false
		}
		return len(ref) < 3 || ref[2].Equal(ast.StringTerm("method")) || ref[2].Equal(ast.StringTerm("path")) ||
			!ref[2].IsGround()
	})
}
