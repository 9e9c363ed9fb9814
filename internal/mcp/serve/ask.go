package serve

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// How a client can show a question to its user.
type asking int

const (
	notAtAll  asking = iota
	byRequest        // of the server, while the call waits
	byResult         // the call is answered by the question, and made again with the answer
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

// form is a question with nothing to fill in.
func form(note string) *mcp.ElicitParams {
	return &mcp.ElicitParams{
		Mode: "form",
		Message: note + "\n\nWhat you answer here approves nothing. Accept: wait for that answer. " +
			"Decline: the call is ended and does not run.",
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	}
}

// elicit shows a question while the call waits. What it returns takes the question back; over HTTP the SDK may be too
// late to tell the client, whose user then answers for nothing.
func elicit(ctx context.Context, req *mcp.CallToolRequest, r *running) (back func()) {
	ctx, cancel := context.WithCancel(ctx)
	note := form(r.note)
	go func() {
		defer func() {
			if recover() != nil { // of the SDK: the question is in the queue all the same
				cancel()
			}
		}()
		if answer, err := req.Session.Elicit(ctx, note); err == nil && answer.Action == "decline" {
			r.cancel(errDeclined)
		}
	}()
	return cancel
}
