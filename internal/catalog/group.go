package catalog

import "github.com/sandboxd/sandboxd/internal/tool"

// Group is a set of tools that is switched on and off as one (T-03).
type Group struct {
	Name  string
	Tools []tool.Tool
	// RulePrompt is the group's part of the system prompt. It is given exactly
	// the names that are enabled, each time the prompt is made; nil adds nothing.
	RulePrompt func(enabled []string) string
	// Lists is what of this group is another in each session; it follows RulePrompt. Nil adds nothing.
	Lists func(tool.Session) string
	// Of are the tools that a session has beside Tools, by name; they come before others of their name (CX-43). It
	// is asked with each call and each list, so it answers at once, and nobody changes the map. Nil has none.
	Of    func(tool.Session) map[string]tool.Tool
	Rules map[string]Rule // by rule name: variable Rule/{group}/{name}
}

// Rule is a document for the model, kept as a variable.
type Rule struct {
	Desc       string
	Prompt     string
	When       string // when to read it; "" reads "As needed"
	AlwaysLoad bool   // the text stands in the system prompt itself
}
