package policy

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

var genFinding = rapid.Custom(func(t *rapid.T) Finding {
	f := Finding{
		ID:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"),
		Effect:  rapid.SampledFrom([]Effect{EffectDeny, EffectAsk, EffectRewrite, EffectAllow, EffectCount, "", "log"}).Draw(t, "effect"),
		Message: "m",
		Obligations: guard.Obligations{
			NoNetwork: rapid.Bool().Draw(t, "net"), ReadOnly: rapid.Bool().Draw(t, "ro"),
			WallSeconds: rapid.IntRange(0, 3).Draw(t, "wall"),
		},
	}
	if f.Effect == EffectRewrite {
		f.Patch = json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"a":1}`, `{"a":2}`, `{"a":null}`}).Draw(t, "patch"))
	}
	return f
})

var genInput = rapid.Custom(func(t *rapid.T) *input.Document {
	return &input.Document{
		Mode:   rapid.SampledFrom(append([]tool.Mode{"", "yolo"}, tool.Modes...)).Draw(t, "mode"),
		Params: json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"a":1}`, `{"b":[1.0]}`}).Draw(t, "params")),
		Tool: input.Tool{
			Name: "T", ReadOnly: rapid.Bool().Draw(t, "read"), Destructive: rapid.Bool().Draw(t, "destroys"),
		},
	}
})

// oracle is combine written a second time as a list of statements about the
// answer, without looking at how combine does it.
func oracle(fs []Finding, mode Effect, in *input.Document) tool.Verdict {
	if !in.Mode.Valid() {
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
	case has(EffectAsk) && in.Mode == tool.ModeDontAsk:
		return tool.Deny
	case has(EffectAsk) && in.Mode != tool.ModeBypassPermissions:
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
		if b.NoNetwork && !a.NoNetwork || b.ReadOnly && !a.ReadOnly || b.WallSeconds > 0 &&
			a.WallSeconds > b.WallSeconds {
			t.Fatalf("obligations went from %+v to %+v", b, a)
		}
	})
}

// Where the mode decides over what a rule asks, the mode is named first, then the rule.
func TestP06_P07_TheModeThatDecidesIsNamed(t *testing.T) {
	asks := []Finding{{ID: "acme.push", Effect: EffectAsk, Message: "a push", Hint: "do not"}}
	for mode, want := range map[tool.Mode]struct {
		by     tool.By
		first  tool.Reason
		number int
	}{
		tool.ModeAuto: {tool.ByRule, tool.Reason{Rule: "acme.push", Code: "policy_ask", Message: "a push", Hint: "do not"}, 1},
		tool.ModeDontAsk: {tool.ByMode, tool.Reason{
			Rule: "mode:dontAsk", Code: "policy_ask", Message: "mode dontAsk asks nobody, and acme.push asks: a push", Hint: "do not",
		}, 2},
		tool.ModeBypassPermissions: {tool.ByMode, tool.Reason{
			Rule: "mode:bypassPermissions", Code: "mode_allow", Message: "mode bypassPermissions runs T without asking",
		}, 1},
	} {
		in := &input.Document{Mode: mode, Params: json.RawMessage(`{}`), Tool: input.Tool{Name: "T"}}
		d := combine("r", asks, modeEffect(in, false), in)
		if d.By != want.by || len(d.Reasons) != want.number || d.Reasons[0] != want.first {
			t.Errorf("%s: by %s %+v, want %+v", mode, d.By, d.Reasons, want)
		}
	}
}

// TestObligationsUnite: each condition holds as the strictest rule wants it, in
// whatever order the rules speak.
func TestObligationsUnite(t *testing.T) {
	finding := func(o guard.Obligations) Finding {
		return Finding{ID: "x", Effect: EffectAllow, Message: "m", Obligations: o}
	}
	in := &input.Document{Mode: tool.ModeAuto, Params: json.RawMessage(`{}`)}
	for _, tt := range []struct {
		name       string
		a, b, want guard.Obligations
	}{
		{
			"the shorter time",
			guard.Obligations{WallSeconds: 5},
			guard.Obligations{WallSeconds: 60},
			guard.Obligations{WallSeconds: 5},
		},
		{"a time and none", guard.Obligations{WallSeconds: 5}, guard.Obligations{}, guard.Obligations{WallSeconds: 5}},
		{
			"different ones",
			guard.Obligations{NoNetwork: true},
			guard.Obligations{ReadOnly: true, WallSeconds: 7},
			guard.Obligations{NoNetwork: true, ReadOnly: true, WallSeconds: 7},
		},
	} {
		for _, fs := range [][]Finding{{finding(tt.a), finding(tt.b)}, {finding(tt.b), finding(tt.a)}} {
			if got := combine("r", fs, EffectAllow, in).Obligations; got != tt.want {
				t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
			}
		}
	}
}

func TestARewriteThatChangesNothingIsNone(t *testing.T) {
	in := &input.Document{Mode: tool.ModeAuto, Params: json.RawMessage(`{ "n": 1.0, "path": "a" }`)}
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

// Without what can be undone, everything else counts as before: it is never less strict than the rest is.
func TestWhatCanBeUndoneIsLeftOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := rapid.SliceOfN(genFinding, 0, 5).Draw(t, "findings")
		var rest []Finding
		asks := false
		for i := range fs {
			if known(fs[i].Effect) == EffectDeny && rapid.IntRange(0, 5).Draw(t, "stays") > 0 {
				fs[i].Effect = EffectAsk // else most would be denied
			}
			if fs[i].Effect == EffectAsk && rapid.Bool().Draw(t, "undoable") {
				fs[i].Undoable, asks = true, true
				continue
			}
			rest = append(rest, fs[i])
		}
		in := genInput.Draw(t, "input")
		mode := rapid.SampledFrom([]Effect{EffectAllow, EffectAsk, EffectDeny}).Draw(t, "mode effect")
		d, want := combine("r", fs, mode, in), combine("r", rest, mode, in)
		if d.Else != nil && (!asks || d.Else.Verdict != want.Verdict || d.Else.Obligations != d.Obligations) {
			t.Fatalf("got %+v, want %+v", d.Else, want)
		}
		if d.Verdict == tool.Ask && d.By == tool.ByRule && asks && d.Else == nil {
			t.Fatal("it is not said what holds otherwise")
		}
	})
	for _, text := range []string{
		`{"id":"a.b","effect":"deny","message":"m","undoable":true}`, `{"id":"a.b","effect":"ask","message":"m","undoable":1}`,
	} {
		var raw any
		if err := json.Unmarshal([]byte(text), &raw); err != nil {
			t.Fatal(err)
		}
		if _, err := newFinding(raw); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
