package catalog

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Permission says when a person is asked about a tool; "" is what the tool says itself.
type Permission struct {
	Execution tool.ExecutionPolicy `yaml:"execution"`
	Results   tool.ResultPolicy    `yaml:"results"`
}

// Check reports a policy that there is not.
func (p Permission) Check() error {
	switch p.Execution {
	case "", tool.ExecAuto, tool.ExecAskOnce, tool.ExecAskAlways:
	default:
		return fmt.Errorf("unknown execution %q, want auto, ask-once or ask-always", p.Execution)
	}
	switch p.Results {
	case "", tool.ResultNever, tool.ResultOnError, tool.ResultAlways:
	default:
		return fmt.Errorf("unknown results %q, want never, on-error or always", p.Results)
	}
	return nil
}

// SetPermissions puts policies over those of the tools themselves, by name.
func (r *Registry) SetPermissions(p map[string]Permission) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.permissions = p
}

// Spec returns what a tool says of itself, under the policies of [Registry.SetPermissions].
func (r *Registry) Spec(t tool.Tool) tool.Spec {
	s := t.Spec()
	r.mu.RLock()
	defer r.mu.RUnlock()
	p := r.permissions[s.Name]
	if p.Execution != "" {
		s.Execution = p.Execution
	}
	if p.Results != "" {
		s.Results = p.Results
	}
	return s
}
