package worktree

import "testing"

// TestWhatStandsForADirectoryInAWorktree: its rules hold there as they do where the worktree was made from.
func TestWhatStandsForADirectoryInAWorktree(t *testing.T) {
	const top = "/ws/.worktrees/t"
	for _, tt := range []struct {
		name, in, dir, tree, begun, want string
	}{
		{"of the top", top, "/ws", "", "/ws", top},
		{"of a directory in it", top + "/app", "/ws/app", "", "/ws/app", top + "/app"},
		{"made further down", top + "/app/sub", "/ws/app/sub", "", "/ws/app", top + "/app"},
		{"made further down than what is committed", top, "/ws/app/sub", "", "/ws/app", top},
		{"made further up", top, "/ws", "", "/ws/app", top},
		{"made in another worktree", top + "/app/sub", "/ws/.worktrees/o/app/sub", "/ws/.worktrees/o/app", "/ws/x", top + "/app"},
		{"begun above the repository", top + "/a", "/ws/repo/a", "", "/ws", top},
		{"begun elsewhere", top + "/a", "/ws/repo/a", "", "/more", top},
	} {
		if got := (Tree{Path: top, Dir: tt.in}).For(tt.dir, tt.tree, tt.begun); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
