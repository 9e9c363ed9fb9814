package provider

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func nested(levels int) string {
	return `{"x":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
}

// calling is a stream with one call.
func calling(provider, args string) string {
	part, _ := json.Marshal(args)
	if provider == "openai" {
		return chunks(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"T","arguments":`+string(part)+
			`}}]},"finish_reason":"tool_calls"}]}`, "[DONE]")
	}
	return events(hello[0], `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"T","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":`+string(part)+`}}`,
		hello[5], hello[6], hello[7])
}

// The daemon refuses a conversation with such arguments, which would then be lost.
func TestArgumentsThatTheDaemonDoesNotKeepAreBroken(t *testing.T) {
	for _, provider := range []string{"anthropic", "openai"} {
		for _, tt := range []struct {
			name, args string
			broken     bool
		}{
			{"190 levels", nested(190), false},
			{"200 levels", nested(200), true},
			{"9000 levels", nested(9000), true},
			{"a field twice", `{"command":"ls","command":"rm"}`, true},
			{"a field twice, far within", `{"a":[{"b":1,"\u0062":2}]}`, true},
			{"half a character", `{"a":"\ud800"}`, true},
			{"two objects", `{"a":1},{"b":2}`, true},
			{"two objects in lists", `{"a":1}],[{"b":2}`, true},
			{"the same name in two objects", `{"a":{"b":1},"c":{"b":2}}`, false},
		} {
			c, _, _ := serve(t, provider, stream(calling(provider, tt.args)))
			got, err := c.Send(t.Context(), Request{})
			if err != nil {
				t.Fatalf("%s, %s: %v", provider, tt.name, err)
			}
			call := got.Content.Calls()[0]
			if tt.broken && (call.Broken == "" || string(call.Input) != "{}" || utf8.RuneCountInString(call.Broken) > maxErrorText+1) {
				t.Errorf("%s, %s: %.80s is taken, broken %.80q", provider, tt.name, call.Input, call.Broken)
			}
			if !tt.broken && (call.Broken != "" || string(call.Input) != tt.args) {
				t.Errorf("%s, %s: became %.80s, broken %.80q", provider, tt.name, call.Input, call.Broken)
			}
		}
	}
}

// One message is at most what the daemon takes at once.
func TestAnAnswerThatIsTooLongToBeKeptIsNone(t *testing.T) {
	for _, provider := range []string{"anthropic", "openai"} {
		for size, kept := range map[int]bool{maxContent - 1000: true, maxContent: false} {
			c, _, _ := serve(t, provider, stream(calling(provider, `{"x":"`+strings.Repeat("x", size)+`"}`)))
			if got, err := c.Send(t.Context(), Request{}); (err == nil) != kept {
				t.Errorf("%s, %d bytes: %d blocks, %v", provider, size, len(got.Content), err)
			}
		}
	}
}

// dripping is a server that sends the same again and again, after a while each time.
type dripping struct {
	first, then string
	gap         time.Duration
	times       int
	last        string
}

func (d dripping) RoundTrip(r *http.Request) (*http.Response, error) {
	read, write := io.Pipe()
	go func() {
		io.WriteString(write, d.first)
		for range d.times {
			if err := Sleep(r.Context(), d.gap); err != nil {
				write.CloseWithError(err)
				return
			}
			io.WriteString(write, d.then)
		}
		io.WriteString(write, d.last)
		write.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: read}, nil
}

// Whatever keeps a connection alive does not keep an answer alive.
func TestL04_PingsDoNotHoldARequest(t *testing.T) {
	const endlessly = 100_000
	for _, tt := range []struct {
		name string
		d    dialect
		drip dripping
		took time.Duration // 0: it is answered
	}{
		{"pings", anthropic{}, dripping{events(hello[:2]...), events(hello[2]), time.Minute, endlessly, ""}, defaultSilence},
		{"pings before anything", anthropic{}, dripping{"", events(hello[2]), time.Minute, endlessly, ""}, defaultSilence},
		{"comments", anthropic{}, dripping{events(hello[:4]...), ": alive\n\n", time.Minute, endlessly, ""}, defaultSilence},
		{"empty parts", anthropic{}, dripping{events(hello[:4]...), events(
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}`), time.Minute, endlessly, ""}, defaultSilence},
		{"kinds that are not known", anthropic{}, dripping{events(hello[:4]...), events(`{"type":"later_kind"}`), time.Minute, endlessly, ""}, defaultSilence},
		{"pings between parts", anthropic{}, dripping{
			events(hello[:4]...), events(hello[2], hello[3]), 299 * time.Second, 100, events(hello[5:]...),
		}, 0},
		{"comments of the other format", openAI{}, dripping{chunks(helloChunks[:2]...), ": alive\n\n", time.Minute, endlessly, ""}, defaultSilence},
		{"empty chunks", openAI{}, dripping{chunks(helloChunks[:2]...), chunks(`{"choices":[{"delta":{"content":"","reasoning":""}}]}`), time.Minute, endlessly, ""}, defaultSilence},
		{"no choices", openAI{}, dripping{chunks(helloChunks[:2]...), chunks(`{"choices":[]}`), time.Minute, endlessly, ""}, defaultSilence},
		// A model at home thinks for long.
		{"thinking", openAI{}, dripping{
			chunks(helloChunks[0]), chunks(`{"choices":[{"delta":{"content":null,"reasoning":"hm"}}]}`), 299 * time.Second, 100, chunks(helloChunks[1:]...),
		}, 0},
		{"thinking by its other name", openAI{}, dripping{
			chunks(helloChunks[0]), chunks(`{"choices":[{"delta":{"reasoning_content":"hm"}}]}`), 299 * time.Second, 100, chunks(helloChunks[1:]...),
		}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := server{tt.d, &http.Client{Transport: tt.drip}, "http://model", key, defaultSilence}
			began := time.Now()
			got, err := s.Send(t.Context(), Request{})
			took := time.Since(began)
			if tt.took == 0 {
				if err != nil || !strings.HasSuffix(got.Content.Text(), "llo") && !strings.HasSuffix(got.Content.Text(), "he") {
					t.Errorf("%s: %q, %v after %v", tt.name, got.Content.Text(), err, took)
				}
				return
			}
			failed, ok := err.(*Error)
			if !ok || !failed.Again || !strings.Contains(failed.Msg, "nothing of an answer came") || took != tt.took {
				t.Errorf("%s: %v after %v", tt.name, err, took)
			}
		})
	}
}

func TestL12_L19_AnswersThatBreakOffAreSpentToo(t *testing.T) {
	for _, tt := range []struct {
		provider, text string
		want           Usage
		bytes          int
	}{
		{"anthropic", events(hello[:4]...), Usage{45, 1}, 2},
		{"anthropic", events(hello[:7]...), Usage{45, 3}, 5},
		{"openai", chunks(helloChunks[:2]...), Usage{}, 2},
		{"openai", chunks(helloChunks[0]), Usage{}, 0},
	} {
		c, _, _ := serve(t, tt.provider, stream(tt.text))
		var spent []string
		a := Asker{Client: c, Fallback: "second", Said: func(string) {}, Spent: func(r Request, answer Answer) error {
			spent = append(spent, fmt.Sprint(r.Model, answer.Model, answer.Usage, answer.Bytes))
			return nil
		}}
		if _, err := a.Ask(t.Context(), Request{Model: "first"}, func(Event) {}); err == nil {
			t.Fatal("half an answer counts")
		}
		one, other := fmt.Sprint("first", "first", tt.want, tt.bytes), fmt.Sprint("second", "second", tt.want, tt.bytes)
		if got, want := strings.Join(spent, ", "), strings.Join([]string{one, one, one, one, other}, ", "); got != want {
			t.Errorf("%s: got  %s\nwant %s", tt.provider, got, want)
		}
		// Nothing is asked again where that is too dear.
		asked, dear := 0, io.ErrShortBuffer
		a.Spent = func(Request, Answer) error { asked++; return dear }
		if _, err := a.Ask(t.Context(), Request{}, func(Event) {}); err != dear || asked != 1 {
			t.Errorf("%s: asked %d times, %v", tt.provider, asked, err)
		}
	}
	// What never began costs nothing, and a whole answer is one, whatever it took.
	c, _, _ := serve(t, "anthropic", fail(500))
	a := Asker{Client: c, Said: func(string) {}, Spent: func(Request, Answer) error { t.Error("spent"); return nil }}
	if _, err := a.Ask(t.Context(), Request{}, func(Event) {}); err == nil {
		t.Error("500 is an answer")
	}
	c, _, _ = serve(t, "anthropic", stream(events(hello...)))
	a = Asker{Client: c, Said: func(string) {}, Spent: func(Request, Answer) error { return io.ErrShortBuffer }}
	if got, err := a.Ask(t.Context(), Request{}, func(Event) {}); err != nil || got.Content.Text() != "hello" {
		t.Errorf("%+v, %v", got, err)
	}
}
