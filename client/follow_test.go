package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// serving is a client of a daemon with one answer.
func serving(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(handle)
	t.Cleanup(srv.Close)
	c := New("socket")
	c.http = &http.Client{Transport: to(srv.Listener.Addr().String())}
	return c
}

type to string

// RoundTrip sends every request to one address.
func (a to) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = string(a)
	return http.DefaultTransport.RoundTrip(r)
}

func TestFollowOfOtherDaemons(t *testing.T) {
	const stream = "text/event-stream"
	for _, tt := range []struct {
		name, kind, body string
		status           int
		want             string
	}{
		{"an older one that knows no events", "application/json", `{"data": {"final_text": "hello"}}`, 200, "hello <nil> []"},
		{
			"a failure", "application/json", `{"error": {"code": "session_not_found", "message": "none"}}`, 404,
			" none session_not_found []",
		},
		{
			"one that ends too early", stream, "event: begin\ndata: {\"call_id\": \"c\"}\n\n", 200,
			" the daemon on socket ended before it answered: read events: the daemon ended the stream of events " +
				"connection_lost [c]",
		},
		{
			"a broken event", stream, "event: begin\ndata: [\n\n", 200,
			" read the event begin: unexpected end of JSON input []",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := serving(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept"); got != "text/event-stream, application/json" {
					t.Errorf("accepts %q", got)
				}
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			heard := []string{}
			r, err := c.Follow(t.Context(), "s", "Bash", nil, func(p Progress) { heard = append(heard, p.Began.CallID) })
			got := fmt.Sprint(r.FinalText, " ", err)
			if e, ok := errors.AsType[*Error](err); ok {
				got += " " + e.Code
			}
			if got += fmt.Sprint(" ", heard); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A connection costs more than the call: it is used again after each kind of answer.
func TestAnswersKeepTheConnection(t *testing.T) {
	const stream = "event: begin\ndata: {\"call_id\": \"c\"}\n\nevent: end\ndata: {\"final_text\": \"x\"}\n\n"
	var made atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := `{"data": {"final_text": "x"}}`
		if r.URL.Path == "/v1/sessions/s/calls" && r.URL.RawQuery != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			text = stream
		}
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush() // the end of the answer comes by itself
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	c := New("socket")
	c.http = &http.Client{Transport: to(srv.Listener.Addr().String())}
	for range 5 {
		if r, err := c.Follow(t.Context(), "s", "Bash", nil, nil); err != nil || r.FinalText != "x" {
			t.Fatal(r, err)
		}
		if r, err := c.Call(t.Context(), "s", "Bash", nil); err != nil || r.FinalText != "x" {
			t.Fatal(r, err)
		}
	}
	if n := made.Load(); n != 1 {
		t.Errorf("10 answers took %d connections, want 1", n)
	}
}

func TestAnEventWithoutATypeHasThatOfTheStream(t *testing.T) {
	stream := "event: call_start\ndata: {}\n\nevent: call_end\ndata: {\"type\": \"own\"}\n\n"
	var got []string
	for e, err := range readEvents(strings.NewReader(stream)) {
		if err != nil {
			break
		}
		got = append(got, string(e.Type))
	}
	if want := []string{"call_start", "own"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
