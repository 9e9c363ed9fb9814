package pipeline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// A yes would change nothing where the caller's own rights do not let it write.
func TestNobodyIsAskedAboutWhatTheCallerCannotWrite(t *testing.T) {
	if !sandbox.TakesRights() {
		needs.Elsewhere(t, "needs root to take the rights of others")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, there := filepath.Join(base, "ws"), filepath.Join(base, "there")
	for _, dir := range []string{ws, there} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for user, want := range map[string]int{"the daemon": 2, "another": 0} {
		c := &tool.Call{}
		c.Request.User = sandbox.Daemon()
		if user == "another" {
			c.Request.User = sandbox.NewUser(64101, 64101, nil, "", "")
		}
		c.In.Home, c.Workspace.Roots = "/home/u", []string{ws}
		c.In.Rules = guard.NewRules(guard.Settings{AllowedWritePaths: []string{ws}})
		c.Facts.Uses.Paths = []guard.PathUse{
			{Path: there + "/x", Op: guard.Write}, {Path: base + "/new", Op: guard.Write, Makes: true},
		}
		if got := siblings(c); len(got) != want {
			t.Errorf("%s is asked about %v, want %d", user, got, want)
		}
	}
}
