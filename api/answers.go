package api

import (
	"encoding/json"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// The answers that are no type of another package. Clients rely on the names of
// their fields.

type health struct {
	Status string `json:"status"` // "ok"
}

type daemonStatus struct {
	Version   string         `json:"version"`
	Uptime    int            `json:"uptime_seconds"`
	Config    ConfigStatus   `json:"config"`
	RoleSplit string         `json:"role_split"` // "enforced" or "advisory"
	Sandbox   sandbox.Report `json:"sandbox"`
	Policy    policyStatus   `json:"policy"`
	Pending   int            `json:"approvals_pending"`
	Roots     []string       `json:"workspace_roots"`
}

type policyStatus struct {
	Profile  string          `json:"profile"`
	Revision string          `json:"revision"`
	Failure  *policy.Failure `json:"last_failure"`
}

type deleted struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

type cancelled struct {
	CallID    string `json:"call_id"`
	Cancelled bool   `json:"cancelled"`
}

type stopping struct {
	Stopping  bool `json:"stopping"`
	Cancelled int  `json:"cancelled"` // calls
}

type recorded struct {
	Recorded bool `json:"recorded"`
}

type shownOrigins struct {
	Session []tool.Origin `json:"session"`
}

type promptText struct {
	Prompt string `json:"prompt"`
}

type removedVars struct {
	Removed []string `json:"removed"`
	Failed  []string `json:"failed"`
}

type decided struct {
	CallID   string          `json:"call_id"`
	Decision tool.Decision   `json:"decision"`
	Approval *tool.Approval  `json:"approval,omitempty"` // of the person who was asked
	Facts    *policy.Input   `json:"facts,omitempty"`
	Args     json.RawMessage `json:"updated_args,omitempty"`
}
