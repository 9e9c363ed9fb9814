// Package client talks to a running daemon over one of its Unix sockets.
//
// [New] makes a [Client] from the path of a socket, and [Over] one that sends its requests another
// way. Nothing has to be closed. The socket decides what the client may do, see docs/http.md. There
// are methods for calls, variables, jobs, saved messages and events, for looking at scopes of
// variables, and for calls that the client starts itself ([Client.RunLease]). [Client.Do] sends any
// other request of the HTTP API.
//
//	c := client.New(socket) // connects at the first request
//	s, err := c.SessionFor(ctx, dir)
//	r, err := c.Call(ctx, s.ID, "Bash", json.RawMessage(`{"command": "ls"}`))
//
// A call that was denied or refused is a [Result] with its own Error; the method returns no error.
// A failure that the daemon reports is an [*Error] with a stable code. Three codes come from this
// package: daemon_unreachable (no connection to the socket), connection_lost (the daemon ended
// before it answered) and stream_ended (a stream of events or of a lease ended early). An answer
// that cannot be read, and a context that ended, are other errors.
//
// The package repeats no call and no change. A call whose answer was lost may have run.
//
// The types are those of the wire, and rows for tables made from them. This package imports no part
// of the daemon. A later version may add fields to the types.
//
// A new method lies in the file of its subject, with its types. The tests here serve it by hand;
// tests/integration asks a real daemon.
package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// Client is one connection pool to one socket. It is safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

// Session holds the fields of a session that this package uses.
type Session struct {
	ID   string `json:"id"`
	Dir  string `json:"cwd"`
	Mode string `json:"mode"`
}

// New returns a client of the daemon behind this socket; it connects when used.
func New(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DialContext: dial, ReadBufferSize: readBytes}
	return &Client{socket: socket, http: &http.Client{Transport: transport}}
}

// Over returns a client that sends its requests with a RoundTripper instead of over a socket.
func Over(way http.RoundTripper) *Client {
	return &Client{socket: "the daemon", http: &http.Client{Transport: way}}
}

// readBytes is the size of the reads of an answer. It is large because programs print much.
const readBytes = 64 << 10

// Do sends in as JSON, if it is not nil, and decodes the data of the answer into
// out, if it is not nil.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://sandboxd/v1"+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return c.explain(ctx, err)
	}
	defer res.Body.Close()
	return decode(res, out)
}

func decode(res *http.Response, out any) error {
	var env struct {
		Data  json.RawMessage `json:"data"`
		Error *Error          `json:"error"`
	}
	if err := json.NewDecoder(res.Body).Decode(&env); err != nil {
		return fmt.Errorf("read the answer of the daemon (%s): %w", res.Status, err)
	}
	finish(res.Body)
	if env.Error != nil {
		return env.Error
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("the daemon answered %s without saying why", res.Status)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(env.Data, out)
}

// finish reads the rest of a complete answer, because the connection is only reused after that.
func finish(body io.Reader) { _, _ = io.CopyN(io.Discard, body, 4<<10) }

// Call runs one tool.
func (c *Client) Call(ctx context.Context, session, name string, args json.RawMessage) (Result, error) {
	var r Result
	in := map[string]any{"tool": name, "args": args}
	err := c.Do(ctx, http.MethodPost, sessionPath(session, "/calls"), in, &r)
	return r, err
}

// SessionFor returns the session that the command line uses for a directory.
func (c *Client) SessionFor(ctx context.Context, dir string) (Session, error) {
	var s Session
	err := c.Do(ctx, http.MethodPost, "/sessions", map[string]any{"cwd": dir, "tag": "cli", "reuse": true}, &s)
	return s, err
}

// explain returns the error for a socket on which no daemon listens, or whose daemon has ended.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err // the caller has cancelled
	}
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("an event of more than %d bytes: %w", maxEvent, err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && errors.Is(err, os.ErrPermission) {
		return &Error{
			Code: "daemon_unreachable",
			Msg:  fmt.Sprintf("this user may not connect to %s: %s", c.socket, op.Err),
			Hint: "members of its group may, which ls -l names; who becomes one must log in anew",
		}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &Error{
			Code: "daemon_unreachable",
			Msg:  fmt.Sprintf("no daemon answers on %s: %s", c.socket, op.Err),
			Hint: StartHint(),
		}
	}
	return &Error{
		Code: "connection_lost",
		Msg:  fmt.Sprintf("the daemon on %s ended before it answered: %s", c.socket, err),
		Hint: "it stopped or was killed; sandboxd audit tail says what it had begun",
	}
}
