package tool

import (
	"cmp"
	"fmt"
	"slices"
)

// Beside is what judges a call beside the policies: the settings, the tool itself, hooks and
// the cage. It is kept with the decision, so that other policies can judge the same call.
type Beside struct {
	Refused   []Refused       `json:"refused,omitempty"`   // by the settings, under the obligations of the decision
	Execution ExecutionPolicy `json:"execution,omitempty"` // of the tool
	HookAsks  bool            `json:"hook_asks,omitempty"`
	HookAllow bool            `json:"hook_allows,omitempty"`
	HookSays  string          `json:"hook_says,omitempty"`
	// Confined: the program runs confined and the settings let that answer the question of a
	// mode (CX-38).
	Confined bool `json:"confined,omitempty"`
}

// Refused is one thing that the settings refuse.
type Refused struct {
	Reason
	Ask bool `json:"ask,omitempty"` // a person may allow it
}

// Beside joins what the policies say with the other judges. The settings and the tool only
// tighten; a hook and the cage may also answer what only the mode asks.
func (d Decision) Beside(b Beside, spec string, mode Mode) Decision {
	if d.Else != nil {
		other := d.Else.Beside(b, spec, mode)
		d.Else = &other
	}
	d = d.underFloor(b.Refused)
	if b.Execution != ExecAuto && b.Execution != "" {
		d = d.tighten(ByTool, Reason{
			Rule: "tool:" + string(b.Execution), Message: spec + " asks a person before it runs",
		})
	}
	if b.HookAsks {
		d = d.tighten(ByHook, Reason{
			Rule: "hook", Message: cmp.Or(b.HookSays, "a hook wants a person to look"),
		})
	}
	if d.Verdict == Ask && d.By == ByMode {
		switch {
		case b.HookAllow:
			d.Verdict, d.By = Allow, ByHook
			d.Reasons = []Reason{{Rule: "hook", Message: cmp.Or(b.HookSays, "a hook allowed it")}}
		case b.Confined:
			d.Verdict, d.By = Allow, ByFloor
			d.Reasons = []Reason{{
				Rule: "floor:autoAllowBashIfSandboxed",
				Message: fmt.Sprintf("mode %s asks before %s; it runs confined, so nobody is asked",
					mode, spec),
			}}
		}
	}
	return d.InMode(mode)
}

// underFloor adds what the settings refuse. Nothing lifts a refusal; a person is asked about
// what a person may allow.
func (d Decision) underFloor(refused []Refused) Decision {
	var hard, soft []Reason
	for _, r := range refused {
		if r.Ask {
			soft = append(soft, r.Reason)
		} else {
			hard = append(hard, r.Reason)
		}
	}
	if len(hard) == 0 {
		return d.tighten(ByFloor, soft...)
	}
	if d.Verdict != Deny {
		d.Reasons = nil
	}
	d.Verdict, d.By, d.Args = Deny, ByFloor, nil
	d.Reasons = append(hard, d.Reasons...)
	return d
}

// tighten turns an allow into a question, or adds reasons to one.
func (d Decision) tighten(by By, reasons ...Reason) Decision {
	if len(reasons) == 0 || d.Verdict == Deny {
		return d
	}
	if d.Verdict == Allow || d.By == ByMode {
		d.By, d.Reasons = by, nil
	}
	if d.By == ByTool { // a grant answers for the tool, and must not for who else asks
		d.By = by
	}
	d.Verdict = Ask
	d.Reasons = append(slices.Clone(d.Reasons), reasons...)
	return d
}
