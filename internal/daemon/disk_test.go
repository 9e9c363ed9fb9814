package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a session keeps is in the database and in the state: its workspace is not bounded.
func TestAWorkspaceCountsForNobody(t *testing.T) {
	u := newUndoing(t)
	kept := func() (all int64) {
		sessions, err := u.daemon.keptBySessions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sessions {
			all += s.Values
		}
		return all
	}
	before := kept()
	if err := os.WriteFile(filepath.Join(u.dir, "large"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if grown := kept() - before; grown != 0 {
		t.Errorf("a file of 1 MiB in the workspace: %d bytes more", grown)
	}
	do(t, u.agent, "PUT", "/sessions/s1/vars/large", map[string]any{"value": strings.Repeat("x", 1<<20)}, nil)
	if grown := kept() - before; grown < 1<<20 {
		t.Errorf("a variable of 1 MiB: only %d bytes more", grown)
	}
}
