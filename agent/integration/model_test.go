package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Step is one answer.
type Step struct {
	Text  string
	Calls []Call
	Stop  string // in the words of Anthropic; by default what fits the calls
	In    int    // tokens
	Out   int
	// Serve answers in place of all that.
	Serve func(http.ResponseWriter, *http.Request)
	// Make makes the step from what was asked.
	Make func(Asked) Step
}

// Call is a call that the model wants.
type Call struct {
	ID, Name, Args string // Args are sent as they are
}

// Asked is one request.
type Asked struct {
	Path   string
	Header http.Header
	Body   map[string]any
	Raw    string
}

// Model is a server. Behind its last step it answers 418, which ends an agent.
type Model struct {
	*httptest.Server
	mu    sync.Mutex
	steps []Step // guarded by mu
	asked []Asked
}

// NewModel starts a server; the path of a request says which format it speaks.
func NewModel(t testing.TB, steps ...Step) *Model {
	m := &Model{steps: steps}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// Asked are the requests so far.
func (m *Model) Asked() []Asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Asked{}, m.asked...)
}

func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	asked := Asked{Path: r.URL.Path, Header: r.Header, Raw: string(body)}
	if err == nil {
		err = json.Unmarshal(body, &asked.Body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.asked = append(m.asked, asked)
	step := Step{Serve: func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error": {"type": "script", "message": "the script is over"}}`, http.StatusTeapot)
	}}
	if len(m.steps) > 0 {
		step, m.steps = m.steps[0], m.steps[1:]
	}
	m.mu.Unlock()
	if step.Make != nil {
		step = step.Make(asked)
	}
	if step.Serve != nil {
		step.Serve(w, r)
		return
	}
	if asked.Body["stream"] != true {
		http.Error(w, "only streams are scripted", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		io.WriteString(w, step.OpenAI())
		return
	}
	io.WriteString(w, step.Anthropic())
}

func (s Step) stop() string {
	switch {
	case s.Stop != "":
		return s.Stop
	case len(s.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

// pieces cuts a text as a tokenizer might.
func pieces(s string) (all []string) {
	r := []rune(s)
	for len(r) > 0 {
		n := min(5, len(r))
		all, r = append(all, string(r[:n])), r[n:]
	}
	return all
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// Anthropic is the answer as the Messages API streams it.
func (s Step) Anthropic() string {
	var b strings.Builder
	event := func(kind, data string) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":\"%s\"%s}\n\n", kind, kind, data)
	}
	event("message_start", fmt.Sprintf(`,"message":{"id":"msg_1","type":"message","role":"assistant","model":"scripted",`+
		`"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":1}}`, s.In))
	index := 0
	block := func(start string, deltas []string) {
		event("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, index, start))
		if index == 0 {
			event("ping", "")
		}
		for _, d := range deltas {
			event("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, index, d))
		}
		event("content_block_stop", fmt.Sprintf(`,"index":%d`, index))
		index++
	}
	if s.Text != "" {
		var deltas []string
		for _, p := range pieces(s.Text) {
			deltas = append(deltas, `{"type":"text_delta","text":`+quote(p)+`}`)
		}
		block(`{"type":"text","text":""}`, deltas)
	}
	for _, c := range s.Calls {
		deltas := []string{`{"type":"input_json_delta","partial_json":""}`}
		for _, p := range pieces(c.Args) {
			deltas = append(deltas, `{"type":"input_json_delta","partial_json":`+quote(p)+`}`)
		}
		block(fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":{}}`, quote(c.ID), quote(c.Name)), deltas)
	}
	event("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":%d}`,
		quote(s.stop()), s.Out))
	event("message_stop", "")
	return b.String()
}

// OpenAI is the answer as chat completions stream it.
func (s Step) OpenAI() string {
	var b strings.Builder
	chunk := func(choices, usage string) {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"scripted",`+
			`"choices":[%s],"usage":%s}`+"\n\n", choices, usage)
	}
	delta := func(d, finish string) {
		chunk(fmt.Sprintf(`{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}`, d, finish), "null")
	}
	delta(`{"role":"assistant","content":""}`, "null")
	for _, p := range pieces(s.Text) {
		delta(`{"content":`+quote(p)+`}`, "null")
	}
	for i, c := range s.Calls {
		delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`,
			i, quote(c.ID), quote(c.Name)), "null")
		for _, p := range pieces(c.Args) {
			delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(p)), "null")
		}
	}
	reasons := map[string]string{"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
	reason := s.stop()
	if r, ok := reasons[reason]; ok {
		reason = r
	}
	delta("{}", quote(reason))
	chunk("", fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, s.In, s.Out, s.In+s.Out))
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}
