package gateway

import (
	"github.com/sandboxd/sandboxd/internal/mcp/vet"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// ownTool is a tool of this process. A call of it is a function call: nothing is serialised (M-23).
type ownTool struct {
	tool.Tool
	server string
}

// Spec implements [tool.Tool].
func (t ownTool) Spec() tool.Spec {
	s := t.Tool.Spec()
	s.MCP = &tool.MCP{Server: t.server, Tool: s.Name}
	s.Name, s.ReadOnly = vet.Name(t.server, s.Name), false
	return s
}

// inProcess offers the tools of a server that is part of this program. Nobody else wrote their descriptions, so they
// are neither vetted nor pinned.
func (v *server) inProcess() {
	tools := map[string]tool.Tool{}
	for _, t := range v.conf.SDK.Tools {
		if v.conf.Tools.Has(t.Spec().Name) {
			o := ownTool{Tool: t, server: v.name}
			tools[o.Spec().Name] = o
		}
	}
	v.mu.Lock()
	v.tools = tools
	v.mu.Unlock()
	v.x.publish()
	v.set(Connected, nil) // last, so that whoever sees it connected finds its tools
}
