package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/agent/provider"
)

// Line reads a line of input, which is a text, or an object with the type user or control. It returns the prompt in it.
// A control has none: it changes how the next prompts are worked on, or hear is told why not; then nothing changes.
func (a *Agent) Line(line string, hear func(Message)) (prompt string) {
	prompt, err := a.read(line)
	if err != nil {
		hear(System{Subtype: "control", Text: err.Error()})
	} else if prompt == "" {
		hear(System{Subtype: "control", Text: "done"})
	}
	return prompt
}

func (a *Agent) read(line string) (prompt string, err error) {
	var in struct {
		Type     *string         `json:"type"`
		Text     string          `json:"text"`
		Model    *string         `json:"set_model"`
		Thinking json.RawMessage `json:"set_max_thinking_tokens"` // null switches thinking off
	}
	if err := json.Unmarshal([]byte(line), &in); err != nil || in.Type == nil {
		return line, nil
	}
	switch {
	case *in.Type == "user" && strings.TrimSpace(in.Text) != "":
		return in.Text, nil
	case *in.Type == "user":
		return "", errors.New("a line of type user has no text")
	case *in.Type != "control":
		return "", fmt.Errorf("unknown type of a line %q: user or control", *in.Type)
	case (in.Model == nil) == (in.Thinking == nil):
		return "", errors.New("a control has either set_model or set_max_thinking_tokens")
	case in.Model != nil:
		return "", a.setModel(strings.TrimSpace(*in.Model))
	}
	var tokens *int
	if err := json.Unmarshal(in.Thinking, &tokens); err != nil || !a.options.Budgets {
		return "", errors.New("invalidConfiguration: set_max_thinking_tokens is a number or null, for anthropic alone")
	}
	t, err := provider.MaxThinking(tokens)
	if err == nil {
		a.options.Thinking = t
	}
	return "", err
}

// setModel takes any name: only its server knows which there are.
func (a *Agent) setModel(name string) error {
	if name == "" {
		return errors.New("invalidConfiguration: Model name cannot be empty")
	}
	if a.options.Budget != nil && !a.spent.Priced(name) {
		return errors.New("invalidConfiguration: no price is known for " + name + ", so the budget cannot be held")
	}
	a.options.Model = name
	return nil
}
