package approvals

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Tools returns the tools that ask people.
func Tools(q *Queue) []tool.Tool { return []tool.Tool{askUser{q}} }

// askUser asks the person a question of the model and waits (T-49).
type askUser struct{ q *Queue }

// UserQuestion is the arguments of AskUser.
type UserQuestion struct {
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`
}

// UserAnswer is what AskUser returns. When Answered is false, Text says why.
type UserAnswer struct {
	Answered bool   `json:"answered"`
	Text     string `json:"text"`
}

func (askUser) Spec() tool.Spec {
	return tool.Spec{
		Name: "AskUser",
		Description: "Ask the person one question and wait for the answer. Use it when a choice is theirs: " +
			"what they meant, which of several ways, or whether to go on. " +
			"If nobody answers, decide yourself and say so.",
		Schema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"question": {"type": "string", "minLength": 1, "description": "The question, complete in itself."},
				"options": {"type": "array", "items": {"type": "string"}, "maxItems": 10,
					"description": "Answers to choose from. The person may answer differently."}
			},
			"required": ["question"],
			"additionalProperties": false
		}`),
		Class:    tool.ClassState,
		ReadOnly: true,
		Origin:   tool.OriginPerson,
	}
}

func (askUser) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (a askUser) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	var u UserQuestion
	if err := json.Unmarshal(in.Args, &u); err != nil {
		return tool.Output{}, fmt.Errorf("read the question: %w", err)
	}
	if strings.TrimSpace(u.Question) == "" {
		return tool.Output{}, &tool.Error{
			Code: "invalid_arguments", Msg: "the question is empty", Hint: "ask a whole question",
		}
	}
	_, canonical, err := argsKey(in.Args)
	if err != nil {
		return tool.Output{}, err
	}
	defer tool.YieldSlot(ctx)() // a person is slow; the rest of the batch goes on
	answer, err := a.q.ask(ctx, Item{
		Type: TypeQuestion, Status: StatusPending, Account: in.Account, SessionID: in.Session,
		SessionMade: in.SessionMade, CallID: in.CallID,
		Tool: "AskUser", Args: in.Args, Why: []tool.Reason{}, Remember: []string{RememberOnce},
		// An answer that comes late is not for another session of the same id.
		Digest: digest("question", in.Account, in.Session, strconv.FormatInt(in.SessionMade.UnixNano(), 10),
			string(canonical)),
	}, in.Emit)
	if err != nil {
		return tool.Output{}, err
	}
	out := UserAnswer{Answered: answer.Approved, Text: answer.Reason}
	if answer.Approved {
		return tool.Output{Data: out, Text: answer.Reason}, nil
	}
	// Nobody's answer is the daemon's text, not a person's.
	origin := tool.OriginPerson
	if answer.Code != "" {
		origin = tool.OriginTool
	}
	text := "No answer: " + answer.Reason + ". Go on with your own judgement and say what you assumed."
	return tool.Output{Data: out, Text: text, Origin: origin}, nil
}
