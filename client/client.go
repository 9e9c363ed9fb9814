// Package client talks to a running daemon over one of its Unix sockets.
//
//	c := client.New("/run/sandboxd/agent.sock")
//	var s client.Session
//	err := c.Do(ctx, "POST", "/sessions", map[string]any{"cwd": dir}, &s)
//	result, err := c.Call(ctx, s.ID, "Bash", json.RawMessage(`{"command": "ls"}`))
//
// A failure that the daemon reports is a [*tool.Error], and so is that nobody
// listens (daemon_unreachable) or that the daemon ended meanwhile
// (connection_lost). A call that was denied is a result, not an error.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/sandboxd/sandboxd/tool"
)

// Client is one connection pool to one socket. It is safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

// Session is what the client reads of a session.
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
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

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
		Error *tool.Error     `json:"error"`
	}
	if err := json.NewDecoder(res.Body).Decode(&env); err != nil {
		return fmt.Errorf("read the answer of the daemon (%s): %w", res.Status, err)
	}
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

// Call runs one tool.
func (c *Client) Call(ctx context.Context, session, name string, args json.RawMessage) (tool.Result, error) {
	var r tool.Result
	in := map[string]any{"tool": name, "args": args}
	err := c.Do(ctx, http.MethodPost, sessionPath(session, "/calls"), in, &r)
	return r, err
}

// SessionFor is the session that the command line uses for a directory.
func (c *Client) SessionFor(ctx context.Context, dir string) (Session, error) {
	var s Session
	err := c.Do(ctx, http.MethodPost, "/sessions", map[string]any{"cwd": dir, "tag": "cli", "reuse": true}, &s)
	return s, err
}

// explain tells a socket behind which nobody listens, or nobody any more, by its
// code.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err // who called has left
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &tool.Error{
			Code: "daemon_unreachable",
			Msg:  fmt.Sprintf("no daemon answers on %s: %s", c.socket, op.Err),
			Hint: "start one with: sandboxd serve",
		}
	}
	return &tool.Error{
		Code: "connection_lost",
		Msg:  fmt.Sprintf("the daemon on %s ended before it answered: %s", c.socket, err),
		Hint: "it stopped or was killed; sandboxd audit tail says what it had begun",
	}
}
