package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	Continue         *bool           `json:"continue"`
	StopReason       string          `json:"stopReason"`
	Decision         json.RawMessage `json:"decision"` // a word, or an object of PermissionRequest
	Behavior         string          `json:"behavior"`
	Permission       string          `json:"permission"`
	PermissionReason string          `json:"permissionDecisionReason"`
	Specific         json.RawMessage `json:"hookSpecificOutput"`
}

// specific is what Claude Code and Gemini CLI keep in an object of its own.
type specific struct {
	Permission        string          `json:"permissionDecision"`
	PermissionReason  string          `json:"permissionDecisionReason"`
	UpdatedInput      json.RawMessage `json:"updatedInput"`
	ToolInput         json.RawMessage `json:"tool_input"`
	AdditionalContext string          `json:"additionalContext"`
	Decision          json.RawMessage `json:"decision"`
}

type behavior struct {
	Behavior     string          `json:"behavior"`
	Message      string          `json:"message"`
	UpdatedInput json.RawMessage `json:"updatedInput"`
}

// adopt brings the shapes of other agents into ours. Of several decisions the strictest holds.
func (o *Output) adopt(f foreign) error {
	for _, word := range []string{f.Behavior, f.Permission} {
		o.Permission = strictest(o.Permission, word)
	}
	o.Reason = first(o.Reason, f.PermissionReason)
	if f.Continue != nil && !*f.Continue {
		o.Block = true
		o.Reason = first(o.Reason, f.StopReason)
	}
	var s specific
	if len(f.Specific) > 0 && string(f.Specific) != "null" {
		if f.Specific[0] != '{' {
			return errors.New("its hookSpecificOutput is not an object")
		}
		if err := readAs(f.Specific, &s, specificFields); err != nil {
			return err
		}
	}
	o.Permission = strictest(o.Permission, s.Permission)
	o.Reason = first(s.PermissionReason, o.Reason)
	o.UpdatedInput = firstRaw(o.UpdatedInput, s.UpdatedInput, s.ToolInput)
	o.AdditionalContext = first(o.AdditionalContext, s.AdditionalContext)
	return o.adoptDecisions(f.Decision, s.Decision)
}

// adoptDecisions reads two decisions, each a word or an object. The reason is that of the stricter one.
func (o *Output) adoptDecisions(decisions ...json.RawMessage) error {
	var asked []behavior
	for _, d := range decisions {
		switch {
		case len(d) == 0 || string(d) == "null":
		case d[0] == '{':
			var b behavior
			if err := readAs(d, &b, decisionFields); err != nil {
				return err
			}
			if b.Behavior == "" {
				return errors.New("its decision has no behavior")
			}
			asked = append(asked, b)
		default:
			var word string
			if err := json.Unmarshal(d, &word); err != nil {
				return fmt.Errorf("its decision: %w", err)
			}
			if word != "" && o.Decision != "" && word != o.Decision {
				return fmt.Errorf("its decisions are %q and %q", o.Decision, word)
			}
			o.Decision = first(o.Decision, word)
		}
	}
	if len(asked) == 2 && strictest(asked[0].Behavior, asked[1].Behavior) != asked[0].Behavior {
		slices.Reverse(asked)
	}
	for _, b := range asked {
		o.Permission = strictest(o.Permission, b.Behavior)
		o.Reason = first(o.Reason, b.Message)
		o.UpdatedInput = firstRaw(o.UpdatedInput, b.UpdatedInput)
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
		if len(v) > 0 && string(v) != "null" {
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
