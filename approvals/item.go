package approvals

import (
	"encoding/json"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
)

// Type is what a person is asked about.
type Type string

// The types.
const (
	TypeExecution Type = "execution" // may this call run
	TypeResult    Type = "result"    // may the model see this result
	TypeQuestion  Type = "question"  // the model asks something (AskUser)
)

// Status is where a question stands.
type Status string

// The statuses. Each question is pending first and one of the others for good.
const (
	StatusPending   Status = "pending"
	StatusApproved  Status = "approved"
	StatusRefused   Status = "refused"
	StatusExpired   Status = "expired"
	StatusCancelled Status = "cancelled" // nobody can use an answer any more
)

// Item is one question, with everything a person needs to answer it. Arguments
// and results are shown in full.
type Item struct {
	ID          string          `json:"id"`
	Type        Type            `json:"type"`
	Status      Status          `json:"status"`
	Account     string          `json:"account,omitempty"`
	SessionID   string          `json:"session_id"`
	CallID      string          `json:"call_id"`
	Tool        string          `json:"tool_name"`
	Description string          `json:"tool_description,omitempty"`
	Args        json.RawMessage `json:"args"`
	Result      string          `json:"result,omitempty"`        // what the model would read
	ResultState tool.Status     `json:"result_status,omitempty"` //
	Why         []tool.Reason   `json:"why"`
	Facts       Facts           `json:"facts"`
	Digest      string          `json:"digest"`
	Remember    []string        `json:"remember"`           // the scopes that a yes can be remembered for
	AskOnce     bool            `json:"ask_once,omitempty"` // either answer is remembered for the session
	CreatedAt   time.Time       `json:"created_at"`
	ExpiresAt   time.Time       `json:"expires_at"`
	Waiting     int             `json:"waiting"` // calls that one answer serves now

	DecidedAt  *time.Time      `json:"decided_at,omitempty"`
	DecidedBy  string          `json:"decided_by,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Remembered string          `json:"remembered,omitempty"`
	EditedArgs json.RawMessage `json:"edited_args,omitempty"`
}

// Facts are what the guard found out about the call.
type Facts struct {
	Class    tool.Class           `json:"class,omitempty"`
	Mode     string               `json:"mode,omitempty"`
	Dir      string               `json:"dir,omitempty"`
	Profile  string               `json:"profile,omitempty"`
	Commands []shellparse.Command `json:"commands,omitempty"`
	Opaque   []shellparse.Opaque  `json:"opaque,omitempty"`
	Reads    []string             `json:"reads,omitempty"`
	Writes   []string             `json:"writes,omitempty"`
	Hosts    []string             `json:"hosts,omitempty"`
	Origins  tool.Origins         `json:"origins,omitzero"`
	// Limits of the sandbox that hold after a yes as well.
	WritePaths  []string            `json:"allowed_write_paths,omitempty"`
	Domains     []string            `json:"allowed_domains,omitempty"`
	Obligations sandbox.Obligations `json:"obligations,omitzero"`
}

func itemOf(c *tool.Call, kind Type) Item {
	return Item{
		Type: kind, Status: StatusPending,
		Account: c.Session.Account, SessionID: c.Session.ID, CallID: c.ID,
		Tool: c.Spec.Name, Description: c.Spec.Description, Args: orEmptyObject(c.In.Args),
		Why: append([]tool.Reason{}, c.Decision.Reasons...), Facts: factsOf(c), Remember: []string{RememberOnce},
	}
}

func factsOf(c *tool.Call) Facts {
	f := Facts{
		Class: c.Facts.Class, Mode: c.Facts.Mode, Dir: c.In.Dir, Profile: c.Session.Profile,
		Hosts: c.Facts.Uses.Hosts, Origins: c.Facts.Origins,
		WritePaths: c.Settings.AllowedWritePaths, Domains: c.Settings.Network.AllowedDomains,
		Obligations: c.Decision.Obligations,
	}
	if s := c.Facts.Uses.Script; s != nil {
		f.Commands, f.Opaque = s.Commands, s.Opaque
	}
	for _, p := range c.Facts.Uses.Paths {
		name := p.Path
		if name == "" {
			name = p.Raw + " (unknown)"
		}
		if p.Op == sandbox.Write {
			f.Writes = append(f.Writes, name)
		} else {
			f.Reads = append(f.Reads, name)
		}
	}
	return f
}

func orEmptyObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}
