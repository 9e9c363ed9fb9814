package policy

import (
	"cmp"
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

// Revision returns the revision of the policies in force.
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

// maxFiles is how many files that a search found rules see at a time.
const maxFiles = 256

// Withheld says which of the files that a call found by itself it may not read: those of which rules deny or
// ask more than they said of the call. A rule for a whole tree has judged the search; one for a name at any
// depth, such as Read(*.pem), has not, and nobody is asked about each file. Callbacks and list policies judge
// calls alone. What cannot be judged is an error.
func (e *Engine) Withheld(ctx context.Context, c *tool.Call, paths []string) (map[string]bool, error) {
	r := e.current.Load()
	said, err := input.New(c)
	if err != nil {
		return nil, err
	}
	withheld := map[string]bool{}
	var judge func([]string) error
	judge = func(some []string) error {
		with := *c
		with.Facts.Uses.Paths = slices.Clone(c.Facts.Uses.Paths)
		for _, p := range some {
			with.Facts.Uses.Paths = append(with.Facts.Uses.Paths, guard.PathUse{Raw: p, Path: p, Op: guard.Read})
		}
		in, err := input.New(&with)
		if err != nil {
			return err
		}
		d := e.fresh(ctx, r, c, changesDeadline, said, in)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case d.By == tool.ByCore:
			return &tool.Error{Code: d.Reasons[0].Code, Msg: d.Reasons[0].Message, Hint: d.Reasons[0].Hint}
		case d.Verdict == tool.Allow:
			return nil
		case len(some) == 1:
			withheld[some[0]] = true
			return nil
		}
		half := len(some) / 2
		if err := judge(some[:half]); err != nil {
			return err
		}
		return judge(some[half:])
	}
	found := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { // what the call names was judged with it
		return slices.ContainsFunc(c.Facts.Uses.Paths, func(u guard.PathUse) bool {
			return u.Path == path && u.Op == guard.Read && !u.Recursive
		})
	})
	for some := range slices.Chunk(found, maxFiles) {
		if err := judge(some); err != nil {
			return nil, err
		}
	}
	return withheld, nil
}
