package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Masked passes an answer on with its texts masked: JSON when it is whole, events one by one. What programs
// print comes in pieces, each in an event named output; their texts are masked as one, since a secret may be
// cut in two there. Their offsets count what is passed on, so that only what was missed leaves a hole.
// Such a piece may be passed on later than it came, so no event from there on has an id: who
// connects again gets all of them.
type Masked struct {
	http.ResponseWriter
	Redact func(string) string
	Pieces func() Pieces // for each stream of a program; nil passes no output on
	code   int
	events bool
	held   bytes.Buffer // what is not complete yet
	output map[string]*masking
	order  []string // names of the streams, as they came
}

// Pieces masks a text that comes in pieces.
type Pieces interface {
	// Write takes a piece and returns what may be passed on of all of them.
	Write(piece string) string
	// Missed says that pieces are missing before the next one.
	Missed()
	// End returns the rest, when nothing more comes.
	End() string
}

// masking is one stream of a program.
type masking struct {
	Pieces
	next int64 // offset of the next piece, if none is missing
	sent int64 // offset of the next text that is passed on
}

// WriteHeader notes the status, and sends it at once if events follow.
func (m *Masked) WriteHeader(code int) {
	kind, _, _ := mime.ParseMediaType(m.Header().Get("Content-Type"))
	m.code, m.events = code, kind == "text/event-stream"
	m.Header().Del("Content-Length")
	if m.events {
		m.ResponseWriter.WriteHeader(code)
	}
}

// Write holds what is incomplete.
func (m *Masked) Write(p []byte) (int, error) {
	if m.code == 0 {
		m.WriteHeader(http.StatusOK)
	}
	m.held.Write(p)
	for m.events {
		at := bytes.Index(m.held.Bytes(), []byte("\n\n"))
		if at < 0 {
			break
		}
		if err := m.event(string(m.held.Next(at + 2))); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// event passes one event on.
func (m *Masked) event(text string) error {
	var lines []string
	name := ""
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n") {
		field, value, _ := strings.Cut(line, ":")
		switch field {
		case "event":
			name = strings.TrimSpace(value)
		case "data":
			if name == "output" {
				return m.piece(value)
			}
			safe, err := MaskJSON([]byte(value), m.Redact)
			if err != nil {
				return err
			}
			line = "data: " + string(safe)
		case "id":
			if m.output != nil {
				continue
			}
		}
		lines = append(lines, line)
	}
	if name == "end" {
		for _, stream := range m.order {
			s := m.output[stream]
			if err := m.pass(stream, s, s.End()); err != nil {
				return err
			}
		}
	}
	_, err := io.WriteString(m.ResponseWriter, strings.Join(lines, "\n")+"\n\n")
	return err
}

// piece takes the event of a piece of output.
func (m *Masked) piece(data string) error {
	if m.Pieces == nil {
		return nil
	}
	var p tool.Printed
	if err := json.Unmarshal([]byte(data), &p); err != nil {
		return fmt.Errorf("mask a piece of output: %w", err)
	}
	s := m.output[p.Stream]
	if s == nil {
		if m.output == nil {
			m.output = map[string]*masking{}
		}
		s = &masking{Pieces: m.Pieces()}
		m.output[p.Stream], m.order = s, append(m.order, p.Stream)
	}
	// Bytes that are no text became longer, or many of them one character, which looks like a hole.
	if p.Offset > s.next {
		s.sent += p.Offset - s.next
		s.Missed()
	}
	s.next = p.Offset + int64(len(p.Text))
	return m.pass(p.Stream, s, s.Write(p.Text))
}

// pass sends a part of a stream.
func (m *Masked) pass(stream string, s *masking, text string) error {
	if text == "" {
		return nil
	}
	event, err := Encode("", "output", tool.Printed{Stream: m.Redact(stream), Offset: s.sent, Text: text})
	s.sent += int64(len(text))
	if err == nil {
		_, err = m.ResponseWriter.Write(event)
	}
	return err
}

// FlushError sends the header of events, and the events that are complete. Of any other answer it sends nothing: its
// status is known when it is whole. Without it http.ResponseController would flush below Masked, which sends a header,
// and the next Write would send another.
func (m *Masked) FlushError() error {
	if m.code == 0 {
		m.WriteHeader(http.StatusOK)
	}
	if !m.events {
		return nil
	}
	return http.NewResponseController(m.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (m *Masked) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// End sends what was held.
func (m *Masked) End() {
	if m.events || m.code == 0 && m.held.Len() == 0 {
		return
	}
	body := m.held.Bytes()
	if kind, _, _ := mime.ParseMediaType(m.Header().Get("Content-Type")); kind == "application/json" {
		safe, err := MaskJSON(body, m.Redact)
		if err != nil {
			http.Error(m.ResponseWriter, "the answer could not be masked", http.StatusInternalServerError)
			return
		}
		body = safe
	} else {
		body = []byte(m.Redact(string(body)))
	}
	m.ResponseWriter.WriteHeader(m.code)
	_, _ = m.ResponseWriter.Write(body) // whoever is gone needs no answer
}

// MaskJSON masks every text of a value, and the names of its fields.
func MaskJSON(in []byte, redact func(string) string) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(in))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("mask an answer: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // as in all answers
	err := enc.Encode(maskValue(v, redact))
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

func maskValue(v any, redact func(string) string) any {
	switch v := v.(type) {
	case string:
		return redact(v)
	case []any:
		for i := range v {
			v[i] = maskValue(v[i], redact)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[redact(key)] = maskValue(value, redact)
		}
		return out
	}
	return v
}
