package serve

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asking says how a client can show a question to its user.
type asking int

const (
	notAtAll  asking = iota
	byRequest        // by a request of the server while the call waits
	byResult         // the answer of the call is the question; the client repeats the call with the user's answer
)

// stateless is the first version of the protocol without sessions.
const stateless = "2026-07-28"

func asksBy(req *mcp.CallToolRequest) asking {
	p := req.Session.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return notAtAll
	}
	if e := p.Capabilities.Elicitation; e.Form == nil && e.URL != nil {
		return notAtAll
	}
	if p.ProtocolVersion >= stateless {
		return byResult
	}
	return byRequest
}

// form returns a question without fields.
func form(note string) *mcp.ElicitParams {
	return &mcp.ElicitParams{
		Mode: "form",
		Message: note + "\n\nWhat you answer here approves nothing. Accept: wait for that answer. " +
			"Decline: the call is ended and does not run.",
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	}
}

// elicit shows a question while the call waits. The function that it returns withdraws the question. Over HTTP the
// SDK may tell the client too late; then its user's answer has no effect.
func elicit(ctx context.Context, req *mcp.CallToolRequest, r *running) (back func()) {
	ctx, cancel := context.WithCancel(ctx)
	note := form(r.note)
	go func() {
		defer func() {
			if recover() != nil { // a panic of the SDK: the question is in the queue all the same
				cancel()
			}
		}()
		if answer, err := req.Session.Elicit(ctx, note); err == nil && answer.Action == "decline" {
			r.cancel(errDeclined)
		}
	}()
	return cancel
}
