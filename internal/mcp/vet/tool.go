package vet

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// MaxDefinition bounds the bytes of a tool's definition, because a person must be able to read it.
const MaxDefinition = 64 << 10

// Definition holds what a server says about a tool, as far as a model or a person sees it. A pin covers it.
type Definition struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	Icons        json.RawMessage `json:"icons,omitempty"`
}

// Found is the judgement of a definition.
type Found struct {
	Text    []byte          // canonical, for the pin
	Schema  json.RawMessage // for the check of arguments
	Refused string          // why no model gets the tool, whoever may want it; "" is nothing
	Flagged string          // why a person has to look at it first; "" is nothing
	// Mentions are words that must be flagged if they name a tool or a server of somebody else.
	Mentions []string
}

// Tool judges a definition.
func Tool(server string, d Definition) Found {
	var f Found
	refuse := func(format string, args ...any) Found {
		f.Refused = fmt.Sprintf(format, args...)
		return f
	}
	if err := CheckTool(server, d.Name); err != nil {
		return refuse("%v", err)
	}
	raw, err := json.Marshal(d)
	if err == nil {
		f.Text, err = strictjson.Canonical(raw)
	}
	switch {
	case err != nil:
		return refuse("the definition is not one JSON value: %v", err)
	case len(f.Text) > MaxDefinition:
		return refuse("the definition has %d bytes, and at most %d can be looked at", len(f.Text), MaxDefinition)
	}
	if f.Schema, err = checkSchema(d.InputSchema); err != nil {
		return refuse("inputSchema: %v", err)
	}
	var whole any
	if err := json.Unmarshal(f.Text, &whole); err != nil {
		return refuse("the definition cannot be read: %v", err)
	}
	texts(whole, "", func(at, text string) {
		if what := Unseen(text); what != "" && f.Refused == "" {
			f.Refused = fmt.Sprintf("%.80q %s", "tool"+at, what)
		}
		f.Mentions = append(f.Mentions, mentions(text)...)
		if what := misleads(text); what != "" && f.Flagged == "" {
			f.Flagged = fmt.Sprintf("%.80q %s", "tool"+at, what)
		}
	})
	slices.Sort(f.Mentions)
	f.Mentions = slices.Compact(f.Mentions)
	return f
}
