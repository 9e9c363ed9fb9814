package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Event is one thing that happened, such as the start of a call, a new session, a question, a notification of a hook
// or a connection. It never holds arguments or results. The type "dropped" says that Dropped events are missing,
// because this reader was too slow.
type Event struct {
	Type     string    `json:"type"`
	Time     time.Time `json:"time"`
	Account  string    `json:"account,omitempty"`
	Session  string    `json:"session_id,omitempty"`
	Call     string    `json:"call_id,omitempty"`
	Job      string    `json:"job_id,omitempty"`
	Task     string    `json:"task_id,omitempty"`
	Cron     string    `json:"cron_id,omitempty"`
	Agent    string    `json:"agent,omitempty"`
	Tool     string    `json:"tool,omitempty"`
	Approval string    `json:"approval_id,omitempty"`
	Grant    string    `json:"grant_id,omitempty"`
	Status   string    `json:"status,omitempty"`
	Code     string    `json:"code,omitempty"`
	Title    string    `json:"title,omitempty"`     // of a notification, written by the hook
	Message  string    `json:"message,omitempty"`   // of a notification, written by the hook
	Until    time.Time `json:"expires_at,omitzero"` // of a question: then it is refused
	Dropped  int       `json:"dropped,omitempty"`

	Connection *Connection `json:"connection,omitempty"` // with numbers when Status is "ended"
}

// EventFilter selects events; empty lists select all.
type EventFilter struct{ Types, Sessions []string }

// Events yields what happens until the context ends, the daemon stops or the
// caller breaks off. Whatever happens after Events returned is in it; an error is
// the last thing that it yields.
//
//	events, err := c.Events(ctx, client.EventFilter{Types: []string{"call_end"}})
//	for e, err := range events { … }
func (c *Client) Events(ctx context.Context, f EventFilter) (iter.Seq2[Event, error], error) {
	q := url.Values{"type": f.Types, "session_id": f.Sessions}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sandboxd/v1/events?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, decode(res, nil)
	}
	return func(yield func(Event, error) bool) {
		defer res.Body.Close()
		for e, err := range readEvents(res.Body) {
			if ctx.Err() != nil {
				yield(Event{}, context.Cause(ctx))
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}, nil
}

// maxEvent bounds one event, in bytes. The event run of a lease holds the command.
const maxEvent = 64 << 20

// readEvents reads the stream of GET /events.
func readEvents(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for s, err := range readStream(r) {
			var e Event
			if err == nil {
				err = json.Unmarshal(s.data, &e)
			}
			if e.Type == "" {
				e.Type = s.event
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// sent is one server-sent event. Its data is valid until the next one is read.
type sent struct {
	event string
	data  []byte
	room  *[]byte // buffer for decoding
}

// readStream reads server-sent events as the daemon writes them: one line of data
// each. An error is the last thing that it yields.
func readStream(r io.Reader) iter.Seq2[sent, error] {
	return func(yield func(sent, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxEvent)
		var room []byte
		kind := ""
		for lines.Scan() {
			field, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
			switch string(field) {
			case "event":
				kind = string(value)
			case "data":
				if !yield(sent{kind, value, &room}, nil) {
					return
				}
			}
		}
		err := lines.Err()
		if err == nil {
			err = &Error{
				Code: "stream_ended", Msg: "the daemon ended the stream of events",
				Hint: "it stopped, or restarts; connect again",
			}
		}
		yield(sent{}, fmt.Errorf("read events: %w", err))
	}
}
