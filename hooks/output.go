package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// Output is the answer of a hook (H-19).
type Output struct {
	Message           string            `json:"message,omitempty"`
	Block             bool              `json:"block,omitempty"`
	Decision          string            `json:"decision,omitempty"` // approve or block
	Permission        string            `json:"permissionDecision,omitempty"`
	Reason            string            `json:"reason,omitempty"`
	UpdatedInput      json.RawMessage   `json:"updatedInput,omitempty"`
	PermissionUpdate  *PermissionUpdate `json:"permissionUpdate,omitempty"`
	SystemMessage     string            `json:"systemMessage,omitempty"`
	AdditionalContext string            `json:"additionalContext,omitempty"`
	Notification      *Notification     `json:"notification,omitempty"`
}

// Notification is something a hook wants people to see.
type Notification struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Level string `json:"level"` // info, warning, error, debug
}

// foreign are the further fields that hooks written for other agents use.
type foreign struct {
	Continue   *bool           `json:"continue"`
	StopReason string          `json:"stopReason"`
	Decision   json.RawMessage `json:"decision"` // a word, or an object of PermissionRequest
	Specific   *struct {
		Permission        string          `json:"permissionDecision"`
		PermissionReason  string          `json:"permissionDecisionReason"`
		UpdatedInput      json.RawMessage `json:"updatedInput"`
		ToolInput         json.RawMessage `json:"tool_input"`
		AdditionalContext string          `json:"additionalContext"`
		Decision          *behavior       `json:"decision"`
	} `json:"hookSpecificOutput"`
}

type behavior struct {
	Behavior     string          `json:"behavior"`
	Message      string          `json:"message"`
	UpdatedInput json.RawMessage `json:"updatedInput"`
}

// parseOutput reads the stdout of a hook. Text that is no JSON is a message
// (H-11); text that begins as an object and is none is an error, because half an
// answer may lack the half that blocks.
func parseOutput(text []byte) (*Output, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, nil
	}
	if !utf8.Valid(text) {
		return nil, errors.New("its output is not UTF-8")
	}
	if text[0] != '{' {
		return &Output{Message: string(text)}, nil
	}
	if err := strictjson.CheckFolded(text); err != nil {
		return nil, fmt.Errorf("its output is broken JSON: %w", err)
	}
	// The decision may be a word or an object: it is read by foreign.
	var out struct {
		Output
		Decision json.RawMessage `json:"decision"`
	}
	var more foreign
	if err := errors.Join(json.Unmarshal(text, &out), json.Unmarshal(text, &more)); err != nil {
		return nil, fmt.Errorf("its output has a field of another type: %w", err)
	}
	o := out.Output
	if err := o.adopt(more); err != nil {
		return nil, err
	}
	return &o, o.check()
}

// adopt brings the shapes of other agents into ours.
func (o *Output) adopt(f foreign) error {
	var asked behavior
	switch {
	case len(f.Decision) == 0 || string(f.Decision) == "null":
	case f.Decision[0] == '{':
		if err := json.Unmarshal(f.Decision, &asked); err != nil {
			return fmt.Errorf("its decision: %w", err)
		}
	default:
		if err := json.Unmarshal(f.Decision, &o.Decision); err != nil {
			return fmt.Errorf("its decision: %w", err)
		}
	}
	if f.Continue != nil && !*f.Continue {
		o.Block = true
		o.Reason = first(o.Reason, f.StopReason)
	}
	if s := f.Specific; s != nil {
		o.Permission = strictest(o.Permission, s.Permission)
		o.Reason = first(s.PermissionReason, o.Reason)
		o.UpdatedInput = firstRaw(o.UpdatedInput, s.UpdatedInput, s.ToolInput)
		o.AdditionalContext = first(o.AdditionalContext, s.AdditionalContext)
		if s.Decision != nil {
			asked = *s.Decision
		}
	}
	if asked.Behavior != "" {
		o.Permission = strictest(o.Permission, asked.Behavior)
		o.Reason = first(o.Reason, asked.Message)
		o.UpdatedInput = firstRaw(o.UpdatedInput, asked.UpdatedInput)
	}
	return nil
}

// check refuses words that nobody defined: an unknown decision may have been
// meant as a block.
func (o *Output) check() error {
	switch o.Decision {
	case "", "approve", "block", "allow", "deny", "ask":
	default:
		return fmt.Errorf("its decision %q is unknown", o.Decision)
	}
	switch o.Permission {
	case "", "allow", "deny", "ask", "defer":
	default:
		return fmt.Errorf("its permissionDecision %q is unknown", o.Permission)
	}
	if o.UpdatedInput = bytes.TrimSpace(o.UpdatedInput); string(o.UpdatedInput) == "null" {
		o.UpdatedInput = nil
	}
	if len(o.UpdatedInput) > 0 && o.UpdatedInput[0] != '{' {
		return errors.New("its updatedInput is not an object")
	}
	if n := o.Notification; n != nil {
		switch n.Level {
		case "info", "warning", "error", "debug":
		default:
			n.Level = "info"
		}
	}
	if p := o.PermissionUpdate; p != nil {
		return p.check()
	}
	return nil
}

// blocks is true if either of the words says so (CX-51).
func (o *Output) blocks() bool {
	return o.Block || o.Decision == "block" || o.Decision == "deny" || o.Permission == "deny"
}

func (o *Output) asks() bool { return o.Decision == "ask" || o.Permission == "ask" }

func (o *Output) allows() bool {
	return o.Decision == "approve" || o.Decision == "allow" || o.Permission == "allow"
}

// why returns the text for the model (H-20, H-26).
func (o *Output) why() string {
	if o.Message != "" && o.Reason != "" && o.Message != o.Reason {
		return o.Message + ": " + o.Reason
	}
	return first(o.Message, o.Reason)
}

func (o *Output) empty() bool {
	return o == nil || o.Message == "" && !o.Block && o.Decision == "" && o.Permission == "" && o.Reason == "" &&
		o.UpdatedInput == nil && o.PermissionUpdate == nil && o.SystemMessage == "" && o.AdditionalContext == "" &&
		o.Notification == nil
}

// first returns the first text that is not blank.
func first(texts ...string) string {
	for _, s := range texts {
		if strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

func firstRaw(values ...json.RawMessage) json.RawMessage {
	for _, v := range values {
		if len(v) > 0 {
			return v
		}
	}
	return nil
}

// strictest of two permission decisions; unknown words count as strict and are
// refused later.
func strictest(a, b string) string {
	rank := map[string]int{"": 0, "allow": 1, "defer": 2, "ask": 3, "deny": 4}
	for _, s := range []string{a, b} {
		if _, known := rank[s]; !known {
			return s
		}
	}
	if rank[b] > rank[a] {
		return b
	}
	return a
}
