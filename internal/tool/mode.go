package tool

import (
	"fmt"
	"slices"
)

// Mode is a permission mode (P-01): what runs unasked where no rule has an opinion.
type Mode string

// The modes.
const (
	ModePlan              Mode = "plan"
	ModeDontAsk           Mode = "dontAsk"
	ModeDefault           Mode = "default"
	ModeAcceptEdits       Mode = "acceptEdits"
	ModeAuto              Mode = "auto"
	ModeBypassPermissions Mode = "bypassPermissions"
)

// Modes are all modes, in the order of LooserThan. plan and dontAsk come first
// although they let reads run, which default asks about: by themselves they let
// nothing else run unasked.
var Modes = []Mode{ModePlan, ModeDontAsk, ModeDefault, ModeAcceptEdits, ModeAuto, ModeBypassPermissions}

// Valid reports whether m is one of [Modes].
func (m Mode) Valid() bool { return slices.Contains(Modes, m) }

// LooserThan reports whether m permits more than the limit. A mode that is not
// valid is looser than every other, so that a limit always refuses it; a limit
// that is not valid refuses every mode.
func (m Mode) LooserThan(limit Mode) bool {
	if !m.Valid() {
		return true
	}
	return slices.Index(Modes, m) > slices.Index(Modes, limit)
}

// InMode returns the decision in a mode that may ask nobody: there, an ask is a denial (P-06).
func (d Decision) InMode(m Mode) Decision {
	if d.Verdict != Ask || m != ModeDontAsk {
		return d
	}
	d.Verdict, d.By = Deny, ByMode
	why := Reason{Rule: "mode:" + string(m), Message: "mode dontAsk asks nobody"}
	if len(d.Reasons) > 0 {
		r := d.Reasons[0]
		why.Code, why.Hint = r.Code, r.Hint
		why.Message = fmt.Sprintf("%s, and %s asks: %s", why.Message, r.Rule, r.Message)
	}
	d.Reasons = append([]Reason{why}, d.Reasons...)
	return d
}
