package serve

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// hold holds one call for so long, and returns its context.
func hold(t *testing.T, h *Holds, wait time.Duration) (ctx context.Context, out *mcp.CallToolResult) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &running{cancel: cancel, asked: "apr_1", note: "who asks"}
	out, err := h.keep(r, "mark", &client.Waiting{Until: time.Now().Add(wait)})
	if err != nil {
		t.Fatal(err)
	}
	if shown, ok := out.InputRequests["apr_1"].(*mcp.ElicitParams); !out.IsError && (!ok || shown.Mode != "form" ||
		!strings.HasPrefix(shown.Message, "who asks\n\nWhat you answer here approves nothing.")) {
		t.Errorf("the question is %+v", out.InputRequests)
	}
	return ctx, out
}

// A call for which nobody comes back ends, at the end of its question and after a quarter of an hour at the latest.
func TestAHeldCallExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHolds()
		short, out := hold(t, h, time.Minute)
		long, _ := hold(t, h, time.Hour)
		taken, again := hold(t, h, time.Minute)
		if _, err := h.take(again.RequestState, "other"); !errors.Is(err, errState) {
			t.Errorf("taken with the mark of another call: %v", err)
		}
		for _, want := range []error{nil, errState} { // once
			if _, err := h.take(again.RequestState, "mark"); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		time.Sleep(time.Minute + time.Second)
		if !errors.Is(context.Cause(short), errExpired) || long.Err() != nil || taken.Err() != nil {
			t.Errorf("after a minute: %v, %v, %v", context.Cause(short), context.Cause(long), context.Cause(taken))
		}
		if _, err := h.take(out.RequestState, "mark"); !errors.Is(err, errState) {
			t.Errorf("an expired one is taken: %v", err)
		}
		time.Sleep(holdTime)
		if !errors.Is(context.Cause(long), errExpired) {
			t.Errorf("after %v: %v", holdTime, context.Cause(long))
		}
	})
}

// A question that was shown to one caller is no answer for the call of another: each of these makes it another call.
func TestM24_AHeldCallIsOfItsCallerSessionToolAndArguments(t *testing.T) {
	own := digest("ann", "s1", "Bash", []byte(`{"command":"a"}`))
	for what, other := range map[string]string{
		"caller":    digest("bob", "s1", "Bash", []byte(`{"command":"a"}`)),
		"session":   digest("ann", "s2", "Bash", []byte(`{"command":"a"}`)),
		"tool":      digest("ann", "s1", "Read", []byte(`{"command":"a"}`)),
		"arguments": digest("ann", "s1", "Bash", []byte(`{"command":"b"}`)),
	} {
		if other == own {
			t.Errorf("with another %s it is the same call", what)
		}
	}
}

// So many calls wait, one more is ended with the reason, and all end with the daemon.
func TestSoManyCallsAreHeld(t *testing.T) {
	h := NewHolds()
	var last context.Context
	for range maxHeld {
		last, _ = hold(t, h, time.Hour)
	}
	more, out := hold(t, h, time.Hour)
	if !out.IsError || more.Err() == nil || last.Err() != nil {
		t.Errorf("one more: %+v, %v", out, context.Cause(more))
	}
	h.Close()
	if !errors.Is(context.Cause(last), errExpired) {
		t.Errorf("after the end: %v", context.Cause(last))
	}
}

// Each part of a result is what it is for a client of MCP; text is in the text already.
func TestPartsOfAResult(t *testing.T) {
	d := []byte("d")
	for _, tt := range []struct {
		part client.Content
		want mcp.Content
	}{
		{client.Content{Type: "text", Text: "t"}, nil},
		{client.Content{Type: "resource"}, nil},
		{client.Content{Type: "image", Data: d, MIMEType: "m"}, &mcp.ImageContent{Data: d, MIMEType: "m"}},
		{client.Content{Type: "audio", Data: d, MIMEType: "m"}, &mcp.AudioContent{Data: d, MIMEType: "m"}},
		{client.Content{Type: "resource", URI: "u", Name: "n"}, &mcp.ResourceLink{URI: "u", Name: "n"}},
		{
			client.Content{Type: "resource", URI: "u", Text: "t"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "u", Text: "t"}},
		},
		{
			client.Content{Type: "resource", URI: "u", Data: []byte("d")},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "u", Blob: []byte("d")}},
		},
	} {
		if got := content(tt.part); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%+v: got %#v, want %#v", tt.part, got, tt.want)
		}
	}
}

// The note of a call is the last line of what it printed, cut at 200 characters.
func TestTheNoteOfACallIsItsLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "running", "\n\r\n": "running", "one\ntwo\r\n": "two", "10%\r20%": "20%",
		strings.Repeat("ü", 300): strings.Repeat("ü", 200),
	} {
		if got := lastLine(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}
