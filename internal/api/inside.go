package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Inside sends requests of agents to the server of the moment without a socket. Each is of the caller of the request
// whose context it has, and counts in that caller's budget like any other. It is for routes that are made of others.
func (f *Front) Inside() http.RoundTripper { return inside{f} }

type inside struct{ front *Front }

// RoundTrip implements [http.RoundTripper]. The answer is read while it is written.
func (i inside) RoundTrip(out *http.Request) (*http.Response, error) {
	if p, ok := out.Context().Value(peerKey{}).(peer); !ok || !p.known {
		return nil, errors.New("a request inside the daemon is of nobody")
	}
	ctx, cancel := context.WithCancel(out.Context())
	in := out.Clone(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	from, to := io.Pipe()
	a := &answerInside{header: http.Header{}, body: to, ready: make(chan struct{})}
	go func() {
		defer cancel()
		defer func() {
			err := io.ErrUnexpectedEOF
			if recover() == nil { // a handler aborts its answer by a panic
				a.WriteHeader(http.StatusOK)
				err = nil
			}
			to.CloseWithError(err) // nil is the end of the answer
			a.once.Do(func() { close(a.ready) })
		}()
		i.front.serve(i.front.now.Load(), a, in, tool.RoleAgent)
	}()
	select {
	case <-a.ready:
	case <-ctx.Done():
		// A handler that has ended cancels ctx, too.
		select {
		case <-a.ready:
		default:
			from.CloseWithError(ctx.Err())
			return nil, ctx.Err()
		}
	}
	return &http.Response{
		StatusCode: a.code, Header: a.sent, ContentLength: -1,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: out,
		Body: &bodyInside{PipeReader: from, cancel: cancel},
	}, nil
}

// answerInside is the answer to a request that came by no connection.
type answerInside struct {
	header, sent http.Header
	body         *io.PipeWriter
	code         int
	once         sync.Once
	ready        chan struct{} // closed when code and sent are there
}

func (a *answerInside) Header() http.Header { return a.header }

func (a *answerInside) WriteHeader(code int) {
	a.once.Do(func() {
		a.code, a.sent = code, a.header.Clone()
		close(a.ready)
	})
}

func (a *answerInside) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush sends the head.
func (a *answerInside) Flush() { a.WriteHeader(http.StatusOK) }

// bodyInside ends the request when its answer is read no further.
type bodyInside struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *bodyInside) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
