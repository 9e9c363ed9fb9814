package loop

import (
	"encoding/json"
	"time"

	"github.com/sandboxd/sandboxd/agent/provider"
	"github.com/sandboxd/sandboxd/client"
)

// Message is something that happened, for whoever shows it. The types are those of the public agent SDKs; those that
// tell of what this agent does not have (hookStarted, hookProgress, taskStarted, taskProgress, authStatus,
// filesPersisted, localCommandOutput, promptSuggestion, toolUseSummary) are never sent.
type Message any

// The messages.
type (
	// System is what the agent has to say itself.
	System struct {
		Subtype string `json:"subtype"` // init, retry, compact, control or notice
		Text    string `json:"text,omitempty"`
		Session string `json:"session_id,omitempty"` // of init, as those below
		Model   string `json:"model,omitempty"`
		Dir     string `json:"cwd,omitempty"`
		Mode    string `json:"mode,omitempty"`
	}
	// UserMessage is a prompt.
	UserMessage struct {
		Text string `json:"text"`
	}
	// PartialMessage is text as it comes. Where the answer breaks off, a System of subtype
	// retry follows, and the text does not count.
	PartialMessage struct {
		Text string `json:"text"`
	}
	// Assistant is a whole answer.
	Assistant struct {
		Text       string          `json:"text"`
		Model      string          `json:"model"`
		StopReason string          `json:"stop_reason"`
		Content    provider.Blocks `json:"content"`
	}
	// ToolUse is a call that the model wants.
	ToolUse struct {
		Tool  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id"`
		Input json.RawMessage `json:"input"`
	}
	// ToolProgress tells of a call that it runs, or waits for a person.
	ToolProgress struct {
		Tool     string          `json:"tool_name"`
		ID       string          `json:"tool_use_id"`
		State    string          `json:"state"` // running, waiting or reviewed
		CallID   string          `json:"call_id"`
		Approval string          `json:"approval_id,omitempty"`
		Why      []client.Reason `json:"why,omitempty"`
		Until    *time.Time      `json:"expires_at,omitempty"`
		Review   string          `json:"review,omitempty"` // of a model, for the person
	}
	// ToolResult is what the model is answered.
	ToolResult struct {
		ID      string `json:"tool_use_id"`
		Content string `json:"content"`
		IsError bool   `json:"is_error"`
		Tool    string `json:"tool_name"`
		CallID  string `json:"call_id,omitempty"`
		Status  string `json:"status,omitempty"`
		Verdict string `json:"verdict,omitempty"`
		WallMS  int64  `json:"wall_ms"`
	}
	// HookResponse is what the hooks of an event said that only the agent sees.
	HookResponse struct {
		Event    string   `json:"event"`
		Block    bool     `json:"block"`
		Reason   string   `json:"reason,omitempty"`
		Messages []string `json:"system_messages,omitempty"`
	}
	// Result is the end of a prompt.
	Result struct {
		Subtype    string          `json:"subtype"`
		Text       string          `json:"text"`
		Usage      provider.Usage  `json:"usage"`
		Turns      int             `json:"num_turns"`
		DurationMS int64           `json:"duration_ms"`
		CostUSD    float64         `json:"total_cost_usd"`
		Costs      []provider.Cost `json:"cost_breakdown"`
		Session    string          `json:"session_id"`
		Cancelled  bool            `json:"is_cancelled"`
		Errors     []string        `json:"errors"`
		Tools      []string        `json:"-"` // names of the tools that were called, in order
	}
)

// How a prompt ends.
const (
	Success, Cancelled, ErrorExecution = "success", "cancelled", "errorDuringExecution"
	ErrorMaxTurns, ErrorMaxBudget      = "errorMaxTurns", "errorMaxBudgetUsd"
)
