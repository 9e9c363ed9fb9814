package policy

import "slices"

// The permission modes (P-01).
const (
	ModePlan              = "plan"
	ModeDontAsk           = "dontAsk"
	ModeDefault           = "default"
	ModeAcceptEdits       = "acceptEdits"
	ModeAuto              = "auto"
	ModeBypassPermissions = "bypassPermissions"
)

// Modes are all modes, strictest first: each lets run unasked what the one
// before it does, and more. (plan and dontAsk also run reads, which default asks
// about; they come first because they let nothing else happen by themselves.)
var Modes = []string{ModePlan, ModeDontAsk, ModeDefault, ModeAcceptEdits, ModeAuto, ModeBypassPermissions}

// ValidMode reports whether mode is one of [Modes].
func ValidMode(mode string) bool { return slices.Contains(Modes, mode) }

// Looser reports whether mode a permits more than mode b. A mode that is not
// valid is looser than every other, so that a limit always refuses it; a limit
// that is not valid refuses every mode.
func Looser(a, b string) bool {
	if !ValidMode(a) {
		return true
	}
	return slices.Index(Modes, a) > slices.Index(Modes, b)
}

// modeEffect is what the mode says of a call about which no rule has an opinion.
func modeEffect(in *Input, relaxReads bool) Effect {
	reads := in.Tool.ReadOnly
	switch in.Mode {
	case ModePlan:
		if reads {
			return EffectAllow
		}
		return EffectAsk
	case ModeDontAsk:
		if reads {
			return EffectAllow
		}
		return EffectDeny
	case ModeDefault:
		if reads && relaxReads {
			return EffectAllow
		}
		return EffectAsk
	case ModeAcceptEdits:
		if in.editsWorkspace() || reads && relaxReads {
			return EffectAllow
		}
		return EffectAsk
	case ModeAuto:
		if in.Tool.Destructive {
			return EffectAsk
		}
		return EffectAllow
	case ModeBypassPermissions:
		return EffectAllow
	}
	return EffectDeny
}

// underMode is what a rule's effect becomes in a mode that never asks: dontAsk
// refuses where a rule asks (P-06), bypassPermissions lets it pass (P-07). A
// deny stays a deny in every mode, and what is no effect denies.
func underMode(mode string, e Effect) Effect {
	switch {
	case e == EffectAsk && mode == ModeDontAsk:
		return EffectDeny
	case e == EffectAsk && mode == ModeBypassPermissions:
		return EffectAllow
	case e == EffectAsk, e == EffectAllow, e == EffectRewrite:
		return e
	}
	return EffectDeny
}
