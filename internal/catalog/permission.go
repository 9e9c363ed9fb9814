package catalog

import (
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Permission says when a person is asked about a tool; "" is what the tool says itself.
type Permission struct {
	Execution tool.ExecutionPolicy `yaml:"execution"`
	Results   tool.ResultPolicy    `yaml:"results"`
}

// Check reports a policy that there is not.
func (p Permission) Check() error {
	if p.Execution != "" && !slices.Contains(executions, p.Execution) {
		return fmt.Errorf("unknown execution %q, want auto, ask-once or ask-always", p.Execution)
	}
	if p.Results != "" && !slices.Contains(results, p.Results) {
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

// Spec returns what a tool says of itself, under the policies of [Registry.SetPermissions]: for one by the name of
// another agent, the stricter of both names ([tool.As]).
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
	as := r.permissions[tool.As(s.Name)]
	s.Execution = strictest(executions, s.Execution, as.Execution)
	s.Results = strictest(results, s.Results, as.Results)
	return s
}

// The policies, each stricter than those in front of it. "" is the first one.
var (
	executions = []tool.ExecutionPolicy{tool.ExecAuto, tool.ExecAskOnce, tool.ExecAskAlways}
	results    = []tool.ResultPolicy{tool.ResultNever, tool.ResultOnError, tool.ResultAlways}
)

func strictest[P ~string](order []P, a, b P) P {
	if slices.Index(order, b) > max(slices.Index(order, a), 0) {
		return b
	}
	return a
}
