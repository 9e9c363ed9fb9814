package tool

// Group is a set of tools that is switched on and off as one (T-03).
type Group struct {
	Name  string
	Tools []Tool
	// RulePrompt is the group's part of the system prompt. It is given exactly
	// the names that are enabled, each time the prompt is made; nil adds nothing.
	RulePrompt func(enabled []string) string
	Rules      map[string]Rule // by rule name: variable Rule/{group}/{name}
}

// Rule is a document for the model, kept as a variable.
type Rule struct {
	Desc       string
	Prompt     string
	When       string // when to read it; "" reads "As needed"
	AlwaysLoad bool   // the text stands in the system prompt itself
}
