package hooks

import (
	"fmt"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/tool"
)

// PermissionUpdate changes what a tool may do for the rest of a session (H-23,
// P-21).
type PermissionUpdate struct {
	Tool     string `json:"tool"`
	Behavior string `json:"behavior"` // allow, deny or ask
}

func (p PermissionUpdate) check() error {
	if strings.TrimSpace(p.Tool) == "" {
		return fmt.Errorf("its permissionUpdate names no tool")
	}
	switch p.Behavior {
	case "allow", "deny", "ask":
		return nil
	}
	return fmt.Errorf("its permissionUpdate has the unknown behavior %q", p.Behavior)
}

// permissions holds the last update by session and tool.
type permissions struct {
	mu  sync.RWMutex // guards all
	all map[string]map[string]string
}

func (p *permissions) set(session string, u PermissionUpdate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]map[string]string{}
	}
	if p.all[session] == nil {
		p.all[session] = map[string]string{}
	}
	p.all[session][u.Tool] = u.Behavior
}

func (p *permissions) forget(session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, session)
}

// apply adds what an update says of the tool; the hooks of the call win where
// they are stricter.
func (p *permissions) apply(a tool.Advice, session, name string) tool.Advice {
	p.mu.RLock()
	behavior := p.all[session][name]
	p.mu.RUnlock()
	switch behavior {
	case "deny":
		if !a.Block {
			a.Block, a.Reason = true, fmt.Sprintf("a hook denied %s for this session", name)
		}
	case "ask":
		a.Ask, a.Reason = true, first(a.Reason, fmt.Sprintf("a hook wants %s to be asked for in this session", name))
	case "allow":
		a.Allow = true
	}
	settle(&a)
	return a
}
