package tool

import (
	"time"

	"github.com/sandboxd/sandboxd/internal/jsonout"
	"github.com/sandboxd/sandboxd/internal/output"
)

// Progress is what a caller hears of its call before the end: that it began, that a
// person is asked, or what a program wrote.
type Progress struct {
	Began   *Began
	Waiting *Waiting
	Closed  *Closed // only of a call that a client runs
	Stream  string  // of Output: "stdout" or "stderr"
	Output  []byte  // only valid during the callback
}

// Printed is what a program wrote, as clients get it.
type Printed struct {
	Stream string `json:"stream"` // "stdout" or "stderr"; of a job "output", which is both
	Offset int64  `json:"offset"` // of the first byte of the text in the stream
	Text   string `json:"text"`
}

// PrintedBytes is [Printed] on the wire whose text is in bytes, which nobody copies.
func PrintedBytes(stream string, offset int64, text []byte) any {
	return &struct {
		Stream string        `json:"stream"`
		Offset int64         `json:"offset"`
		Text   jsonout.Chars `json:"text"`
	}{stream, offset, text}
}

// Tell returns a function that writes progress to a log.
func Tell(l *output.Log) func(Progress) {
	return func(p Progress) {
		switch {
		case p.Began != nil:
			l.Event("begin", p.Began)
		case p.Waiting != nil:
			l.Event("waiting", p.Waiting)
		case p.Stream != "":
			l.Write(p.Stream, p.Output)
		}
	}
}

// Began says that a call was judged and recorded, and runs now.
type Began struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
}

// Waiting says that a call waits for a person, and for how long at most.
type Waiting struct {
	CallID   string    `json:"call_id"`
	Approval string    `json:"approval_id"`
	Type     string    `json:"type"` // execution, result, question, connection or changes
	Why      []Reason  `json:"why"`
	Asked    time.Time `json:"created_at"`
	Until    time.Time `json:"expires_at"` // then the call is refused
}
