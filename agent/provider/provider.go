// Package provider asks a model and reads its answer while it comes.
//
// Requests and blocks have the form of the Anthropic API. A server that speaks the chat completions of OpenAI is
// translated in both directions. The function hear gets each [Event] of the stream.
//
//	c, err := provider.New(provider.Server{Provider: "openai", BaseURL: url, Key: key})
//	a := provider.Asker{Client: c, Base: 2 * time.Second, Max: time.Minute, Said: say, Spent: spent}
//	answer, err := a.Ask(ctx, provider.Request{Model: "m", MaxTokens: 100, Messages: said}, hear)
//	for _, call := range answer.Content.Calls() { … } // then ask again, with a Result for each
//
// Said, Spent and hear must be set. If an [*Error] says Again, Ask asks [Retries] times more, then Fallback once; hear
// gets each stream. An answer without an error is whole: a stream without message_stop or finish_reason, of another
// content type, or with nothing in it is an error, and so is the end of ctx. No error text holds the key, and the key
// goes to the configured address alone: redirections are not followed. A [Client] is safe for concurrent use.
// [Spending], which adds costs, is not. A model and its price go into [Models], an API into [New], as a dialect.
// Only the SDKs' decoders of streams are linked: all of the SDKs would make the start 3.5 times as long.
package provider

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// Client asks one server. An error is an [*Error], the cause of ctx, or that a request has no JSON form.
type Client interface {
	// Send asks, and returns the whole answer.
	Send(context.Context, Request) (Answer, error)
	// Stream is Send that tells hear of every event as it comes. A messageStop is always the
	// last one, also of an answer that breaks off and so is an error.
	Stream(ctx context.Context, r Request, hear func(Event)) (Answer, error)
}

// Request is what a model is asked, in the form of the Anthropic API.
type Request struct {
	Model       string      `json:"model"`
	MaxTokens   int         `json:"max_tokens"`
	System      string      `json:"system,omitempty"`
	Messages    []Message   `json:"messages"`
	Tools       []Tool      `json:"tools,omitempty"`
	ToolChoice  *ToolChoice `json:"tool_choice,omitempty"`
	Thinking    Thinking    `json:"thinking,omitzero"`
	Temperature *float64    `json:"temperature,omitempty"`
}

// Tool is what a model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

// ToolChoice says whether the model must call: "auto", "any", "none", or "tool" with its Name.
type ToolChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // "user" or "assistant"
	Content Blocks `json:"content"`
}

// UserText returns a message of the user.
func UserText(text string) Message {
	return Message{Role: "user", Content: Blocks{{Type: "text", Text: text}}}
}

// Blocks are the content of a message. A single text is read, too.
type Blocks []Block

// Text returns the text of all blocks.
func (b Blocks) Text() string {
	var all strings.Builder
	for _, x := range b {
		if x.Type == "text" {
			all.WriteString(x.Text)
		}
	}
	return all.String()
}

// Calls returns the calls among the blocks.
func (b Blocks) Calls() []Block {
	return slices.DeleteFunc(slices.Clone(b), func(x Block) bool { return x.Type != "tool_use" })
}

// UnmarshalJSON reads a list of blocks, or one text.
func (b *Blocks) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*b = nil
		if text != "" {
			*b = Blocks{{Type: "text", Text: text}}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]Block)(b))
}

// Block is a part of a message: "text", "thinking", "redacted_thinking", "tool_use" or "tool_result".
type Block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"` // of tool_use
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"` // of tool_result
	Content   Blocks          `json:"content"`
	IsError   bool            `json:"is_error"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"` // of redacted_thinking
	// Broken is what the model wrote as input, in short, if the daemon keeps no such JSON. Input is {} then.
	Broken string `json:"-"`
}

// Result returns the answer to a call.
func Result(id, text string, isError bool) Block {
	return Block{Type: "tool_result", ToolUseID: id, Content: Blocks{{Type: "text", Text: text}}, IsError: isError}
}

// MarshalJSON writes the fields of the type and no others: servers are strict.
func (b Block) MarshalJSON() ([]byte, error) {
	m := map[string]any{"type": b.Type}
	switch b.Type {
	case "thinking":
		m["thinking"], m["signature"] = b.Thinking, b.Signature
	case "redacted_thinking":
		m["data"] = b.Data
	case "tool_use":
		m["id"], m["name"], m["input"] = b.ID, b.Name, b.Input
	case "tool_result":
		m["tool_use_id"], m["content"] = b.ToolUseID, b.Content.Text()
		if b.IsError {
			m["is_error"] = true
		}
	default:
		m["text"] = b.Text
	}
	return json.Marshal(m)
}

// Usage is what an answer took.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// The stop reasons that are known. Others pass as they are.
const EndTurn, StopSequence, ToolUse, MaxTokens = "end_turn", "stop_sequence", "tool_use", "max_tokens"

// Answer is what a model answered. Beside an error it is not whole.
type Answer struct {
	Model      string // that was asked
	Content    Blocks
	StopReason string
	Usage      Usage
	Began      bool // its server works: it costs something, also where it breaks off
	Bytes      int  // that came of its blocks
}

// The kinds of events.
const (
	MessageStart, MessageDelta, MessageStop = "messageStart", "messageDelta", "messageStop"
	ContentBlockStart, ContentBlockDelta    = "contentBlockStart", "contentBlockDelta"
	ContentBlockStop, Ping, ErrorEvent      = "contentBlockStop", "ping", "error"
)

// Event is one step of an answer.
type Event struct {
	Kind       string
	Index      int    // of the block
	Block      Block  // as it starts
	Delta      Delta  // of contentBlockDelta
	StopReason string // of messageDelta
	Usage      Usage  // of messageStart and messageDelta: as far as it is known
	Err        *Error // of error
}

// Delta is what comes to a block.
type Delta struct {
	Type      string `json:"type"` // text_delta, input_json_delta, thinking_delta or signature_delta
	Text      string `json:"text"`
	JSON      string `json:"partial_json"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}
