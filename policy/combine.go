package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

// Effect is the decision that one finding asks for.
type Effect string

// The effects, strongest first.
const (
	EffectDeny    Effect = "deny"
	EffectAsk     Effect = "ask"
	EffectRewrite Effect = "rewrite"
	EffectAllow   Effect = "allow"
	EffectCount   Effect = "count" // decides nothing; the call is counted for rules that count
)

// Finding is the result of one rule for one call.
type Finding struct {
	ID          string            `json:"id"`
	Effect      Effect            `json:"effect"`
	Message     string            `json:"message"`
	Hint        string            `json:"hint,omitempty"`
	Subject     string            `json:"subject,omitempty"` // id of the command, path or host that it is about
	Obligations guard.Obligations `json:"obligations,omitzero"`
	Patch       json.RawMessage   `json:"patch,omitempty"` // of a rewrite: a JSON merge patch over the arguments
	// Undoable: it asks about nothing but files of the workspace, which an undo can bring back.
	Undoable bool `json:"undoable,omitempty"`

	args json.RawMessage // of a rewrite by a callback: the arguments themselves
}

// combine makes one decision of all findings and the effect of the mode. It is
// total: every input has an answer, and what it does not know denies.
func combine(revision string, findings []Finding, mode Effect, in *input.Document) tool.Decision {
	d := tool.Decision{Revision: revision}
	if !in.Mode.Valid() {
		return coreDeny(revision, "core.mode", fmt.Sprintf("%q is not a permission mode", in.Mode))
	}
	by := map[Effect][]Finding{}
	for _, f := range findings {
		e := known(f.Effect)
		by[e] = append(by[e], f)
		d.Obligations = unite(d.Obligations, f.Obligations)
	}
	args, err := rewritten(by[EffectRewrite], in.Params)
	if err != nil {
		return coreDeny(revision, "core.rewrite", err.Error())
	}

	asks := by[EffectAsk]
	if in.Mode == tool.ModeBypassPermissions { // P-07: what rules ask passes
		asks = nil
	}
	switch {
	case len(by[EffectDeny]) > 0:
		d.Verdict, d.By = tool.Deny, tool.ByRule
		d.Reasons = reasons(by[EffectDeny], in)
		return d
	case len(asks) > 0:
		d.Verdict, d.By = tool.Ask, tool.ByRule
		d.Reasons = reasons(asks, in)
		d.Else = withoutUndoable(revision, findings, mode, in, d.Obligations)
	case len(by[EffectAllow]) > 0:
		d.Verdict, d.By = tool.Allow, tool.ByRule
		d.Reasons = reasons(by[EffectAllow], in)
	default:
		d.Verdict, d.By = verdictOf(mode), tool.ByMode
		d.Reasons = []tool.Reason{modeReason(mode, in)}
	}
	d = d.InMode(in.Mode)
	if args != nil && d.Verdict != tool.Deny {
		d.Args = args
		d.Reasons = append(d.Reasons, reasons(by[EffectRewrite], in)...)
	}
	return d
}

// withoutUndoable returns the decision if nobody is asked about what can be undone; nil if that makes no difference.
// Obligations stay.
func withoutUndoable(revision string, findings []Finding, mode Effect, in *input.Document, o guard.Obligations,
) *tool.Decision {
	asks := func(f Finding) bool { return f.Effect == EffectAsk && f.Undoable }
	if !slices.ContainsFunc(findings, asks) {
		return nil
	}
	d := combine(revision, slices.DeleteFunc(slices.Clone(findings), asks), mode, in)
	d.Obligations = o
	return &d
}

// known returns the effect of a finding. What is no effect denies.
func known(e Effect) Effect {
	switch e {
	case EffectAsk, EffectRewrite, EffectAllow, EffectCount:
		return e
	}
	return EffectDeny
}

func verdictOf(e Effect) tool.Verdict {
	switch e {
	case EffectAllow:
		return tool.Allow
	case EffectAsk:
		return tool.Ask
	}
	return tool.Deny
}

// unite takes the tighter of each obligation.
func unite(a, b guard.Obligations) guard.Obligations {
	a.NoNetwork = a.NoNetwork || b.NoNetwork
	a.ReadOnly = a.ReadOnly || b.ReadOnly
	if b.WallSeconds > 0 && (a.WallSeconds <= 0 || b.WallSeconds < a.WallSeconds) {
		a.WallSeconds = b.WallSeconds
	}
	return a
}

// rewritten applies the rewrites. nil: the arguments stay as they are. Two
// rewrites that do not agree are an error, since no order between them is right.
func rewritten(fs []Finding, params json.RawMessage) (json.RawMessage, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	old, err := canonical(params)
	if err != nil {
		return nil, err
	}
	var result []byte
	for _, f := range fs {
		next := []byte(f.args)
		if next == nil {
			if next, err = mergePatch(params, f.Patch); err != nil {
				return nil, fmt.Errorf("rewrite by %s: %w", f.ID, err)
			}
		}
		if next, err = canonical(next); err != nil {
			return nil, fmt.Errorf("rewrite by %s: %w", f.ID, err)
		}
		if result != nil && !bytes.Equal(result, next) {
			return nil, fmt.Errorf("%s and %s rewrite the arguments differently", fs[0].ID, f.ID)
		}
		result = next
	}
	if bytes.Equal(result, old) {
		return nil, nil
	}
	return result, nil
}

// reasons returns the findings in a stable order, with the place in the command line.
func reasons(fs []Finding, in *input.Document) []tool.Reason {
	fs = slices.Clone(fs)
	slices.SortFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Message, b.Message))
	})
	out := make([]tool.Reason, 0, len(fs))
	for _, f := range fs {
		r := tool.Reason{Rule: f.ID, Message: f.Message, Hint: f.Hint, Code: "policy_" + string(f.Effect)}
		if at, ok := in.Place(f.Subject); ok {
			r.At = &at
		}
		out = append(out, r)
	}
	return out
}

func modeReason(e Effect, in *input.Document) tool.Reason {
	r := tool.Reason{Rule: "mode:" + string(in.Mode), Code: "mode_" + string(e)}
	switch e {
	case EffectAllow:
		r.Message = fmt.Sprintf("mode %s runs %s without asking", in.Mode, in.Tool.Name)
	case EffectAsk:
		r.Message = fmt.Sprintf("mode %s asks before %s", in.Mode, in.Tool.Name)
		r.Hint = "a permission rule that allows the call answers this question"
	default:
		r.Message = fmt.Sprintf("Tool %q denied in %s mode", in.Tool.Name, in.Mode)
		r.Hint = "only read-only tools and calls allowed by a rule run in this mode"
	}
	return r
}

// modeEffect returns the effect of the mode on a call about which no rule has an opinion.
func modeEffect(in *input.Document, relaxReads bool) Effect {
	reads := in.Tool.ReadOnly
	switch in.Mode {
	case tool.ModePlan:
		if reads {
			return EffectAllow
		}
		return EffectAsk
	case tool.ModeDontAsk:
		if reads {
			return EffectAllow
		}
		return EffectDeny
	case tool.ModeDefault:
		if reads && relaxReads {
			return EffectAllow
		}
		return EffectAsk
	case tool.ModeAcceptEdits:
		if in.EditsWorkspace() || reads && relaxReads {
			return EffectAllow
		}
		return EffectAsk
	case tool.ModeAuto:
		if in.Tool.Destructive {
			return EffectAsk
		}
		return EffectAllow
	case tool.ModeBypassPermissions:
		return EffectAllow
	}
	return EffectDeny
}
