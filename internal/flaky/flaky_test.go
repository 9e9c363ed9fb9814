package flaky

import "testing"

func TestAMarkedTestRunsInALongRunAlone(t *testing.T) {
	for _, long := range []string{"", "1"} {
		ran := false
		t.Run("LONG="+long, func(t *testing.T) {
			t.Setenv("LONG", long)
			inner := &spy{TB: t}
			Mark(inner, "seen once")
			ran = !inner.skipped
		})
		if ran != (long == "1") {
			t.Errorf("with LONG=%q the test ran: %v", long, ran)
		}
	}
}

// spy remembers that it was skipped, and is not.
type spy struct {
	testing.TB
	skipped bool
}

func (s *spy) Helper() {}

func (s *spy) Skip(...any) { s.skipped = true }
