package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// scriptedCall is one call of the model.
type scriptedCall struct {
	tool   string
	input  any               // an object; text is that of a tool with a grammar of its own
	last   map[string]string // fields of the input that come from an earlier result, by a pattern
	space  string            // Codex: the namespace of the tool
	want   string            // in what the model reads
	not    string            // not in it
	answer map[string]any    // of the person who is asked; nil: nobody is asked
	sub    []scriptedCall    // what the sub-agent does that this call starts
}

// subTask is what a sub-agent is told, so that its requests are known.
const subTask = "do the sub-task"

// model is a server of three APIs whose model makes one call after the other, and says that
// it is done when it has read the last result.
type model struct {
	t     *testing.T
	steps []scriptedCall

	mu      sync.Mutex          // guards what follows
	results []string            // of the calls so far
	sub     []string            // of the sub-agent
	subs    []scriptedCall      // what it is to do
	offered map[string][]string // fields by tool, as the client names them
}

func newModel(t *testing.T, steps []scriptedCall) *model {
	return &model{t: t, steps: steps, offered: map[string][]string{}}
}

// now is the call that the client works on.
func (m *model) now() (scriptedCall, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.results) >= len(m.steps) {
		return scriptedCall{}, false
	}
	return m.steps[len(m.results)], true
}

// turn is what a request says, whatever the API.
type turn struct {
	sub     bool     // it is of the sub-agent
	results []string // of calls, in order
	tools   map[string][]string
}

// next notes a turn and returns the call that answers it; nil ends the conversation.
func (m *model) next(in turn) *scriptedCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(in.tools) == 0 { // a title, a summary
		return nil
	}
	for name, fields := range in.tools {
		m.offered[name] = fields
	}
	steps := m.steps
	if in.sub {
		m.sub, steps = in.results, m.subs
	} else {
		m.results = in.results
	}
	if len(in.results) >= len(steps) {
		return nil
	}
	s := steps[len(in.results)]
	if s.sub != nil {
		m.subs = s.sub
	}
	for field, pattern := range s.last {
		all := regexp.MustCompile(pattern).FindAllStringSubmatch(strings.Join(in.results, "\n"), -1)
		if len(all) == 0 {
			m.t.Errorf("no result of %s has %s", s.tool, pattern)
			return nil
		}
		var value any = all[len(all)-1][1]
		switch n, err := strconv.Atoi(all[len(all)-1][1]); {
		case field == "targets":
			value = []any{value}
		case err == nil:
			value = n
		}
		s.input.(map[string]any)[field] = value
	}
	return &s
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return
	}
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/v1/messages"):
		m.anthropic(w, body.Bytes())
	case strings.HasSuffix(path, "/responses"):
		m.openai(w, body.Bytes())
	case strings.HasSuffix(path, "/chat/completions"):
		m.chat(w, body.Bytes())
	case strings.HasSuffix(path, "enerateContent"):
		m.gemini(w, body.Bytes(), strings.HasSuffix(path, "streamGenerateContent"))
	default:
		http.NotFound(w, r)
	}
}

// schema is the part of a JSON Schema that names arguments.
type schema struct {
	Properties map[string]json.RawMessage `json:"properties"`
}

func (s schema) fields() []string {
	out := []string{}
	for name := range s.Properties {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func decode(t *testing.T, body []byte, v any) bool {
	err := json.Unmarshal(body, v)
	if err != nil {
		t.Errorf("the client sent %.300s: %v", body, err)
	}
	return err == nil
}

// anyOf is a value that a schema allows.
func anyOf(form []byte) any {
	var s struct {
		Type       string                     `json:"type"`
		Enum       []any                      `json:"enum"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(form, &s) != nil {
		return nil
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Properties != nil:
		out := map[string]any{}
		for name, of := range s.Properties {
			out[name] = anyOf(of)
		}
		return out
	}
	switch strings.ToLower(s.Type) {
	case "number", "integer":
		return 0
	case "boolean":
		return false
	case "array":
		return []any{}
	}
	return "x"
}

// sendEvents writes a stream of server-sent events.
func sendEvents(w http.ResponseWriter, list ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		data, err := json.Marshal(e)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if kind, ok := e["type"]; ok {
			fmt.Fprintf(w, "event: %s\n", kind)
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
}

func (m *model) anthropic(w http.ResponseWriter, body []byte) {
	var in struct {
		Stream bool `json:"stream"`
		Tools  []struct {
			Name   string `json:"name"`
			Schema schema `json:"input_schema"`
		} `json:"tools"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if !decode(m.t, body, &in) {
		return
	}
	t := turn{tools: map[string][]string{}, sub: len(in.Messages) > 0 && bytes.Contains(in.Messages[0].Content, []byte(subTask))}
	for _, tool := range in.Tools {
		t.tools[tool.Name] = tool.Schema.fields()
	}
	for _, msg := range in.Messages {
		var blocks []struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(msg.Content, &blocks) != nil {
			continue // plain text
		}
		for _, b := range blocks {
			if b.Type == "tool_result" {
				t.results = append(t.results, string(b.Content))
			}
		}
	}
	block := map[string]any{"type": "text", "text": ""}
	delta := map[string]any{"type": "text_delta", "text": "done"}
	stop := "end_turn"
	if s := m.next(t); s != nil {
		input, err := json.Marshal(s.input)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		id := fmt.Sprintf("toolu_%v_%d", t.sub, len(t.results))
		block = map[string]any{"type": "tool_use", "id": id, "name": s.tool, "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
		stop = "tool_use"
	}
	usage := map[string]any{"input_tokens": 1, "output_tokens": 1}
	message := map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}
	if !in.Stream {
		message["content"], message["stop_reason"] = []any{map[string]any{"type": "text", "text": "done"}}, "end_turn"
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(message); err != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	sendEvents(w,
		map[string]any{"type": "message_start", "message": message},
		map[string]any{"type": "content_block_start", "index": 0, "content_block": block},
		map[string]any{"type": "content_block_delta", "index": 0, "delta": delta},
		map[string]any{"type": "content_block_stop", "index": 0},
		map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage},
		map[string]any{"type": "message_stop"},
	)
}

// ours are the ids of the calls of this model.
var ours = regexp.MustCompile(`^c(true|false)[0-9]+$`)

func (m *model) openai(w http.ResponseWriter, body []byte) {
	type tool struct {
		Type       string `json:"type"`
		Name       string `json:"name"`
		Parameters schema `json:"parameters"`
	}
	var in struct {
		Tools []struct {
			tool
			Tools []tool `json:"tools"` // of a namespace
		} `json:"tools"`
		Input []struct {
			Type    string          `json:"type"`
			ID      string          `json:"call_id"`
			Output  json.RawMessage `json:"output"`
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"input"`
	}
	if !decode(m.t, body, &in) {
		return
	}
	t := turn{tools: map[string][]string{}}
	for _, o := range in.Tools {
		if o.Tools == nil && o.Name != "" {
			t.tools[o.Name] = o.Parameters.fields()
		}
		for _, inner := range o.Tools {
			name := inner.Name
			if strings.HasPrefix(o.Name, "mcp__") {
				name = o.Name + "__" + name
			}
			t.tools[name] = inner.Parameters.fields()
		}
	}
	for _, item := range in.Input {
		switch {
		case strings.HasSuffix(item.Type, "_call_output") && ours.MatchString(item.ID): // it also makes calls itself
			t.results = append(t.results, string(item.Output))
		case item.Role == "user" && bytes.Contains(item.Content, []byte(subTask)):
			t.sub = true
		}
	}
	var item map[string]any
	id := fmt.Sprintf("c%v%d", t.sub, len(t.results))
	switch s := m.next(t); {
	case s == nil:
		item = map[string]any{
			"type": "message", "role": "assistant", "id": "m1",
			"content": []any{map[string]any{"type": "output_text", "text": "done"}},
		}
	default:
		item = map[string]any{"type": "function_call", "call_id": id, "name": s.tool}
		if text, ok := s.input.(string); ok {
			item["type"], item["input"] = "custom_tool_call", text
			break
		}
		args, err := json.Marshal(s.input)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		item["arguments"] = string(args)
		if s.space != "" {
			item["namespace"] = s.space
		}
	}
	usage := map[string]any{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
	sendEvents(w,
		map[string]any{"type": "response.created", "response": map[string]any{"id": "r"}},
		map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item},
		map[string]any{"type": "response.completed", "response": map[string]any{"id": "r", "usage": usage}},
	)
}

func (m *model) chat(w http.ResponseWriter, body []byte) {
	var in struct {
		Tools []struct {
			Function struct {
				Name       string `json:"name"`
				Parameters schema `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if !decode(m.t, body, &in) {
		return
	}
	t := turn{tools: map[string][]string{}}
	for _, tool := range in.Tools {
		t.tools[tool.Function.Name] = tool.Function.Parameters.fields()
	}
	for _, msg := range in.Messages {
		switch {
		case msg.Role == "tool":
			t.results = append(t.results, string(msg.Content))
		case msg.Role == "user" && bytes.Contains(msg.Content, []byte(subTask)):
			t.sub = true
		}
	}
	delta, end := map[string]any{"role": "assistant", "content": "done"}, "stop"
	if s := m.next(t); s != nil {
		input, err := json.Marshal(s.input)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		end = "tool_calls"
		delta = map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprintf("c%v%d", t.sub, len(t.results)), "type": "function",
			"function": map[string]any{"name": s.tool, "arguments": string(input)},
		}}}
	}
	chunk := func(delta map[string]any, end any) map[string]any {
		return map[string]any{
			"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": end}},
			"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
		}
	}
	sendEvents(w, chunk(delta, nil), chunk(map[string]any{}, end))
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (m *model) gemini(w http.ResponseWriter, body []byte, stream bool) {
	var in struct {
		Tools []struct {
			Functions []struct {
				Name       string `json:"name"`
				Schema     schema `json:"parametersJsonSchema"`
				Parameters schema `json:"parameters"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		Config struct {
			Schema     json.RawMessage `json:"responseJsonSchema"`
			Parameters json.RawMessage `json:"responseSchema"`
		} `json:"generationConfig"`
		Contents []struct {
			Parts []struct {
				Text     string `json:"text"`
				Response *struct {
					Response json.RawMessage `json:"response"`
				} `json:"functionResponse"`
			} `json:"parts"`
		} `json:"contents"`
	}
	if !decode(m.t, body, &in) {
		return
	}
	t := turn{tools: map[string][]string{}}
	for _, group := range in.Tools {
		for _, f := range group.Functions {
			t.tools[f.Name] = append(f.Schema.fields(), f.Parameters.fields()...)
		}
	}
	for _, c := range in.Contents {
		for _, p := range c.Parts {
			if p.Response != nil {
				t.results = append(t.results, string(p.Response.Response))
			} else if strings.Contains(p.Text, subTask) {
				t.sub = true
			}
		}
	}
	part := map[string]any{"text": "done"}
	if form := cmp.Or(string(in.Config.Schema), string(in.Config.Parameters)); form != "" { // a question beside the work
		text, err := json.Marshal(anyOf([]byte(form)))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		part["text"] = string(text)
	}
	if s := m.next(t); s != nil {
		part = map[string]any{"functionCall": map[string]any{"name": s.tool, "args": s.input}}
	}
	answer := map[string]any{
		"candidates": []any{map[string]any{
			"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0,
		}},
		"usageMetadata": map[string]any{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	}
	if stream {
		sendEvents(w, answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(http.ErrAbortHandler)
	}
}
