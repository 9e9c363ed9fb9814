package api

import (
	"encoding/json"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

// Answers whose types no other package has. Clients rely on the names of their fields.

type health struct {
	Status string `json:"status"` // "ok"
}

type cancelled struct {
	CallID    string `json:"call_id"`
	Cancelled bool   `json:"cancelled"`
}

type stopping struct {
	Stopping  bool `json:"stopping"`
	Cancelled int  `json:"cancelled"` // number of calls
}

type promptText struct {
	Prompt string `json:"prompt"`
}

type decided struct {
	CallID   string          `json:"call_id"`
	Decision tool.Decision   `json:"decision"`
	Approval *tool.Approval  `json:"approval,omitempty"` // the answer of the person who was asked
	Facts    *input.Document `json:"facts,omitempty"`
	Args     json.RawMessage `json:"updated_args,omitempty"`
}
