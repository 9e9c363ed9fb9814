package textcall

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBoundsOfTheSectionText: the last value that is taken, and the first that is not.
func TestBoundsOfTheSectionText(t *testing.T) {
	for _, tt := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.BreakerCalls, c.BreakerWindow, c.MaxCalls = 1, time.Second, 1 }, ""},
		{func(c *Config) { c.BreakerCalls, c.BreakerWindow, c.MaxCalls = 10_000, 24*time.Hour, 32 }, ""},
		{func(c *Config) { c.BreakerCalls = 10_001 }, "text.breakerCalls: 10001 is not between 1 and 10000"},
		{func(c *Config) { c.BreakerCalls = 0 }, "text.breakerCalls: 0 is not"},
		{
			func(c *Config) { c.BreakerWindow = 24*time.Hour + 1 },
			"text.breakerWindow: 24h0m0.000000001s is not between 1s and 24h",
		},
		{func(c *Config) { c.BreakerWindow = time.Second - 1 }, "text.breakerWindow: 999.999999ms is not"},
		{func(c *Config) { c.MaxCalls = 33 }, "text.maxCallsPerMessage: 33 is not between 1 and 32"},
		{func(c *Config) { c.MaxCalls = 0 }, "text.maxCallsPerMessage: 0 is not"},
	} {
		c := defaults()
		tt.change(c)
		err := c.Check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

// TestASessionKeeps256Callables; one that is there can still be changed.
func TestASessionKeeps256Callables(t *testing.T) {
	w := newWorld(t)
	for i := range maxCallables {
		if got := w.call("POST /callables", fmt.Sprintf(`{"name":"c%d","text":"x"}`, i)); !strings.HasPrefix(
			got,
			"created ",
		) {
			t.Fatalf("%d: %s", i, got)
		}
	}
	if got := w.call("POST /callables", `{"name":"more","text":"x"}`); !strings.HasPrefix(
		got,
		"too_many_callables: ",
	) ||
		!strings.Contains(got, "256 callables") {
		t.Errorf("one more: %s", got)
	}
	if got := w.call("POST /callables", `{"name":"c7","text":"y"}`); strings.HasPrefix(got, "too_many_callables") {
		t.Errorf("the same again: %s", got)
	}
}

// TestWhatIsRememberedOfCallsIsBounded: the last 100 in the log, and a hundred times what the
// breaker takes.
func TestWhatIsRememberedOfCallsIsBounded(t *testing.T) {
	l := &line{}
	for i := range maxLog + 5 {
		l.done(fmt.Sprint("c", i), "SUCCESS", i%2 == 0)
	}
	if len(l.log) != maxLog || l.log[0].Name != "c5" || l.calls != maxLog+5 || l.failures != 53 {
		t.Errorf("%d in the log from %+v on, %d calls, %d failures", len(l.log), l.log[0], l.calls, l.failures)
	}
	l.done("blocked", statusBlocked, false)
	if l.calls != maxLog+5 {
		t.Errorf("a call that was blocked counts: %d", l.calls)
	}
	n := 0
	for range 250 {
		n = l.count(time.Hour, 2)
	}
	if n != 200 {
		t.Errorf("%d times are remembered, want 200", n)
	}
}
