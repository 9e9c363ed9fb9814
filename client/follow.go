package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Progress is news about a call that has not ended. Exactly one field is set.
type Progress struct {
	Began   *Began
	Waiting *Waiting
	Closed  *Closed // only of [Client.RunLease]
	Output  *Output // only of [Client.Stream]
}

// Output is a piece of a program's output.
type Output struct {
	Stream string `json:"stream"` // "stdout" or "stderr"; of a job "output", which is both
	// Offset of the first byte of Text in the stream. If it is after the end of the previous Text, the bytes between
	// are missing because this reader was too slow. Bytes that are not UTF-8 arrive as U+FFFD.
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
}

// Began says that a call was judged and recorded, and runs now.
type Began struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
}

// Waiting says that a call waits for a person, and for how long at most.
type Waiting struct {
	CallID   string    `json:"call_id"`
	Approval string    `json:"approval_id"`
	Type     string    `json:"type"` // "execution", "result", "question", "connection" or "changes"
	Why      []Reason  `json:"why"`
	Asked    time.Time `json:"created_at"`
	Until    time.Time `json:"expires_at"` // then the call is refused
}

// Follow is [Client.Call] for those who want to know what their call waits for. hear
// is called by one goroutine at a time, before Follow returns; a daemon that is older
// than this says nothing before the end.
//
//	r, err := c.Follow(ctx, session, "Bash", args, func(p client.Progress) {
//		if p.Waiting != nil {
//			log.Print("waiting for an operator until ", p.Waiting.Until)
//		}
//	})
func (c *Client) Follow(
	ctx context.Context, session, name string, args json.RawMessage, hear func(Progress),
) (Result, error) {
	return c.FollowCall(ctx, session, CallRequest{Tool: name, Args: args}, hear)
}

// CallRequest is a call that a model made.
type CallRequest struct {
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
	ToolUseID string          `json:"tool_use_id,omitempty"` // the id that the model gave the call
}

// FollowCall is [Client.Follow] for a call that the model gave an id.
func (c *Client) FollowCall(
	ctx context.Context, session string, r CallRequest, hear func(Progress),
) (Result, error) {
	return c.follow(ctx, sessionPath(session, "/calls?output=false"), r, hear)
}

// Stream is [Client.Follow] that also passes the output of programs to hear while they run. Output that a hook or a
// person may withhold is in the result only.
func (c *Client) Stream(
	ctx context.Context, session, name string, args json.RawMessage, hear func(Progress),
) (Result, error) {
	return c.follow(ctx, sessionPath(session, "/calls"), CallRequest{Tool: name, Args: args}, hear)
}

func (c *Client) follow(ctx context.Context, path string, r CallRequest, hear func(Progress)) (Result, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return Result{}, fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(
		ctx, http.MethodPost, "http://sandboxd/v1"+path, bytes.NewReader(body),
	)
	if err != nil {
		return Result{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return Result{}, c.explain(ctx, err)
	}
	defer res.Body.Close()
	var result Result
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return result, decode(res, &result)
	}
	for s, err := range readStream(res.Body) {
		switch {
		case ctx.Err() != nil:
			return result, context.Cause(ctx)
		case err != nil:
			return result, c.explain(ctx, err)
		case s.event == "end":
			finish(res.Body)
			return result, json.Unmarshal(s.data, &result)
		}
		if err := s.progress(hear); err != nil {
			return result, err
		}
	}
	return result, errors.New("the daemon ended the stream without a result")
}

// progress passes an event to hear. It ignores types that this version does not know.
func (s sent) progress(hear func(Progress)) error {
	if hear == nil {
		return nil
	}
	var p Progress
	var err error
	switch s.event {
	case "begin":
		err = json.Unmarshal(s.data, &p.Began)
	case "waiting":
		err = json.Unmarshal(s.data, &p.Waiting)
	case "closed":
		err = json.Unmarshal(s.data, &p.Closed)
	case "output":
		var o Output
		o, err = readOutput(s.data, s.room)
		p.Output = &o
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the event %s: %w", s.event, err)
	}
	hear(p)
	return nil
}
