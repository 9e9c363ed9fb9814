package sandbox

import "path/filepath"

// protectedNames lie in a workspace and decide what a person's own tools run
// there later: writing them is a way out of the cage with a delay.
var protectedNames = []string{
	".git/hooks", ".git/config", ".envrc", ".husky", ".vscode", ".idea", ".claude", ".mcp.json",
	".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".gitconfig",
}

// protectedPaths are the protected names of every writable tree.
func protectedPaths(s Settings) []string {
	var out []string
	for _, w := range s.AllowedWritePaths {
		if w == nowhere || Within(w, "/dev") || w == "/tmp" {
			continue
		}
		for _, n := range protectedNames {
			out = append(out, filepath.Join(w, n))
		}
	}
	return out
}
