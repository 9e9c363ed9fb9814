package provider

import "fmt"

// Thinking says how long a model may think before it answers. The zero value leaves that to the server.
type Thinking struct {
	Type   string `json:"type"`                    // "", "adaptive", "enabled" or "disabled"
	Budget int    `json:"budget_tokens,omitempty"` // of "enabled"
	Effort string `json:"-"`                       // for servers that know efforts and no budgets
}

// efforts are how many tokens each effort is.
var efforts = map[string]int{"low": 1024, "medium": 5120, "high": 10240, "max": 32768}

// Effort returns a budget by its name.
func Effort(name string) (Thinking, error) {
	budget, ok := efforts[name]
	if !ok {
		return Thinking{}, fmt.Errorf("unknown effort %q: low, medium, high or max", name)
	}
	return Thinking{Type: "enabled", Budget: budget, Effort: name}, nil
}

// MaxThinking returns a budget in tokens; nil switches thinking off.
func MaxThinking(tokens *int) (Thinking, error) {
	if tokens == nil {
		return Thinking{Type: "disabled"}, nil
	}
	if *tokens <= 0 {
		return Thinking{}, fmt.Errorf("invalidConfiguration: %d tokens of thinking are not 1 or more", *tokens)
	}
	return Thinking{Type: "enabled", Budget: *tokens}, nil
}

// roomToAnswer is what must be left of max_tokens behind the thinking.
const roomToAnswer = 4096
