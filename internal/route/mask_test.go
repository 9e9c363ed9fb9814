package route_test

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route"
)

// whole passes on nothing before the end, and says where something is missing.
type whole struct{ text string }

func (w *whole) Write(piece string) string { w.text += piece; return "" }
func (w *whole) Missed()                   { w.text += "?" }
func (w *whole) End() string               { return strings.ReplaceAll(w.text, "SECRET", "[masked]") }

// Output is masked as one text of its stream, the rest of it comes before the end, and who connects again is told no
// place to go on from.
func TestW05_OutputIsMaskedAsOneText(t *testing.T) {
	rec := httptest.NewRecorder()
	m := &route.Masked{
		ResponseWriter: rec, Redact: func(s string) string { return s }, Pieces: func() route.Pieces { return &whole{} },
	}
	m.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []string{
		"id: c.1\nevent: begin\ndata: {}\n\n",
		"id: c.2\nevent: output\ndata: {\"stream\":\"stdout\",\"offset\":0,\"text\":\"SEC\"}\n\n",
		"id: c.3\nevent: output\ndata: {\"stream\":\"stderr\",\"offset\":0,\"text\":\"RET\"}\n\n",
		"id: c.4\nevent: output\ndata: {\"stream\":\"stdout\",\"offset\":3,\"text\":\"RET\"}\n\n",
		"id: c.5\nevent: output\ndata: {\"stream\":\"stdout\",\"offset\":9,\"text\":\"x\"}\n\n",
		"id: c.6\nevent: end\ndata: {}\n\n",
	} {
		if _, err := io.WriteString(m, event); err != nil {
			t.Fatal(err)
		}
	}
	want := "id: c.1\nevent: begin\ndata: {}\n\n" +
		"event: output\ndata: {\"stream\":\"stdout\",\"offset\":3,\"text\":\"[masked]?x\"}\n\n" +
		"event: output\ndata: {\"stream\":\"stderr\",\"offset\":0,\"text\":\"RET\"}\n\n" +
		"event: end\ndata: {}\n\n"
	if got := rec.Body.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What an answer says is masked as a whole, and event by event; pieces of output are not sent.
func TestW05_AnswersAreMasked(t *testing.T) {
	redact := strings.NewReplacer("SECRET", "[masked]").Replace
	for _, tt := range []struct {
		name, kind string
		pieces     []string
		want       string
	}{
		{
			"JSON in two pieces", "application/json",
			[]string{`{"a\u0053": ["SEC`, `RET", 12345678901234567890]}`},
			`{"aS":["[masked]",12345678901234567890]}`,
		},
		{"the name of a field", "application/json", []string{`{"SECRET": 1}`}, `{"[masked]":1}`},
		{"an escape in it", "application/json", []string{`"\u0053ECRET"`}, `"[masked]"`},
		{"text", "text/plain", []string{"SEC", "RET"}, "[masked]"},
		{"no JSON", "application/json", []string{`{"a": "SECRET`}, "the answer could not be masked\n"},
		{
			"events", "text/event-stream",
			[]string{": ready\n\n", "id: 1\nevent: end\nda", "ta: {\"a\":\"SECRET\"}\n", "\nevent: output\ndata: {\"text\":\"SEC\"}\n\n"},
			": ready\n\nid: 1\nevent: end\ndata: {\"a\":\"[masked]\"}\n\n",
		},
		{"an event that is no JSON", "text/event-stream", []string{"data: SECRET\n\n"}, ""},
		{"an event that has not ended", "text/event-stream", []string{"data: \"SECRET\"\n"}, ""},
	} {
		rec := httptest.NewRecorder()
		m := &route.Masked{ResponseWriter: rec, Redact: redact}
		m.Header().Set("Content-Type", tt.kind)
		m.Header().Set("Content-Length", "7") // of what is not masked
		m.WriteHeader(http.StatusAccepted)
		for _, p := range tt.pieces {
			if _, err := io.WriteString(m, p); err != nil {
				break
			}
		}
		m.End()
		if got := rec.Body.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		code := http.StatusAccepted
		if tt.name == "no JSON" {
			code = http.StatusInternalServerError
		}
		if length := rec.Header().Get("Content-Length"); rec.Code != code || length != "" {
			t.Errorf("%s: status %d, a length of %q, want %d and none", tt.name, rec.Code, length, code)
		}
	}
}

// A route that flushes before it writes sends its header once, with its status, and what comes then.
func TestWhatIsFlushedFirstIsTheHeaderOfMasked(t *testing.T) {
	for _, tt := range []struct {
		name, kind, write string
		status            int
		want              string // of the body
	}{
		{"events", "text/event-stream", "event: a\ndata: \"SECRET\"\n\n", 200, "event: a\ndata: \"[masked]\"\n\n"},
		{"events that never come", "text/event-stream", "", 200, ""},
		{"JSON", "application/json", `"SECRET"`, 200, `"[masked]"`},
		{"no JSON", "application/json", `"SECRET`, 500, "the answer could not be masked\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var said bytes.Buffer
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				m := &route.Masked{ResponseWriter: w, Redact: strings.NewReplacer("SECRET", "[masked]").Replace}
				m.Header().Set("Content-Type", tt.kind)
				m.Header().Set("Content-Length", "7") // of what is not masked
				if err := http.NewResponseController(m).Flush(); err != nil {
					t.Error(err)
				}
				if _, err := io.WriteString(m, tt.write); err != nil {
					t.Error(err)
				}
				if err := http.NewResponseController(m).Flush(); err != nil {
					t.Error(err)
				}
				m.End()
			}))
			s.Config.ErrorLog = log.New(&said, "", 0)
			s.Start()
			got, err := http.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			body, err := io.ReadAll(got.Body)
			if err != nil || got.StatusCode != tt.status || string(body) != tt.want {
				t.Errorf("status %d, %q, %v; want %d, %q", got.StatusCode, body, err, tt.status, tt.want)
			}
			if s.Close(); said.Len() > 0 { // which waits for the handler
				t.Errorf("the server says %q", said.String())
			}
		})
	}
}
