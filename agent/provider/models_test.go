package provider

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestL12_CostsByModel(t *testing.T) {
	s, err := NewSpending([]string{"own/model=0.1/0.2"})
	if err != nil {
		t.Fatal(err)
	}
	s.Add("claude-sonnet-4-6", Usage{45, 3})
	s.Add("claude-opus-4-6", Usage{52, 156})
	s.Add("own/model", Usage{1e6, 1e6})
	s.Add("claude-sonnet-4-6", Usage{0, 0})
	want := []Cost{
		{"claude-sonnet-4-6", Usage{45, 3}, 0.00018},
		{"claude-opus-4-6", Usage{52, 156}, 0.01248},
		{"own/model", Usage{1e6, 1e6}, 0.3},
	}
	for i, got := range s.Costs() {
		if got.Model != want[i].Model || got.Usage != want[i].Usage || fmt.Sprintf("%.9f", got.USD) != fmt.Sprintf("%.9f", want[i].USD) {
			t.Errorf("got %+v, want %+v", got, want[i])
		}
	}
	if s.prices["claude-haiku-4-5"] != (Price{0.8, 4}) || s.Priced("other") {
		t.Errorf("the prices are %v", s.prices)
	}
	for _, wrong := range []string{"x", "x=1", "=1/2", "x=a/b", "x=-1/2", "x=NaN/1", "x=1/Inf"} {
		if _, err := NewSpending([]string{wrong}); err == nil {
			t.Errorf("%q is a price", wrong)
		}
	}
}

func TestL13_EffortsAreBudgets(t *testing.T) {
	for name, want := range map[string]int{"low": 1024, "medium": 5120, "high": 10240, "max": 32768} {
		if got, err := Effort(name); err != nil || got.Budget != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := Effort("most"); err == nil {
		t.Error("most is an effort")
	}
	for want, thinking := range map[string]Thinking{
		``: {}, `,"thinking":{"type":"adaptive"}`: {Type: "adaptive"}, `,"thinking":{"type":"disabled"}`: {Type: "disabled"},
		`,"thinking":{"type":"enabled","budget_tokens":7}`: {Type: "enabled", Budget: 7, Effort: "low"},
	} {
		got, err := json.Marshal((anthropic{}).body(Request{MaxTokens: 5000, Thinking: thinking}))
		if want = `{"model":"","max_tokens":5000,"messages":null` + want + `,"stream":true}`; err != nil || string(got) != want {
			t.Errorf("%+v: got %s", thinking, got)
		}
	}
}

func TestL14_MaxThinkingTokens(t *testing.T) {
	positive, zero, negative := 5, 0, -1
	if got, err := MaxThinking(&positive); err != nil || got != (Thinking{Type: "enabled", Budget: 5}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := MaxThinking(nil); err != nil || got.Type != "disabled" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, n := range []*int{&zero, &negative} {
		if _, err := MaxThinking(n); err == nil || !strings.HasPrefix(err.Error(), "invalidConfiguration") {
			t.Errorf("%d: %v", *n, err)
		}
	}
}

func TestL15_TheShapeOfAModel(t *testing.T) {
	got, _ := json.Marshal(Models()[0])
	want := `{"value":"claude-opus-4-6","displayName":"Opus 4.6","description":"for long, hard work","supportsEffort":true,` +
		`"supportedEffortLevels":["low","medium","high","max"],"supportsAdaptiveThinking":true}`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
}
