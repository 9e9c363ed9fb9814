package policy

import (
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// TestAMoveChangesNoRule: the model moves the session by cd and by EnterWorktree. What a rule denies or asks it still
// denies and asks; what a rule allows is no other directory than before.
func TestAMoveChangesNoRule(t *testing.T) {
	rules := permission.Rules{
		Deny:  []string{"Read(/keys/**)", "Edit(/docs/**)", "Edit(*.lock)", "Read(s/own.txt)"},
		Ask:   []string{"Edit(/cfg/**)"},
		Allow: []string{"Edit(/build/**)", "Bash(sed *)", "Bash(grep *)"},
	}
	e := newEngine(t, Options{Rules: rules})
	grep := func(dir string) guard.PathUse {
		return guard.PathUse{Raw: dir, Path: dir, Op: guard.Read, Recursive: true}
	}
	at := func(path string, op guard.Op) guard.PathUse { return guard.PathUse{Raw: path, Path: path, Op: op} }
	for _, dir := range []string{"/ws", "/ws/s", "/ws/s/deep", "/ws/.worktrees/x"} {
		for _, tt := range []struct {
			name  string
			begun string
			use   guard.PathUse
			want  tool.Verdict
		}{
			{"a directory", "/ws", at("/ws/keys/a", guard.Read), tool.Deny},
			{"of a session begun below", "/ws/s", at("/ws/keys/a", guard.Read), tool.Deny},
			{"a directory to write", "/ws", at("/ws/docs/a", guard.Write), tool.Deny},
			{"a name at any depth", "/ws", at("/ws/a.lock", guard.Write), tool.Deny},
			{"a file", "/ws", at("/ws/s/own.txt", guard.Read), tool.Deny},
			{"one that asks", "/ws", at("/ws/cfg/a", guard.Write), tool.Ask},
			{"a tree above", "/ws", grep("/"), tool.Deny},
			{"the tree", "/ws", grep("/ws"), tool.Deny},
			{"an allow", "/ws", at("/ws/build/a", guard.Write), tool.Allow},
			{"an allow where it was not meant", "/ws", at("/ws/s/build/a", guard.Write), tool.Ask},
			{"an allow of a session begun below", "/ws/s", at("/ws/s/build/a", guard.Write), tool.Allow},
			{"an allow above it", "/ws/s", at("/ws/build/a", guard.Write), tool.Ask},
		} {
			name := map[guard.Op]string{guard.Read: "Read", guard.Write: "Edit"}[tt.use.Op]
			c := newCall(t, tool.ModeDefault, name, map[string]string{"file_path": tt.use.Raw})
			c.Session.Begun, c.Session.Dir, c.Workspace.Roots = tt.begun, dir, []string{"/ws"}
			c.Facts.Uses.Paths = []guard.PathUse{tt.use}
			if d := decide(t, e, c); d.Verdict != tt.want {
				t.Errorf("in %s, %s: %s %+v, want %s", dir, tt.name, d.Verdict, d.Reasons, tt.want)
			}
		}
	}

	c := newCall(t, tool.ModeAuto, "Grep", map[string]any{"pattern": "x"})
	c.Session.Begun, c.Session.Dir, c.Workspace.Roots = "/ws", "/ws/s", []string{"/ws"}
	got, err := e.Withheld(t.Context(), c, []string{"/ws/keys/a", "/ws/a"})
	if err != nil || !got["/ws/keys/a"] || got["/ws/a"] {
		t.Errorf("withheld: %v %v", got, err)
	}
}

// TestTheWorkspaceInWhichASessionBeganTightens, wherever the session is now.
func TestTheWorkspaceInWhichASessionBeganTightens(t *testing.T) {
	root := repository(t, `{"deny": ["Read(/keys/**)"]}`)
	e := newEngine(t, Options{Workspaces: func() []string { return []string{root} }})
	for dir, want := range map[string]tool.Verdict{root: tool.Deny, filepath.Join(root, "sub"): tool.Deny, "/other": tool.Deny} {
		c := fileCall(t, tool.ModeAuto, "Read", filepath.Join(root, "keys/a"))
		c.Session.Begun, c.Session.Dir, c.Workspace.Roots = root, dir, []string{root, "/other"}
		if d := decide(t, e, c); d.Verdict != want {
			t.Errorf("in %s: %s %+v, want %s", dir, d.Verdict, d.Reasons, want)
		}
	}
}
