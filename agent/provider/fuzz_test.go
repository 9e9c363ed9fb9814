package provider

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// answering is a server that answers every request with one text.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	h := http.Header{"Content-Type": {"text/event-stream"}}
	return &http.Response{StatusCode: http.StatusOK, Header: h, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// FuzzStream: whatever a model server sends, there is an error without the key in it, or an
// answer that can be acted on and sent back.
func FuzzStream(f *testing.F) {
	f.Add(false, events(hello...))
	f.Add(false, events(hello[0],
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"T","input":{"x":"`+"\xff"+`"}}}`,
		`{"type":"content_block_stop","index":0}`, hello[6], hello[7]))
	f.Add(false, events(hello[0], `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"T"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"[1,2]}"}}`,
		`{"type":"content_block_stop","index":0}`, hello[6], hello[7]))
	f.Add(false, events(`{"type":"error","error":{"type":"overloaded_error","message":"`+"sk-fuzzed-key"+`"}}`))
	f.Add(true, chunks(helloChunks...))
	f.Add(true, chunks(`{"choices":[{"delta":{"tool_calls":[{"index":-1,"id":"a","function":{"name":"T","arguments":"{}"}},`+
		`{"id":"a","function":{"name":"T","arguments":"null"}},{"index":7,"function":{"arguments":"{"}}]},"finish_reason":"tool_calls"}]}`))
	f.Add(true, chunks(`{"error":"sk-fuzzed-key"}`))
	f.Fuzz(func(t *testing.T, openai bool, text string) {
		s := server{anthropic{}, &http.Client{Transport: answering(text)}, "http://model", "sk-fuzzed-key", defaultSilence}
		if openai {
			s.dialect = openAI{}
		}
		var kinds []string
		var heard strings.Builder
		got, err := s.Stream(t.Context(), Request{}, func(e Event) {
			kinds = append(kinds, e.Kind)
			heard.WriteString(e.Delta.Text)
		})
		if n := strings.Count(strings.Join(kinds, " "), MessageStop); n != 1 || kinds[len(kinds)-1] != MessageStop {
			t.Errorf("the events are %q", kinds)
		}
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok || strings.Contains(err.Error(), "sk-fuzzed-key") || len(err.Error()) > 4*maxErrorText {
				t.Errorf("the error is %T %.3000q", err, err.Error())
			}
			return
		}
		if got.StopReason == "" || len(got.Content) == 0 {
			t.Errorf("the answer is %+v", got)
		}
		ids := map[string]bool{}
		for _, c := range got.Content.Calls() {
			var args map[string]any
			if err := json.Unmarshal(c.Input, &args); err != nil || args == nil || !utf8.Valid(c.Input) || c.ID == "" || ids[c.ID] {
				t.Errorf("the call is %+v with %s: %v", c, c.Input, err)
			}
			ids[c.ID] = true
		}
		sent, err := json.Marshal(Message{Role: "assistant", Content: got.Content})
		var back Message
		if err == nil {
			err = json.Unmarshal(sent, &back)
		}
		if err != nil || len(back.Content) != len(got.Content) || back.Content.Text() != got.Content.Text() {
			t.Errorf("%v: %s became %+v", err, sent, back)
		}
	})
}
