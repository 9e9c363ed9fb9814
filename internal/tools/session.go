package tools

import (
	"context"
	"sync"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Sessions changes the state that the tools of this group own: title, tag, notes and mode of one session. Patch
// calls change with the stored session and stores the result, all of it or nothing.
type Sessions interface {
	Session(ctx context.Context, account, id string) (tool.Session, error)
	Patch(ctx context.Context, account, id string, change func(*tool.Session) error) (tool.Session, error)
}

// Lister returns the tools that a session has enabled, and which of their definitions the model does not get.
// [catalog.Registry] implements it.
type Lister interface {
	Enabled(tool.Session) []tool.Tool
	Deferred(s tool.Session, name string) bool
}

// SessionGroup returns the tools that change the session itself. None of them extends its rights: a tool makes the
// mode stricter, and only a person's consent makes it looser.
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

// modesLeft remembers the mode that plan mode replaced. It is in memory and not in the session, because the agent
// may write a session's fields and must not choose the mode that a person's consent leads to. After a restart the
// mode becomes default, which asks.
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
