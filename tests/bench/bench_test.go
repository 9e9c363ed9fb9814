package bench

import (
	"math"
	"testing"
	"time"
)

// Samples are made up, so that the arithmetic is tested and not the machine.
func made(name string, perRound ...time.Duration) *timer {
	t := &timer{c: Case{Name: name}, batch: 1}
	for r, d := range perRound {
		t.samples[r] = []time.Duration{d, d, 100 * d}
	}
	return t
}

func TestRatioIsTheMedianOfTheRounds(t *testing.T) {
	base := made("base", 10, 10, 10, 10, 10, 10, 10)
	slow := made("slow", 20, 20, 500, 20, 30, 20, 5) // two rounds disturbed
	for _, tt := range []struct {
		name  string
		limit Limit
		ok    bool
	}{
		{"within", Limit{AtMost: 2.1}, true},
		{"at the limit", Limit{AtMost: 2}, true},
		{"over", Limit{AtMost: 1.9}, false},
		{"a constant more is allowed", Limit{AtMost: 1.9, Plus: 1}, true},
		{"no gate", Limit{}, true},
	} {
		got := judge(tt.limit, slow, base)
		if math.Abs(got.Ratio-2) > 1e-9 || got.OK != tt.ok {
			t.Errorf("%s: got ratio %v, ok %v, want 2, %v", tt.name, got.Ratio, got.OK, tt.ok)
		}
	}
}

func TestEveryCaseGetsItsSamplesInEveryRound(t *testing.T) {
	ran := map[string]int{}
	count := func(name string) *timer {
		return &timer{c: Case{Name: name, Run: func() { ran[name]++ }}, batch: 1}
	}
	few, many := count("few"), count("many")
	few.n, many.n = 3, 50
	for r := range rounds {
		runRound([]*timer{few, many}, r)
	}
	if ran["few"] != 3*rounds || ran["many"] != 50*rounds {
		t.Errorf("got %v, want 3 and 50 a round", ran)
	}
	for r := range rounds {
		if len(few.samples[r]) != 3 || len(many.samples[r]) != 50 {
			t.Errorf("round %d has %d and %d samples", r, len(few.samples[r]), len(many.samples[r]))
		}
	}
}

func TestNIsTheLeastNumberOfCalls(t *testing.T) {
	got := newTimer(Case{N: 200, Run: func() {}})
	if got.batch != 1 || got.n*rounds < 200 {
		t.Errorf("got %d rounds of %d samples of %d, want at least 200 of 1", rounds, got.n, got.batch)
	}
}
