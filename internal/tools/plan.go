package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// EnterPlanMode makes a session read-only until a person agrees to a plan.
type EnterPlanMode struct {
	sessions Sessions
	left     *modesLeft
}

// Spec implements [tool.Tool]. The tool counts as read-only, because it only takes rights away.
func (EnterPlanMode) Spec() tool.Spec {
	return tool.Spec{
		Name: "EnterPlanMode",
		Description: "Puts the session into plan mode: from then on only reading runs unasked. Use it before a " +
			"change that a person should agree to, then ExitPlanMode with the plan.",
		Schema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		Class:  tool.ClassState, ReadOnly: true,
		Annotations: &tool.Annotations{ReadOnly: true, Idempotent: true},
	}
}

// Uses implements [tool.Tool].
func (EnterPlanMode) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Run implements [tool.Tool].
func (e EnterPlanMode) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	var before tool.Mode
	_, err := e.sessions.Patch(ctx, in.Account, in.Session, func(s *tool.Session) error {
		before = s.Mode
		if s.Mode == tool.ModeDontAsk {
			return &tool.Error{
				Code: "mode_not_tightened",
				Msg:  "this session is in mode dontAsk: only reading runs already, and nobody is asked",
				Hint: "write the plan as your answer",
			}
		}
		s.Mode = tool.ModePlan
		return nil
	})
	if err != nil {
		return tool.Output{}, err
	}
	if before == tool.ModePlan {
		return tool.Output{Data: "the session is in plan mode already"}, nil
	}
	e.left.put(in.Session, before)
	return tool.Output{Data: "the session is in plan mode: read, then call ExitPlanMode with the plan"}, nil
}

// ExitPlanMode asks a person to agree to a plan and gives the session back the
// mode it had before.
type ExitPlanMode struct {
	sessions Sessions
	left     *modesLeft
}

type exitPlanArgs struct {
	Plan string `json:"plan"`
}

// Spec implements [tool.Tool]. Every call asks a person, because the mode becomes less strict.
func (ExitPlanMode) Spec() tool.Spec {
	return tool.Spec{
		Name: "ExitPlanMode",
		Description: "Shows a plan to a person and, if they agree, ends plan mode. If they refuse, heed the reason " +
			"and plan again.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"plan":{"type":"string","minLength":1,"maxLength":20000,"description":"what will be done, in Markdown"}},
"required":["plan"],"additionalProperties":false}`),
		Class: tool.ClassState, Execution: tool.ExecAskAlways,
		Annotations: &tool.Annotations{},
	}
}

// Uses implements [tool.Tool].
func (ExitPlanMode) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Run implements [tool.Tool].
func (e ExitPlanMode) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[exitPlanArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	mode := e.left.get(in.Session)
	_, err = e.sessions.Patch(ctx, in.Account, in.Session, func(s *tool.Session) error {
		if s.Mode != tool.ModePlan {
			return &tool.Error{
				Code: "not_planning", Msg: fmt.Sprintf("the session is in mode %s, not in plan mode", s.Mode),
				Hint: "go on with the work",
			}
		}
		s.Mode = mode
		return nil
	})
	if err != nil {
		return tool.Output{}, err
	}
	return tool.Output{
		Data: map[string]any{"plan": args.Plan, "mode": string(mode)},
		Text: fmt.Sprintf("the plan was agreed to; the session is in mode %s", mode),
	}, nil
}
