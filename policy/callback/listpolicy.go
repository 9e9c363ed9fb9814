package callback

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// PermissionPolicy has an opinion about a call, or none: nil (P-12). Its method is a
// [CanUseTool] callback (P-18).
type PermissionPolicy interface {
	Evaluate(ctx context.Context, toolName string, input json.RawMessage, c Context) (*Opinion, error)
}

// ToolNameAllowlistPolicy allows the listed tools and denies all others; an
// empty list denies everything (P-13).
type ToolNameAllowlistPolicy struct{ Tools []string }

// Evaluate implements [PermissionPolicy].
func (p ToolNameAllowlistPolicy) Evaluate(_ context.Context, name string, _ json.RawMessage, _ Context) (
	*Opinion, error,
) {
	if slices.Contains(p.Tools, name) {
		return Allow(), nil
	}
	return Deny(fmt.Sprintf("Tool %q not in allowlist", name)), nil
}

// ToolNameDenylistPolicy denies the listed tools and allows all others (P-14).
type ToolNameDenylistPolicy struct{ Tools []string }

// Evaluate implements [PermissionPolicy].
func (p ToolNameDenylistPolicy) Evaluate(_ context.Context, name string, _ json.RawMessage, _ Context) (
	*Opinion, error,
) {
	if slices.Contains(p.Tools, name) {
		return Deny(fmt.Sprintf("Tool %q is denied", name)), nil
	}
	return Allow(), nil
}

// ReadOnlyPolicy allows tools that declare themselves read-only (P-15, P-23).
type ReadOnlyPolicy struct{}

// Evaluate implements [PermissionPolicy].
func (ReadOnlyPolicy) Evaluate(_ context.Context, name string, _ json.RawMessage, c Context) (*Opinion, error) {
	if c.Spec.ReadOnly {
		return Allow(), nil
	}
	return Deny(fmt.Sprintf("Tool %q denied: read-only policy active", name)), nil
}

// CompositePolicy asks its policies in order. The first deny ends it; an ask
// stands unless a later policy denies; no opinion is skipped; otherwise the call
// is allowed, also with no policies at all (P-16). Changed input is what later
// policies see, and is kept (P-17).
type CompositePolicy struct{ Policies []PermissionPolicy }

// Evaluate implements [PermissionPolicy].
func (p CompositePolicy) Evaluate(ctx context.Context, name string, input json.RawMessage, c Context) (
	*Opinion, error,
) {
	result := Allow()
	for _, q := range p.Policies {
		o, err := q.Evaluate(ctx, name, input, c)
		if err != nil {
			return nil, err
		}
		if o == nil {
			continue
		}
		switch o.Verdict {
		case tool.Allow:
			if o.Input != nil {
				input, result.Input = o.Input, o.Input
			}
		case tool.Ask:
			result.Verdict, result.Reason = tool.Ask, o.Reason
		default:
			return o, nil
		}
	}
	return result, nil
}

// What an allow by a list policy means (CX-72).
const (
	VerdictAdvisory = "advisory"
	VerdictFinal    = "final"
)

// ListPolicy is a list policy as configuration.
type ListPolicy struct {
	Kind  string   `json:"kind" yaml:"kind"` // "allowlist", "denylist", "readOnly"
	Tools []string `json:"tools,omitempty" yaml:"tools,omitempty"`
}

// Policy returns what the configuration says.
func (p ListPolicy) Policy() (PermissionPolicy, error) {
	switch p.Kind {
	case "allowlist":
		return ToolNameAllowlistPolicy{p.Tools}, nil
	case "denylist":
		return ToolNameDenylistPolicy{p.Tools}, nil
	case "readOnly":
		if len(p.Tools) > 0 {
			return nil, fmt.Errorf("policy readOnly takes no tools: %q", p.Tools)
		}
		return ReadOnlyPolicy{}, nil
	}
	return nil, fmt.Errorf("unknown policy kind %q: want allowlist, denylist or readOnly", p.Kind)
}

// NewComposite asks the policies of a list. The list was checked when it was loaded; a kind
// that is unknown here all the same denies.
func NewComposite(list []ListPolicy) CompositePolicy {
	var c CompositePolicy
	for _, l := range list {
		p, err := l.Policy()
		if err != nil {
			p = ToolNameAllowlistPolicy{}
		}
		c.Policies = append(c.Policies, p)
	}
	return c
}
