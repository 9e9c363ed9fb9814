package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// callOutput streams the output of a running call to an open page.
func (s *site) callOutput(w http.ResponseWriter, r *http.Request) { s.live(w, r.Context(), r) }

// live streams the output of the call that a request names, with secrets masked, until the call or ctx ends.
func (s *site) live(w http.ResponseWriter, ctx context.Context, r *http.Request) {
	path := "/calls/" + url.PathEscape(r.PathValue("id"))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	req.Header.Set("Accept", "text/event-stream")
	out := &route.Masked{ResponseWriter: &liveOutput{ResponseWriter: w}, Redact: s.host.Redact, Pieces: s.host.Pieces}
	s.host.Operators(personOf(r).caller()).ServeHTTP(out, req)
	out.End()
}

// livePiece is a piece of output as a page shows it.
type livePiece struct {
	Stream string `json:"stream"`
	Missed bool   `json:"missed,omitempty"` // output before it is missing
	Text   string `json:"text"`
}

// liveOutput passes on output, with invisible characters as escapes, and the end of the call. It drops all other
// events of a call, because viewers get the stream too.
type liveOutput struct {
	http.ResponseWriter
	refused bool
	held    bytes.Buffer
	next    map[string]int64 // by stream: offset of the next piece
}

// WriteHeader keeps the status of a refusal. The page gets nothing else of it.
func (l *liveOutput) WriteHeader(code int) {
	l.refused = code != http.StatusOK
	l.ResponseWriter.WriteHeader(code)
}

func (l *liveOutput) Write(p []byte) (int, error) {
	if l.refused {
		return len(p), nil
	}
	l.held.Write(p)
	for {
		at := bytes.Index(l.held.Bytes(), []byte("\n\n"))
		if at < 0 {
			return len(p), nil
		}
		if err := l.event(string(l.held.Next(at + 2))); err != nil {
			return 0, err
		}
	}
}

func (l *liveOutput) event(text string) error {
	name, data := "", ""
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		switch field {
		case "event":
			name = strings.TrimSpace(value)
		case "data":
			data = value
		}
	}
	var event []byte
	var err error
	switch name {
	case "output":
		var p tool.Printed
		if err := json.Unmarshal([]byte(data), &p); err != nil {
			return err
		}
		event, err = route.Encode("", name, l.piece(p))
	case "end":
		event, err = route.Encode("", name, struct{}{})
	}
	if err == nil && event != nil {
		_, err = l.ResponseWriter.Write(event)
	}
	return err
}

func (l *liveOutput) piece(p tool.Printed) livePiece {
	if l.next == nil {
		l.next = map[string]int64{}
	}
	missed := p.Offset > l.next[p.Stream]
	l.next[p.Stream] = p.Offset + int64(len(p.Text))
	lines := strings.Split(p.Text, "\n")
	for i, line := range lines {
		lines[i] = visible.Text(line)
	}
	return livePiece{p.Stream, missed, strings.Join(lines, "\n")}
}

// Unwrap lets http.ResponseController reach the connection.
func (l *liveOutput) Unwrap() http.ResponseWriter { return l.ResponseWriter }
