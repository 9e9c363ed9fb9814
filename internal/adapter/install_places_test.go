package adapter

import (
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/internal/clients"
)

// Where the agents look, for a person and for a project.
func TestHookInstallPlaces(t *testing.T) {
	d := newDesk(t)
	moved := t.TempDir()
	for _, tt := range []struct{ agent, variable, user, moved, project string }{
		{
			clients.ClaudeCode, "CLAUDE_CONFIG_DIR", ".claude/settings.json", "settings.json",
			".claude/settings.local.json",
		},
		{clients.Codex, "CODEX_HOME", ".codex/hooks.json", "hooks.json", ".codex/hooks.json"},
		{clients.Gemini, "", ".gemini/settings.json", "", ".gemini/settings.json"},
		{
			clients.OpenCode, "XDG_CONFIG_HOME", ".config/opencode/plugins/sandboxd.js",
			"opencode/plugins/sandboxd.js", ".opencode/plugins/sandboxd.js",
		},
	} {
		is := func(n Installation, want string) {
			t.Helper()
			if got, err := n.path(settingsFiles[tt.agent]); got != want || err != nil {
				t.Errorf("%s: %s, %v, want %s", tt.agent, got, err, want)
			}
		}
		is(Installation{}, filepath.Join(d.home, tt.user))
		is(Installation{Project: d.project}, filepath.Join(d.project, tt.project))
		if tt.variable != "" {
			t.Setenv(tt.variable, moved)
			is(Installation{}, filepath.Join(moved, tt.moved))
		}
	}
}
