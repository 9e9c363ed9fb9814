package tool

import "testing"

func TestLooserOrdersTheModes(t *testing.T) {
	for i, a := range Modes {
		for j, b := range Modes {
			if got, want := a.LooserThan(b), i > j; got != want {
				t.Errorf("%s.LooserThan(%s) = %v, want %v", a, b, got, want)
			}
		}
	}
	if !Mode("x").LooserThan(ModeBypassPermissions) || !Mode("").LooserThan(ModePlan) {
		t.Error("a mode that is not valid must be looser than every limit")
	}
	if !ModePlan.LooserThan("x") {
		t.Error("a limit that is not valid must refuse every mode")
	}
}

// T-36, CX-33.
func TestT36_CX33_WhatIsNotAnnotatedCountsAsDangerous(t *testing.T) {
	for _, tt := range []struct {
		spec Spec
		want bool
	}{
		{Spec{}, true},
		{Spec{Annotations: &Annotations{}}, false},
		{Spec{Annotations: &Annotations{Destructive: true}}, true},
		{Spec{ReadOnly: true}, false},
		{Spec{ReadOnly: true, Annotations: &Annotations{Destructive: true}}, false},
	} {
		if got := tt.spec.Destructive(); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.spec, got, tt.want)
		}
	}
}

func TestInModeDontAskNobodyIsAsked(t *testing.T) {
	ask := Decision{Verdict: Ask, By: ByRule, Reasons: []Reason{{Rule: "r", Code: "c", Hint: "h", Message: "m"}}}
	for _, tt := range []struct {
		d    Decision
		mode Mode
		want Verdict
	}{{ask, ModeDontAsk, Deny}, {ask, ModeAuto, Ask}, {Decision{Verdict: Allow}, ModeDontAsk, Allow}, {Decision{}, ModeDontAsk, Deny}} {
		if got := tt.d.InMode(tt.mode); got.Verdict != tt.want {
			t.Errorf("%s in %s: %s, want %s", tt.d.Verdict, tt.mode, got.Verdict, tt.want)
		}
	}
	got := ask.InMode(ModeDontAsk)
	if got.By != ByMode || len(got.Reasons) != 2 || got.Reasons[0].Hint != "h" || got.Reasons[1].Rule != "r" || len(ask.Reasons) != 1 {
		t.Errorf("got %+v, want the mode in front of the rule that asks", got)
	}
	if got := (Decision{Verdict: Ask}).InMode(ModeDontAsk); len(got.Reasons) != 1 {
		t.Errorf("got %+v", got)
	}
}
