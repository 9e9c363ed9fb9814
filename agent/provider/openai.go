package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/openai/openai-go/v3/packages/ssestream"
)

// openAI is the chat completions API, which many servers speak.
type openAI struct {
	atHome bool // the server is OpenAI's own, whose newer models know max_completion_tokens alone
}

func (openAI) defaultBase() string { return "https://api.openai.com/v1" }
func (openAI) path() string        { return "/chat/completions" }

func (openAI) authorize(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

func (o openAI) body(r Request) any {
	most := "max_tokens"
	if o.atHome {
		most = "max_completion_tokens"
	}
	body := map[string]any{
		"model": r.Model, most: r.MaxTokens, "stream": true, "stream_options": map[string]any{"include_usage": true},
	}
	var messages, tools []any
	if r.System != "" {
		messages = append(messages, map[string]any{"role": "system", "content": r.System})
	}
	for _, m := range r.Messages {
		messages = append(messages, m.chat()...)
	}
	for _, t := range r.Tools {
		function := map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Schema}
		tools = append(tools, map[string]any{"type": "function", "function": function})
	}
	body["messages"] = messages
	if tools != nil {
		body["tools"] = tools
	}
	switch c := r.ToolChoice; {
	case c == nil:
	case c.Type == "tool":
		body["tool_choice"] = map[string]any{"type": "function", "function": map[string]any{"name": c.Name}}
	case c.Type == "any":
		body["tool_choice"] = "required"
	default:
		body["tool_choice"] = c.Type
	}
	if r.Thinking.Effort != "" {
		body["reasoning_effort"] = r.Thinking.Effort
	}
	if r.Temperature != nil {
		body["temperature"] = *r.Temperature
	}
	return body
}

// chat makes each result a message of its own, in front of what else the user says.
func (m Message) chat() (all []any) {
	var calls []any
	for _, b := range m.Content {
		switch b.Type {
		case "tool_result":
			all = append(all, map[string]any{"role": "tool", "tool_call_id": b.ToolUseID, "content": b.Content.Text()})
		case "tool_use":
			function := map[string]any{"name": b.Name, "arguments": string(b.Input)} // JSON in a string
			id := cmp.Or(b.ID, fmt.Sprintf("call_%d", len(calls)))
			calls = append(calls, map[string]any{"id": id, "type": "function", "function": function})
		}
	}
	rest := map[string]any{"role": m.Role, "content": nil} // null beside calls alone
	if text := m.Content.Text(); text != "" {
		rest["content"] = text
	}
	if calls != nil {
		rest["tool_calls"] = calls
	}
	if rest["content"] != nil || calls != nil {
		all = append(all, rest)
	}
	return all
}

// chunk is one event of the stream.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content   string      `json:"content"`
			ToolCalls []chunkCall `json:"tool_calls"`
			// What a model thinks has one of two names, and is not kept.
			Reasoning any `json:"reasoning"`
			Thought   any `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Input  int64 `json:"prompt_tokens"`
		Output int64 `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chunkCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// stopReasons are those that have another name here.
var stopReasons = map[string]string{"stop": EndTurn, "tool_calls": ToolUse, "length": MaxTokens}

func (openAI) read(res *http.Response, tell func(Event)) error {
	d := ssestream.NewDecoder(res)
	c := converter{tell: tell, calls: map[int]int{}, open: -1}
	for d.Next() {
		data := bytes.TrimSpace(d.Event().Data)
		if string(data) == "[DONE]" {
			break
		}
		var k chunk
		if err := json.Unmarshal(data, &k); err != nil {
			return broken("the model server sent an event that is no JSON: %s", data)
		}
		if len(k.Error) > 0 && string(k.Error) != "null" {
			w := wireError{Type: "error", Message: string(k.Error)}
			_ = json.Unmarshal(k.Error, &w) // some servers write a text
			e := w.ofStream()
			tell(Event{Kind: ErrorEvent, Err: e})
			return e
		}
		c.take(k)
	}
	if c.reason == "" {
		return brokenOff(d.Err())
	}
	c.end()
	return nil
}

// converter makes our events out of chunks. A call may be mixed with others, and its blocks
// then close at the end, in the order in which they began.
type converter struct {
	tell    func(Event)
	started bool
	blocks  int
	open    int         // the block of text that is open; -1 is none
	calls   map[int]int // the blocks of calls, by their index on the wire
	last    int         // index of the call that came last
	reason  string
	usage   Usage
}

func (c *converter) take(k chunk) {
	if !c.started {
		c.started = true
		c.tell(Event{Kind: MessageStart})
	}
	if k.Usage != nil {
		c.usage = Usage{k.Usage.Input, k.Usage.Output}
	}
	if len(k.Choices) == 0 {
		return
	}
	choice := k.Choices[0]
	for _, thought := range []any{choice.Delta.Reasoning, choice.Delta.Thought} {
		if thought != nil && thought != "" {
			c.tell(Event{Kind: MessageDelta}) // the answer goes on
		}
	}
	c.text(choice.Delta.Content)
	for _, call := range choice.Delta.ToolCalls {
		c.call(call)
	}
	if finish := choice.FinishReason; finish != "" {
		c.reason = cmp.Or(stopReasons[finish], finish)
	}
}

func (c *converter) text(text string) {
	if text == "" {
		return
	}
	if c.open < 0 {
		c.open = c.start(Block{Type: "text"})
	}
	c.tell(Event{Kind: ContentBlockDelta, Index: c.open, Delta: Delta{Type: "text_delta", Text: text}})
}

// start starts a block, and returns its index.
func (c *converter) start(b Block) int {
	c.tell(Event{Kind: ContentBlockStart, Index: c.blocks, Block: b})
	c.blocks++
	return c.blocks - 1
}

func (c *converter) call(w chunkCall) {
	c.open = -1 // text behind a call is a block of its own
	index := c.last
	switch {
	case w.Index != nil:
		index = *w.Index
	case w.ID != "" || w.Function.Name != "": // servers that do not count send each call whole
		index = len(c.calls)
	}
	c.last = index
	block, known := c.calls[index]
	if !known {
		id := cmp.Or(w.ID, fmt.Sprintf("call_%d", len(c.calls)))
		block = c.start(Block{Type: "tool_use", ID: id, Name: w.Function.Name})
		c.calls[index] = block
	}
	if w.Function.Arguments != "" {
		delta := Delta{Type: "input_json_delta", JSON: w.Function.Arguments}
		c.tell(Event{Kind: ContentBlockDelta, Index: block, Delta: delta})
	}
}

func (c *converter) end() {
	for index := range c.blocks {
		c.tell(Event{Kind: ContentBlockStop, Index: index})
	}
	c.tell(Event{Kind: MessageDelta, StopReason: c.reason, Usage: c.usage})
	c.tell(Event{Kind: MessageStop})
}
