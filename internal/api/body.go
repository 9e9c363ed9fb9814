package api

import (
	"io"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
)

// bodyTime is how long a client may take to send the body of a request.
const bodyTime = 30 * time.Second

// timedBody is the body of a request that must arrive in time. The deadline is that
// of the connection, so it is removed at the end of the body: a call may run longer.
type timedBody struct {
	io.ReadCloser
	c     *http.ResponseController
	limit time.Duration
	begun bool
	whole bool // it was read to its end
}

// Read sets the deadline when reading begins and removes it at the end.
func (b *timedBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		if err := b.c.SetReadDeadline(time.Now().Add(b.limit)); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole = true
		if err := b.c.SetReadDeadline(time.Time{}); err != nil {
			return n, err
		}
	}
	return n, err
}

// left reports whether some of the body was not read.
func (b *timedBody) left(r *http.Request) bool { return !b.whole && r.ContentLength != 0 }

// end sends the answer, and then reads and drops the rest of a body that no handler has read.
// Many clients write the whole request before they read why it was refused. It takes constant
// memory, and at most the time that a body has. Then the connection ends, because late bytes
// must not be taken for another request.
func (b *timedBody) end(r *http.Request) {
	if !b.left(r) || b.c.SetReadDeadline(time.Now().Add(b.limit)) != nil {
		return
	}
	if !b.begun && r.Header.Get("Expect") != "" { // it waits for the answer before it sends
		return
	}
	if b.c.Flush() == nil {
		_, _ = io.CopyN(io.Discard, b.ReadCloser, 3*route.MaxBody) // whoever sends more must notice
	}
}
