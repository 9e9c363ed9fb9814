package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// agentTool is the tool Agent, which starts an agent.
type agentTool struct{ f *feature }

func (f *feature) group() catalog.Group {
	return catalog.Group{Name: "agents", Tools: []tool.Tool{agentTool{f}}, Lists: func(tool.Session) string {
		c := f.config.Load()
		if c == nil || len(c.Spawner.Command) == 0 {
			return ""
		}
		text := "Types of agents that Agent starts:"
		for _, name := range c.names() {
			_, t, _ := c.find(name)
			text += fmt.Sprintf("\n- %s: %s", name, cmp.Or(t.Description, "of the configuration"))
		}
		return text
	}}
}

// args are the arguments of Agent.
type args struct {
	Prompt      string  `json:"prompt"`
	Description string  `json:"description"`
	Type        string  `json:"subagent_type"`
	Model       *string `json:"model"`
	Name        *string `json:"name"`
	MaxTurns    *int    `json:"maxTurns"`
	Background  *bool   `json:"run_in_background"`
	Isolation   *string `json:"isolation"`
	Team        *string `json:"team_name"`
	Mode        *string `json:"mode"`
	Resume      *string `json:"resume"`
}

// Spec implements [tool.Tool].
func (agentTool) Spec() tool.Spec {
	return tool.Spec{
		Name: "Agent", Class: tool.ClassState, Annotations: &tool.Annotations{},
		Description: "Starts an agent that works on a piece of its own and answers with what it found or did. It has " +
			"at most the rights of this session, and starts no agents itself. Calls in one message work at the same " +
			"time only with run_in_background.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"prompt":{"type":"string","minLength":1,"description":"what to do, with all that it has to know"},
"description":{"type":"string","minLength":1,"description":"the same in a few words"},
"subagent_type":{"type":"string",
	"description":"Explore, Plan, or a type of the configuration (default: general-purpose)"},
"model":{"type":"string","minLength":1},
"name":{"type":"string","description":"to send it messages, or to tell it from others"},
"maxTurns":{"type":"integer","minimum":1,"description":"how many answers of its model (default 10)"},
"run_in_background":{"type":"boolean","description":"answer at once; TaskOutput waits for its answer"},
"isolation":{"type":"string","description":"worktree: it works in a git worktree of its own"},
"team_name":{"type":"string","description":"it becomes a member of this team"},
"mode":{"type":"string","description":"permission mode, no looser than that of this session"},
"resume":{"type":"string","description":"session_id of an agent of this session, to go on with"}},
"required":["prompt","description"],"additionalProperties":false}`),
		OutputLimit: 100_000, NoCache: true, // the agent's own text, unchanged
	}
}

// Uses implements [tool.Tool].
func (agentTool) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Lasts implements [tool.Lasting].
func (agentTool) Lasts(in tool.In) (time.Duration, bool) {
	a, err := decode(in)
	return 0, err == nil && a.Background != nil && *a.Background
}

func decode(in tool.In) (args, error) {
	a, err := tool.Decode[args](in)
	if err != nil {
		return a, err
	}
	if strings.TrimSpace(a.Prompt) == "" || strings.TrimSpace(a.Description) == "" {
		return a, bad("prompt and description must say something", "")
	}
	if a.Resume == nil {
		return a, nil
	}
	for name, given := range map[string]bool{
		"subagent_type": a.Type != "", "name": a.Name != nil, "isolation": a.Isolation != nil, "mode": a.Mode != nil,
	} {
		if given {
			return a, bad(name+" and resume exclude each other: the agent has it already", "")
		}
	}
	return a, nil
}

func bad(msg, hint string) error { return &tool.Error{Code: "invalid_arguments", Msg: msg, Hint: hint} }

// Run implements [tool.Tool].
func (t agentTool) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	a, err := decode(in)
	if err != nil {
		return tool.Output{}, err
	}
	c := t.f.config.Load()
	if len(c.Spawner.Command) == 0 {
		return tool.Output{}, &tool.Error{
			Code: "spawner_unavailable", Msg: "Error: Agent spawner not available.",
			Hint: "an operator names the program that runs agents in agents.spawner.command",
		}
	}
	if in.By == nil {
		return tool.Output{}, bad("no process made this call, so the agent would have nobody's rights", "")
	}
	r := &run{f: t.f, config: c, in: in, box: box, args: a}
	if err := r.prepare(ctx); err != nil {
		return tool.Output{}, err
	}
	return r.work(ctx)
}
