package limit

import (
	"testing"
	"time"
)

// TestAClockThatIsSet: files that a call has written have times of after its start, by whatever
// clock they were written.
func TestAClockThatIsSet(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		name     string
		now      time.Duration // of the clock of the host, since the start
		earliest time.Duration
	}{
		{"as time passes", 10 * time.Second, 0},
		{"set back by an hour", 10*time.Second - time.Hour, -time.Hour},
		{"set ahead by an hour", 10*time.Second + time.Hour, 0},
	} {
		if got := earliest(start, 10*time.Second, start.Add(tt.now)).Sub(start); got != tt.earliest {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.earliest)
		}
	}
}
