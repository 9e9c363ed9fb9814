package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// RemoteTrigger stands for a service that a daemon does not have: work that is started on another host. Models know
// it and call it, so the tool exists and answers what to do instead (T-53).
type RemoteTrigger struct{}

type remoteTriggerArgs struct {
	Action string `json:"action"`
}

// Spec implements [tool.Tool].
func (RemoteTrigger) Spec() tool.Spec {
	return tool.Spec{
		Name: "RemoteTrigger",
		Description: "Work that another host starts on a schedule. This daemon has no such host: " +
			"every action is an error.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"action":{"type":"string","enum":["list","get","create","update","run"]},
"id":{"type":"string"},"name":{"type":"string"},"schedule":{"type":"string"},"prompt":{"type":"string"}},
"required":["action"],"additionalProperties":false}`),
		Class: tool.ClassState, ReadOnly: true, NoCache: true,
		Annotations: &tool.Annotations{ReadOnly: true, Idempotent: true},
	}
}

// Uses implements [tool.Tool].
func (RemoteTrigger) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Run implements [tool.Tool].
func (RemoteTrigger) Run(_ context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[remoteTriggerArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	return tool.Output{}, &tool.Error{
		Code: "no_remote_backend",
		Msg:  fmt.Sprintf("RemoteTrigger %s: no remote backend is connected to this daemon", args.Action),
		Hint: "nothing was done; tell the person that runs on a schedule of another host are not available here",
	}
}
