package tools

import (
	"context"
	"sync"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Sessions is the state that the tools of this group change: title, tag, notes
// and mode of one session. Patch runs change on the stored session and stores what
// it leaves, all or nothing.
type Sessions interface {
	Session(ctx context.Context, account, id string) (tool.Session, error)
	Patch(ctx context.Context, account, id string, change func(*tool.Session) error) (tool.Session, error)
}

// Lister names the tools that a session has enabled, and which of them the model
// has not been shown; [catalog.Registry] is one.
type Lister interface {
	Enabled(tool.Session) []tool.Tool
	Deferred(s tool.Session, name string) bool
}

// SessionGroup is the tools that work on the session itself. They change what it
// knows, never its rights: the mode only becomes stricter, or looser by a person.
func SessionGroup(s Sessions, l Lister) catalog.Group {
	left := &modesLeft{mode: map[string]tool.Mode{}}
	return catalog.Group{Name: "session", Tools: []tool.Tool{
		TodoWrite{s},
		EnterPlanMode{s, left},
		ExitPlanMode{s, left},
		Config{s},
		ToolSearch{s, l},
		RemoteTrigger{},
	}}
}

// modesLeft remembers the mode that plan mode replaced. It is kept in memory and
// not with the session, whose fields the agent may write: an agent must not
// choose the mode that a person's consent leads to. What is forgotten becomes
// default, which asks.
type modesLeft struct {
	mu   sync.Mutex // guards mode
	mode map[string]tool.Mode
}

func (m *modesLeft) put(session string, mode tool.Mode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mode) >= maxSeen {
		clear(m.mode)
	}
	m.mode[session] = mode
}

func (m *modesLeft) get(session string) tool.Mode {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mode := m.mode[session]; mode != "" {
		return mode
	}
	return tool.ModeDefault
}
