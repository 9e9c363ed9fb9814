package policy

import (
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

// modeEffect is what the mode says of a call about which no rule has an opinion.
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
