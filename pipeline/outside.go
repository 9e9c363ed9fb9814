package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// outside is a tool of another agent, which the daemon can judge and cannot run. What it
// does is known by its name alone, so it counts as destructive; of WebFetch the hosts are
// known, too.
type outside struct{ name string }

const webFetch = "WebFetch"

// outsideName is what a permission rule can name, and no more.
var outsideName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.:-]*$`)

// outsideTool returns a tool of another agent by its name.
func outsideTool(name string) (tool.Tool, error) {
	if !outsideName().MatchString(name) {
		return nil, &tool.Error{
			Code: "tool_not_found", Stage: "lookup", Msg: fmt.Sprintf("%.80q is no name of a tool", name),
			Hint: "a name is a letter or _ and then letters, digits, _, -, : and dots",
		}
	}
	return outside{name}, nil
}

// Spec implements [tool.Tool].
func (o outside) Spec() tool.Spec {
	s := tool.Spec{
		Name: o.name, Description: "A tool of another agent.",
		Schema:      json.RawMessage(`{"type":"object","additionalProperties":true}`),
		Annotations: &tool.Annotations{Destructive: true, OpenWorld: true},
	}
	switch {
	case o.name == webFetch, o.name == "WebSearch":
		s.Class, s.Origin = tool.ClassNet, tool.OriginWeb
	case strings.HasPrefix(o.name, "mcp__"):
		s.Origin = tool.OriginMCP
	}
	return s
}

// Uses implements [tool.Tool].
func (o outside) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	if o.name != webFetch {
		return guard.Uses{}, nil
	}
	var args struct {
		URL    string `json:"url"`
		Prompt string `json:"prompt"`
	}
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return guard.Uses{}, badAddress("the addresses are not text")
	}
	var words []string
	if args.URL != "" {
		words = append(words, args.URL)
	} else { // an agent that takes the addresses from a text
		for word := range strings.FieldsSeq(args.Prompt) {
			if strings.Contains(word, "://") {
				words = append(words, word)
			}
		}
	}
	var uses guard.Uses
	for _, word := range words {
		u, err := guard.ParseURL(word)
		if err != nil {
			return guard.Uses{}, badAddress(err.Error())
		}
		uses.Hosts = append(uses.Hosts, u.Hostname())
	}
	if len(uses.Hosts) == 0 {
		return guard.Uses{}, badAddress("the call names no address")
	}
	return uses, nil
}

func badAddress(msg string) error {
	return &tool.Error{
		Code: "invalid_arguments", Stage: "judge", Msg: msg,
		Hint: "give the whole address, such as https://example.com/page",
	}
}

// Run implements [tool.Tool]. It is never called: such a call is only judged.
func (o outside) Run(context.Context, tool.In, sandbox.Box) (tool.Output, error) {
	return tool.Output{}, &tool.Error{
		Code: "tool_not_found", Msg: "the daemon cannot run " + o.name, Hint: "the agent runs its own tools",
	}
}
