package api

import (
	"io"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
)

// bodyTime bounds how long a client may take to send the body of a request.
const bodyTime = 30 * time.Second

// timedBody is the body of a request, which must arrive in time. The deadline is one of the connection. The end of
// the body removes it, because a call may run longer.
type timedBody struct {
	io.ReadCloser
	c     *http.ResponseController
	limit time.Duration
	begun bool
	whole bool // the client has sent all of it, and it was read
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

// left reports whether a part of the body was not read.
func (b *timedBody) left(r *http.Request) bool { return !b.whole && r.ContentLength != 0 }

// end sends the answer, and then reads and drops the part of the body that no handler has read. Many clients write
// the whole request before they read why it was refused. That takes constant memory, and at most as long as a body
// may take. Then the connection ends, because late bytes must not count as another request.
func (b *timedBody) end(r *http.Request) {
	if !b.left(r) || b.c.SetReadDeadline(time.Now().Add(b.limit)) != nil {
		return
	}
	if !b.begun && r.Header.Get("Expect") != "" { // the client sends the body only after an answer
		return
	}
	if b.c.Flush() == nil {
		_, _ = io.CopyN(io.Discard, b.ReadCloser, 3*route.MaxBody) // a client that sends more sees the connection break
	}
}
