package api

import (
	"io"
	"net/http"
	"time"
)

// bodyTime is how long a client may take to send the body of a request.
const bodyTime = 30 * time.Second

// timedBody is the body of a request that must arrive in time. The deadline ends
// with the body: it is that of the connection, on which a long call is watched.
type timedBody struct {
	io.ReadCloser
	c     *http.ResponseController
	limit time.Duration
	begun bool
}

// Read sets the deadline when reading begins and takes it back at the end.
func (b *timedBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		if err := b.c.SetReadDeadline(time.Now().Add(b.limit)); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		if err := b.c.SetReadDeadline(time.Time{}); err != nil {
			return n, err
		}
	}
	return n, err
}
