package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const key = `sk-"secret/key+1`

// serve answers every request with one handler, and keeps what came last.
func serve(t *testing.T, provider string, handle http.HandlerFunc) (Client, *http.Request, *string) {
	t.Helper()
	var last http.Request
	var body string
	var one sync.Mutex // requests follow each other
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		text, _ := io.ReadAll(r.Body)
		last, body = *r, string(text)
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := New(Server{Provider: provider, BaseURL: s.URL + "/", Key: key, Silence: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c, &last, &body
}

func stream(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, text)
	}
}

// events writes a stream of Anthropic, from lines of data.
func events(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		var of struct {
			Type string `json:"type"`
		}
		json.Unmarshal([]byte(l), &of)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", of.Type, l)
	}
	return b.String()
}

func chunks(lines ...string) string {
	return "data: " + strings.Join(lines, "\n\ndata: ") + "\n\n"
}

var hello = []string{
	`{"type":"message_start","message":{"usage":{"input_tokens":45,"output_tokens":1}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
	`{"type":"ping"}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"he"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"llo"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
	`{"type":"message_stop"}`,
}

var helloChunks = []string{
	`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"content":"he"}}]}`, `{"choices":[{"index":0,"delta":{"content":"llo"}}]}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
	`{"choices":[],"usage":{"prompt_tokens":45,"completion_tokens":3}}`, `[DONE]`,
}

func TestL01_OneClientForBothServersSendsAndStreams(t *testing.T) {
	for provider, text := range map[string]string{"anthropic": events(hello...), "openai": chunks(helloChunks...)} {
		c, _, _ := serve(t, provider, stream(text))
		got, err := c.Send(t.Context(), Request{Model: "m"})
		if err != nil || got.Content.Text() != "hello" || got.StopReason != EndTurn || got.Usage != (Usage{45, 3}) {
			t.Errorf("%s: %+v, %v", provider, got, err)
		}
		var heard strings.Builder
		streamed, err := c.Stream(t.Context(), Request{Model: "m"}, func(e Event) { heard.WriteString(e.Delta.Text) })
		if err != nil || heard.String() != "hello" || streamed.Content.Text() != "hello" {
			t.Errorf("%s: heard %q, %+v, %v", provider, heard.String(), streamed, err)
		}
	}
}

func TestL03_TheEightEventsOfAStream(t *testing.T) {
	lines := append(hello[:6:6], `{"type":"later_kind"}`,
		`{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`)
	c, _, _ := serve(t, "anthropic", stream(events(lines...)))
	var kinds []string
	_, err := c.Stream(t.Context(), Request{}, func(e Event) { kinds = append(kinds, e.Kind) })
	want := "messageStart contentBlockStart ping contentBlockDelta contentBlockDelta contentBlockStop error messageStop"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("the error is %v", err)
	}
	c, _, _ = serve(t, "anthropic", stream(events(hello...)))
	kinds = nil
	if _, err := c.Stream(t.Context(), Request{}, func(e Event) { kinds = append(kinds, e.Kind) }); err != nil {
		t.Error(err)
	}
	want = "messageStart contentBlockStart ping contentBlockDelta contentBlockDelta contentBlockStop messageDelta messageStop"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestL04_L13_ARequestToAnthropic(t *testing.T) {
	c, r, body := serve(t, "anthropic", stream(events(hello...)))
	temperature := 0.5
	_, err := c.Send(t.Context(), Request{
		Model: "m", MaxTokens: 9, System: "s", Messages: []Message{UserText("u")}, Temperature: &temperature,
		Tools:      []Tool{{Name: "T", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}},
		ToolChoice: &ToolChoice{Type: "any"}, Thinking: Thinking{Type: "enabled", Budget: 1024},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","max_tokens":5120,"system":"s","messages":[{"role":"user","content":[{"text":"u","type":"text"}]}],` +
		`"tools":[{"name":"T","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},` +
		`"thinking":{"type":"enabled","budget_tokens":1024},"temperature":0.5,"stream":true}`
	if *body != want {
		t.Errorf("got  %s\nwant %s", *body, want)
	}
	h := r.Header
	if r.Method != "POST" || r.URL.Path != "/v1/messages" || h.Get("X-Api-Key") != key || h.Get("Authorization") != "" ||
		h.Get("Anthropic-Version") != "2023-06-01" || h.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s %v", r.Method, r.URL, h)
	}
	if (anthropic{}).defaultBase() != "https://api.anthropic.com" || defaultSilence != 300*time.Second {
		t.Error("the defaults are others")
	}
}

func conversation() []Message {
	return []Message{
		UserText("u"),
		{Role: "assistant", Content: Blocks{
			{Type: "thinking", Thinking: "hm", Signature: "x"},
			{Type: "text", Text: "I call"},
			{Type: "tool_use", ID: "a", Name: "T", Input: json.RawMessage(`{"x":1}`)},
			{Type: "tool_use", Name: "U", Input: json.RawMessage(`{}`)},
		}},
		{Role: "user", Content: Blocks{Result("a", "one", false), Result("call_1", "two", true), {Type: "text", Text: "go on"}}},
	}
}

func TestL06_L07_ARequestToOpenAI(t *testing.T) {
	c, r, body := serve(t, "openai", stream(chunks(helloChunks...)))
	_, err := c.Send(t.Context(), Request{
		Model: "m", MaxTokens: 9, System: "s", Messages: conversation(),
		Tools:      []Tool{{Name: "T", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}},
		ToolChoice: &ToolChoice{Type: "tool", Name: "T"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"max_tokens":9,"messages":[{"content":"s","role":"system"},{"content":"u","role":"user"},` +
		`{"content":"I call","role":"assistant","tool_calls":[` +
		`{"function":{"arguments":"{\"x\":1}","name":"T"},"id":"a","type":"function"},` +
		`{"function":{"arguments":"{}","name":"U"},"id":"call_1","type":"function"}]},` +
		`{"content":"one","role":"tool","tool_call_id":"a"},{"content":"two","role":"tool","tool_call_id":"call_1"},` +
		`{"content":"go on","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true},` +
		`"tool_choice":{"function":{"name":"T"},"type":"function"},` +
		`"tools":[{"function":{"description":"d","name":"T","parameters":{"type":"object"}},"type":"function"}]}`
	if *body != want {
		t.Errorf("got  %s\nwant %s", *body, want)
	}
	if r.URL.Path != "/chat/completions" || r.Header.Get("Authorization") != "Bearer "+key {
		t.Errorf("%s %v", r.URL, r.Header)
	}
	if (openAI{}).defaultBase() != "https://api.openai.com/v1" {
		t.Error("the default is another")
	}
}

func TestL08_L09_AnAnswerOfOpenAI(t *testing.T) {
	calls := []string{
		`{"choices":[{"delta":{"content":"I "}}]}`, `{"choices":[{"delta":{"content":"call"}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"T","arguments":"{\"x\""}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"U","arguments":""}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":8}}`,
	}
	var kinds []string
	c, _, _ := serve(t, "openai", stream(chunks(calls...)))
	got, err := c.Stream(t.Context(), Request{}, func(e Event) { kinds = append(kinds, fmt.Sprint(e.Kind, e.Index)) })
	text, _ := json.Marshal(got.Content)
	if want := `[{"text":"I call","type":"text"},{"id":"a","input":{"x":1},"name":"T","type":"tool_use"},` +
		`{"id":"b","input":{},"name":"U","type":"tool_use"}]`; err != nil || string(text) != want {
		t.Errorf("%v: got %s, want %s", err, text, want)
	}
	if got.StopReason != ToolUse || got.Usage != (Usage{7, 8}) {
		t.Errorf("it ends with %q and %v", got.StopReason, got.Usage)
	}
	if want := "messageStart0 contentBlockStart0 contentBlockDelta0 contentBlockDelta0 contentBlockStart1 contentBlockDelta1 " +
		"contentBlockStart2 contentBlockDelta1 contentBlockStop0 contentBlockStop1 contentBlockStop2 messageDelta0 messageStop0"; strings.Join(kinds, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(kinds, " "), want)
	}
	for finish, want := range map[string]string{"stop": EndTurn, "length": MaxTokens, "content_filter": "content_filter"} {
		c, _, _ := serve(t, "openai", stream(chunks(`{"choices":[{"delta":{"content":"x"},"finish_reason":"`+finish+`"}]}`)))
		if got, err := c.Send(t.Context(), Request{}); err != nil || got.StopReason != want {
			t.Errorf("%s: got %q, %v, want %q", finish, got.StopReason, err, want)
		}
	}
	kinds = nil
	c, _, _ = serve(t, "openai", stream(chunks(calls[:4]...)))
	_, err = c.Stream(t.Context(), Request{}, func(e Event) { kinds = append(kinds, e.Kind) })
	if err == nil || kinds[len(kinds)-1] != MessageStop {
		t.Errorf("a stream that breaks off: %v, %v", kinds, err)
	}
}

// What is not whole is no answer, whatever the status says.
func TestHalfAnswersDoNotCount(t *testing.T) {
	call := []string{
		hello[0], `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"T","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
	}
	for _, tt := range []struct{ name, provider, text, want string }{
		{"nothing", "anthropic", "", "broke off"},
		{"no end", "anthropic", events(hello[:6]...), "broke off"},
		{"an end without a reason", "anthropic", events(append(hello[:6:6], hello[7])...), "broke off"},
		{"an open block", "anthropic", events(append(call, hello[6:]...)...), "within block 0"},
		{"an empty answer", "anthropic", events(hello[0], hello[6], hello[7]), "empty"},
		{"a delta without a block", "anthropic", events(hello[0], hello[3]), "not open"},
		{"a block that is skipped", "anthropic", events(hello[0], strings.Replace(hello[1], ":0", ":4", 1)), "block 4 starts"},
		{"no JSON", "anthropic", "event: ping\ndata: <html>\n\n", "no JSON"},
		{"nothing", "openai", "", "broke off"},
		{"no finish_reason", "openai", chunks(append(helloChunks[:3:3], "[DONE]")...), "broke off"},
		{"an empty answer", "openai", chunks(helloChunks[0], helloChunks[3]), "empty"},
		{"an error as an object", "openai", chunks(helloChunks[0], `{"error":{"message":"busy","type":"server_error"}}`), "busy"},
		{"an error as a text", "openai", chunks(`{"error":"busy"}`), "busy"},
	} {
		t.Run(tt.provider+" "+tt.name, func(t *testing.T) {
			c, _, _ := serve(t, tt.provider, stream(tt.text))
			_, err := c.Send(t.Context(), Request{})
			failed, ok := errors.AsType[*Error](err)
			if !ok || !failed.Again || !strings.Contains(failed.Msg, tt.want) {
				t.Errorf("got %v, want %q, and to ask again", err, tt.want)
			}
		})
	}
}

func TestL05_TheKeyIsInNoError(t *testing.T) {
	quoted, _ := json.Marshal(key)
	for name, handle := range map[string]http.HandlerFunc{
		"body": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":{"type":"x","message":`+string(quoted)+`}}`, http.StatusUnauthorized)
		},
		"text":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, strings.Repeat("x", 490)+key, 500) },
		"stream": stream(events(`{"type":"error","error":{"type":"x","message":` + string(quoted) + `}}`)),
		"event":  stream("event: x\ndata: " + key + "\n\n"),
		"type":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", key) },
	} {
		c, _, _ := serve(t, "anthropic", handle)
		_, err := c.Send(t.Context(), Request{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestL05_TheKeyIsInNoStopReason(t *testing.T) {
	quoted, _ := json.Marshal(key)
	var told []string
	for _, e := range hello {
		told = append(told, strings.ReplaceAll(e, `"end_turn"`, string(quoted)))
	}
	c, _, _ := serve(t, "anthropic", stream(events(told...)))
	var heard strings.Builder
	a, err := c.Stream(t.Context(), Request{}, func(e Event) { heard.WriteString(e.StopReason) })
	if err != nil || a.StopReason != "***" || heard.String() != "***" {
		t.Errorf("got %q, heard %q: %v", a.StopReason, heard.String(), err)
	}
}

func TestTheKeyStaysWithItsServer(t *testing.T) {
	elsewhere := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere = true }))
	defer other.Close()
	c, _, _ := serve(t, "anthropic", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect).ServeHTTP)
	_, err := c.Send(t.Context(), Request{})
	if elsewhere || err == nil || !strings.Contains(err.Error(), "another address") {
		t.Errorf("sent elsewhere: %v, %v", elsewhere, err)
	}
	for _, base := range []string{"ftp://x", "x", "http://u:p@x", "http://x?y=1", "http://"} {
		if _, err := New(Server{Provider: "openai", BaseURL: base, Key: key}); err == nil {
			t.Errorf("%s is a base URL", base)
		}
	}
	for _, wrong := range []Server{{Provider: "x", Key: key}, {Provider: "openai"}, {Provider: "openai", Key: "a\nb"}} {
		if _, err := New(wrong); err == nil {
			t.Errorf("%+v is a server", wrong)
		}
	}
}

func TestAServerThatIsSilentIsAskedAgain(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stream(events(hello[:4]...))(w, nil)
		w.(http.Flusher).Flush()
		<-release
	}))
	defer s.Close()
	defer close(release)
	c, err := New(Server{Provider: "anthropic", BaseURL: s.URL, Key: key, Silence: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(t.Context(), Request{})
	if failed, ok := errors.AsType[*Error](err); !ok || !failed.Again || !strings.Contains(failed.Msg, "nothing of an answer came") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the user")
	_, err = c.Stream(ctx, Request{}, func(e Event) {
		if e.Kind == ContentBlockDelta {
			cancel(cause)
		}
	})
	if !errors.Is(err, cause) {
		t.Errorf("cancelled within the stream: %v", err)
	}
}

func TestCallsThatAreNotAsTheyShould(t *testing.T) {
	tool := func(index int, id, input string) []string {
		part, _ := json.Marshal(input)
		return []string{
			fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"%s","name":"T","input":{}}}`, index, id),
			fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, index, part),
			fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index),
		}
	}
	var lines []string
	inputs := []string{`{"x": 1}`, `{"x": `, `[1]`, ``, `null`}
	for i, in := range inputs {
		lines = append(lines, tool(i, "same", in)...)
	}
	c, _, _ := serve(t, "anthropic", stream(events(append(append(hello[:1:1], lines...), hello[6:]...)...)))
	got, err := c.Send(t.Context(), Request{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for i, call := range got.Content.Calls() {
		ids[call.ID] = true
		broken := i == 1 || i == 2 || i == 4
		if (call.Broken != "") != broken || broken && string(call.Input) != "{}" {
			t.Errorf("%q became %s, broken %q", inputs[i], call.Input, call.Broken)
		}
	}
	if len(ids) != len(inputs) {
		t.Errorf("the ids are %v", ids)
	}
}

func TestL19_DelaysDouble(t *testing.T) {
	a := Asker{Base: 2 * time.Second, Max: 30 * time.Second}
	for _, tt := range []struct {
		attempt int
		asked   time.Duration
		jitter  float64
		want    time.Duration
	}{
		{0, 0, 0, 2 * time.Second},
		{1, 0, 0, 4 * time.Second},
		{2, 0, 1, 10 * time.Second},
		{2, 0, -1, 6 * time.Second},
		{6, 0, 0, 30 * time.Second},
		{0, 9 * time.Second, 0, 9 * time.Second},
		{0, time.Hour, 0, 30 * time.Second},
	} {
		if got := a.delay(tt.attempt, tt.asked, tt.jitter); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0.5": 500 * time.Millisecond, "": 0, "x": 0, "-1": 0, "NaN": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("Retry-After %q: got %v, want %v", value, got, want)
		}
	}
}

func TestL11_L19_WhatIsAskedAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		handle http.HandlerFunc
		again  bool
	}{
		{"400", fail(400), false},
		{"401", fail(401), false},
		{"404", fail(404), false},
		{"413", fail(413), false},
		{"429", fail(429), true},
		{"500", fail(500), true},
		{"502", fail(502), true},
		{"503", fail(503), true},
		{"529", fail(529), true},
		{"504 is none of the row's", fail(504), false},
		{"HTML with 200", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, events(hello...))
		}, true},
		{"half a stream", stream(events(hello[:4]...)), true},
		{"a connection that ends", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		{"a wrong request within the stream", stream(events(`{"type":"error","error":{"type":"invalid_request_error","message":"x"}}`)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var models []string
			var body *string
			c, _, body := serve(t, "anthropic", func(w http.ResponseWriter, r *http.Request) {
				var of struct{ Model string }
				json.Unmarshal([]byte(*body), &of)
				if models = append(models, of.Model); of.Model == "second" {
					stream(events(hello...))(w, r)
					return
				}
				tt.handle(w, r)
			})
			said := 0
			a := Asker{Client: c, Fallback: "second", Said: func(string) { said++ }, Spent: free}
			got, err := a.Ask(t.Context(), Request{Model: "first"}, func(Event) {})
			if want := "first first first first second"; tt.again && (err != nil || strings.Join(models, " ") != want || got.Model != "second" || said != 4) {
				t.Errorf("asked %v, %v, %+v", models, err, got)
			}
			if !tt.again && (err == nil || len(models) != 1) {
				t.Errorf("asked %v, %v", models, err)
			}
		})
	}
}

func fail(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "0")
		http.Error(w, `{"type":"error","error":{"type":"x","message":"no"}}`, status)
	}
}

// Thinking goes back to its server as it came, also where its text is empty.
func TestThinkingIsKept(t *testing.T) {
	lines := []string{
		hello[0], `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"abc"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"so"}}`,
		`{"type":"content_block_stop","index":2}`, hello[6], hello[7],
	}
	c, _, _ := serve(t, "anthropic", stream(events(lines...)))
	got, err := c.Send(t.Context(), Request{})
	text, _ := json.Marshal(got.Content)
	want := `[{"signature":"sig","thinking":"hm","type":"thinking"},{"data":"abc","type":"redacted_thinking"},{"text":"so","type":"text"}]`
	if err != nil || string(text) != want {
		t.Errorf("%v: got %s", err, text)
	}
	empty, _ := json.Marshal(Block{Type: "thinking", Signature: "s"})
	if string(empty) != `{"signature":"s","thinking":"","type":"thinking"}` {
		t.Errorf("got %s", empty)
	}
}
