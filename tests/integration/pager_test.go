package integration

import (
	"fmt"
	"strings"
	"testing"
)

// A long transcript stops at each screen of a terminal; what is in it does not move the cursor.
func TestALongTranscriptIsPaged(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	var messages []map[string]string
	for i := range 40 {
		messages = append(messages, map[string]string{"role": "user", "content": fmt.Sprintf("line %d.\x1b[2J", i)})
	}
	if err := d.agent.Do(t.Context(), "PUT", "/sessions/"+s+"/messages", map[string]any{"messages": messages}, nil); err != nil {
		t.Fatal(err)
	}
	p := d.on(80, "sessions", "show", s)
	first := p.read("-- more")
	if !strings.Contains(first, "line 5.") || strings.Contains(first, "line 8.") || strings.Contains(first, "\x1b[2J") ||
		strings.Count(first, "\n") > 23 {
		t.Errorf("the first screen: %q", first)
	}
	p.typed("\r")
	if second := p.read("-- more"); !strings.Contains(second, "line 8.") || strings.Contains(second, "line 5.") {
		t.Errorf("the second screen: %q", second)
	}
	p.typed("q")
	if got := p.status(); got != 0 {
		t.Errorf("ended with %d", got)
	}
	p = d.on(80, "sessions", "show", s, "-n", "3")
	if all := p.read("line 39."); strings.Contains(all, "-- more") || strings.Contains(all, "line 36.") {
		t.Errorf("a short one: %q", all)
	}
	if got := p.status(); got != 0 {
		t.Errorf("ended with %d", got)
	}
}
