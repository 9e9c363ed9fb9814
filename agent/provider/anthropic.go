package provider

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"
)

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) defaultBase() string { return "https://api.anthropic.com" }
func (anthropic) path() string        { return "/v1/messages" }

func (anthropic) authorize(h http.Header, key string) {
	h.Set("X-Api-Key", key)
	h.Set("Anthropic-Version", "2023-06-01")
}

func (anthropic) body(r Request) any {
	if r.Thinking.Type == "enabled" { // a server refuses what the thinking alone may take
		r.MaxTokens = max(r.MaxTokens, r.Thinking.Budget+roomToAnswer)
	}
	return struct {
		Request
		Stream bool `json:"stream"`
	}{r, true}
}

// kinds are the names of events on the wire.
var kinds = map[string]string{
	"message_start": MessageStart, "content_block_start": ContentBlockStart, "ping": Ping, "error": ErrorEvent,
	"content_block_delta": ContentBlockDelta, "content_block_stop": ContentBlockStop,
	"message_delta": MessageDelta, "message_stop": MessageStop,
}

func (anthropic) read(res *http.Response, tell func(Event)) error {
	d := ssestream.NewDecoder(res)
	for d.Next() {
		data := d.Event().Data
		var w struct {
			Type    string `json:"type"`
			Index   int    `json:"index"`
			Message struct {
				Usage cachedUsage `json:"usage"`
			} `json:"message"`
			Block struct {
				Block
				Content json.RawMessage `json:"content"` // unread: each level of blocks in it is read anew
			} `json:"content_block"`
			Delta struct {
				Delta
				StopReason string `json:"stop_reason"`
			} `json:"delta"`
			Usage cachedUsage `json:"usage"`
			Error wireError   `json:"error"`
		}
		if len(bytes.TrimSpace(data)) == 0 {
			continue
		}
		if err := json.Unmarshal(data, &w); err != nil {
			return broken("the model server sent an event that is no JSON: %s", data)
		}
		e := Event{Kind: kinds[w.Type], Index: w.Index}
		switch e.Kind {
		case "": // a later version may send more kinds
			continue
		case MessageStart:
			e.Usage = w.Message.Usage.all()
		case ContentBlockStart:
			e.Block = w.Block.Block
		case ContentBlockDelta:
			e.Delta = w.Delta.Delta
		case MessageDelta:
			e.StopReason, e.Usage = w.Delta.StopReason, w.Usage.all()
		case ErrorEvent:
			e.Err = w.Error.ofStream()
		}
		tell(e)
		if e.Err != nil {
			return e.Err
		}
		if e.Kind == MessageStop {
			return nil
		}
	}
	return brokenOff(d.Err())
}

// cachedUsage counts what came from a cache apart.
type cachedUsage struct {
	Usage
	Read    int64 `json:"cache_read_input_tokens"`
	Written int64 `json:"cache_creation_input_tokens"`
}

func (u cachedUsage) all() Usage { return Usage{u.Input + u.Read + u.Written, u.Output} }
