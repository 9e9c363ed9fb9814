package tool

import "github.com/sandboxd/sandboxd/guard"

// Workspace is what sessions in a directory may work in.
type Workspace struct {
	Roots    []string       // a session stays in them; all are writable
	Settings guard.Settings // the floor of sessions that bring none
}

// Of returns the workspace of any directory, which is w: for programs that have only one.
func (w Workspace) Of(string) (Workspace, error) { return w, nil }

// Dirs are its roots.
func (w Workspace) Dirs() []string { return w.Roots }
