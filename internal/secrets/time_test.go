package secrets

import (
	"strings"
	"testing"
	"time"
)

// TestCommandsAreBounded: one that does not end is given up, and so is one whose children hold its output.
func TestCommandsAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		command string
		within  time.Duration
		want    string
	}{
		"it goes on":        {"exec sleep 100", 50 * time.Millisecond, "did not end within 50ms"},
		"its child goes on": {"sleep 5 & echo tok_0123456789", time.Minute, "failed: exec: WaitDelay expired"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&Reader{}).run([]string{"/bin/sh", "-c", tt.command}, tt.within)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
