package policy

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

var genFinding = rapid.Custom(func(t *rapid.T) Finding {
	f := Finding{
		ID:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"),
		Effect:  rapid.SampledFrom([]Effect{EffectDeny, EffectAsk, EffectRewrite, EffectAllow, "", "log"}).Draw(t, "effect"),
		Message: "m",
		Obligations: sandbox.Obligations{
			NoNetwork: rapid.Bool().Draw(t, "net"), ReadOnly: rapid.Bool().Draw(t, "ro"),
			WallSeconds: rapid.IntRange(0, 3).Draw(t, "wall"),
		},
	}
	if f.Effect == EffectRewrite {
		f.Patch = json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"a":1}`, `{"a":2}`, `{"a":null}`}).Draw(t, "patch"))
	}
	return f
})

var genInput = rapid.Custom(func(t *rapid.T) *Input {
	return &Input{
		Mode:   rapid.SampledFrom(append([]string{"", "yolo"}, Modes...)).Draw(t, "mode"),
		Params: json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"a":1}`, `{"b":[1.0]}`}).Draw(t, "params")),
		Tool:   ToolFacts{Name: "T", ReadOnly: rapid.Bool().Draw(t, "read"), Destructive: rapid.Bool().Draw(t, "destroys")},
	}
})

// oracle is combine written a second time as a list of statements about the
// answer, without looking at how combine does it.
func oracle(fs []Finding, mode Effect, in *Input) tool.Verdict {
	if !ValidMode(in.Mode) {
		return tool.Deny
	}
	has := func(e Effect) bool {
		for _, f := range fs {
			if f.Effect == e {
				return true
			}
		}
		return false
	}
	patches := map[string]bool{}
	for _, f := range fs {
		if f.Effect == EffectRewrite {
			args, _ := mergePatch(in.Params, f.Patch)
			patches[string(args)] = true
		}
	}
	unknown := has("") || has("log")
	switch {
	case len(patches) > 1, has(EffectDeny), unknown:
		return tool.Deny
	case has(EffectAsk) && in.Mode == ModeDontAsk:
		return tool.Deny
	case has(EffectAsk) && in.Mode != ModeBypassPermissions:
		return tool.Ask
	case has(EffectAsk), has(EffectAllow), mode == EffectAllow:
		return tool.Allow
	case mode == EffectAsk:
		return tool.Ask
	}
	return tool.Deny
}

func TestCombineAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := rapid.SliceOfN(genFinding, 0, 5).Draw(t, "findings")
		in := genInput.Draw(t, "input")
		mode := modeEffect(in, rapid.Bool().Draw(t, "relax"))
		got := combine("r", fs, mode, in)
		if want := oracle(fs, mode, in); got.Verdict != want {
			t.Fatalf("got %s, want %s", got.Verdict, want)
		}
		if len(got.Reasons) == 0 || got.By == "" || got.Revision != "r" {
			t.Fatalf("%+v lacks a reason, a layer or the revision", got)
		}
		if got.Verdict == tool.Deny && got.Args != nil {
			t.Fatal("a denied call was rewritten")
		}
	})
}

// TestP27_CX68_MoreFindingsNeverLoosen: a deny, an ask or an obligation added to
// any findings never makes the decision looser.
func TestP27_CX68_MoreFindingsNeverLoosen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := rapid.SliceOfN(genFinding, 0, 4).Draw(t, "findings")
		in := genInput.Draw(t, "input")
		more := genFinding.Filter(func(f Finding) bool { return f.Effect == EffectDeny }).Draw(t, "deny")
		mode := modeEffect(in, false)
		before, after := combine("r", fs, mode, in), combine("r", append(fs, more), mode, in)
		if after.Verdict != tool.Deny {
			t.Fatalf("a deny among %d findings gave %s", len(fs), after.Verdict)
		}
		a, b := after.Obligations, before.Obligations
		if after.By == tool.ByCore {
			return // a refused call has no obligations
		}
		if b.NoNetwork && !a.NoNetwork || b.ReadOnly && !a.ReadOnly || b.WallSeconds > 0 && a.WallSeconds > b.WallSeconds {
			t.Fatalf("obligations went from %+v to %+v", b, a)
		}
	})
}

func TestARewriteThatChangesNothingIsNone(t *testing.T) {
	in := &Input{Mode: ModeAuto, Params: json.RawMessage(`{ "n": 1.0, "path": "a" }`)}
	same := Finding{ID: "x", Effect: EffectRewrite, Message: "m", Patch: json.RawMessage(`{"path":"a"}`)}
	if d := combine("r", []Finding{same}, EffectAllow, in); d.Args != nil {
		t.Errorf("args %s, want none", d.Args)
	}
	other := same
	other.Patch = json.RawMessage(`{"path":"b"}`)
	d := combine("r", []Finding{other}, EffectAllow, in)
	if string(d.Args) != `{"n":1.0,"path":"b"}` {
		t.Errorf("args %s, want the patched arguments with their digits kept", d.Args)
	}
	if d := combine("r", []Finding{other, {ID: "y", Effect: EffectRewrite, Message: "m", Patch: json.RawMessage(`{"path":"c"}`)}}, EffectAllow, in); d.Verdict != tool.Deny || d.Reasons[0].Rule != "core.rewrite" {
		t.Errorf("two rewrites that disagree: %+v, want a deny by core.rewrite", d)
	}
}
