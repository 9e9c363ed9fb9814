package policy

// Rules are permission rules in the form Tool or Tool(specifier).
type Rules struct {
	Allow []string `json:"allow,omitempty" yaml:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty" yaml:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty" yaml:"deny,omitempty"`
}

func translate(Rules) (map[string]any, error) { return map[string]any{}, nil }
