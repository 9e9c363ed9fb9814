package tool

import "github.com/sandboxd/sandboxd/guard"

// Companion is a program, or connections of the daemon, that a part keeps for a session beside its calls.
type Companion struct {
	Name string // "mcp/git"; rules about connections see it as the tool
	// Settings are what it may touch, made from what the calls of the session may.
	Settings func(session guard.Settings) guard.Settings
}

// Key names its cage. No session has a slash in its id, so it is the key of no session.
func (c Companion) Key(session string) string { return "/" + c.Name + "/" + session }
