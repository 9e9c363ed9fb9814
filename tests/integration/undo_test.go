package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a command changes is kept by default. A file of the workspace gets no name outside of it, where
// nobody would see who writes it: events are of directories.
func TestWhatCommandsChangeIsKept(t *testing.T) {
	d := newDaemon(t, "policy: {profile: observe}\nsessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n")
	s := d.session()
	if err := os.WriteFile(filepath.Join(d.ws, "f"), []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := d.call(s, "Bash", `{"command":"`+
		`for dir in /tmp /var/tmp /dev/shm /run $HOME $TMPDIR $XDG_CACHE_HOME; do ln f $dir/x 2>/dev/null && echo outside $dir; done; `+
		`mkdir d && ln f d/x && echo two > d/x && rm -r d"}`)
	if r.Status != "SUCCESS" || strings.Contains(r.FinalText, "outside") {
		t.Errorf("%s: %s", r.Status, r.FinalText)
	}
	if r.Undo == nil || !r.Undo.Kept || len(r.Changes) != 1 || r.Changes[0].Path != "f" {
		t.Fatalf("%+v, %+v", r.Undo, r.Changes)
	}
	var out any
	if err := d.agent.Do(t.Context(), "POST", "/calls/"+r.CallID+"/undo", map[string]any{}, &out); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(d.ws, "f")); err != nil || string(b) != "one" {
		t.Error(fmt.Sprint(err, string(b), out))
	}
}
