package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// maxQueued bounds the messages that wait for a server that does not read. writeTime bounds the writing of each
// message.
const (
	maxQueued = 64
	writeTime = 30 * time.Second
)

// conn is a JSON-RPC connection to a server over two pipes. The first invalid message from the server ends it.
type conn struct {
	in    *os.File // standard input of the server
	send  chan []byte
	ended chan struct{} // closed when the connection cannot be used any more

	mu      sync.Mutex // guards what follows
	next    int64
	waiting map[int64]chan<- message
	err     error // the reason of the end
}

// message is a request, an answer or a notification of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// newConn starts a connection over the pipes of a server. The connection closes in at its end.
func newConn(in *os.File, out io.Reader) *conn {
	c := &conn{
		in: in, send: make(chan []byte, maxQueued), ended: make(chan struct{}), waiting: map[int64]chan<- message{},
	}
	go c.write()
	go c.read(out)
	return c
}

// fail ends the connection with an error. If it has ended, the first error stays.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.ended)
	}
}

func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *conn) write() {
	defer c.in.Close()
	for {
		select {
		case <-c.ended:
			return
		case b := <-c.send:
			err := c.in.SetWriteDeadline(time.Now().Add(writeTime))
			if err == nil {
				_, err = c.in.Write(b)
			}
			if err != nil {
				c.fail(fmt.Errorf("it does not read: %w", err))
				return
			}
		}
	}
}

func (c *conn) read(out io.Reader) {
	r := bufio.NewReaderSize(&paced{Reader: out}, maxHeader)
	for {
		body, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			err = errors.New("it ended")
		}
		if err == nil {
			err = c.take(body)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// take handles one message from the server.
func (c *conn) take(body []byte) error {
	if err := strictjson.Check(body); err != nil {
		return fmt.Errorf("a message is %w", err)
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("a message cannot be read: %w", err)
	}
	switch {
	case m.Method != "" && len(m.ID) > 0:
		return c.serve(m)
	case m.Method != "": // a notification: progress, logs, diagnostics
		return nil
	}
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return fmt.Errorf("an answer has the id %.40q, which no request has", m.ID)
	}
	c.mu.Lock()
	waits := c.waiting[id]
	delete(c.waiting, id)
	known := id >= 1 && id <= c.next
	c.mu.Unlock()
	switch {
	case waits != nil:
		waits <- m
	case !known:
		return fmt.Errorf("an answer has the id %d, which no request has", id)
	}
	return nil // also if the caller does not wait for the answer any more
}

// maxItems bounds the settings that a server may ask for in one request.
const maxItems = 100

// serve answers a request from the server. Settings that it asks for are null, which means its defaults. It can
// change nothing.
func (c *conn) serve(m message) error {
	if len(m.ID) > 100 {
		return errors.New("a request has an id of more than 100 bytes")
	}
	answer := struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result,omitempty"`
		Error   *rpcError       `json:"error,omitempty"`
	}{Version: "2.0", ID: m.ID}
	switch m.Method {
	case "workspace/configuration":
		var p struct{ Items []json.RawMessage }
		if err := json.Unmarshal(m.Params, &p); err != nil || len(p.Items) > maxItems {
			return fmt.Errorf("it asks for settings in a way that cannot be read, or for more than %d", maxItems)
		}
		answer.Result = make([]*int, len(p.Items)) // each is null
	case "client/registerCapability", "client/unregisterCapability", "window/workDoneProgress/create",
		"workspace/workspaceFolders":
		answer.Result = json.RawMessage("null")
	case "workspace/applyEdit":
		answer.Result = map[string]any{"applied": false, "failureReason": "the tool only reads"}
	default:
		answer.Error = &rpcError{-32601, "not offered"}
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return c.queue(b)
}

// queue queues a message without waiting.
func (c *conn) queue(body []byte) error {
	select {
	case c.send <- frame(body):
		return nil
	default:
		return fmt.Errorf("it does not read: %d messages wait for it", maxQueued)
	}
}

// notify sends a notification to the server.
func (c *conn) notify(method string, params any) error {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	if err == nil {
		err = c.queue(b)
	}
	return err
}

// call sends a request and waits for the answer, until the connection or the context ends.
func (c *conn) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = answer
	c.mu.Unlock()
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err == nil {
		err = c.queue(b)
	}
	if err != nil {
		c.forget(id)
		return nil, err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, refusedError{fmt.Sprintf("%.1000s", m.Error.Message)}
		}
		return m.Result, nil
	case <-c.ended:
		return nil, c.why()
	case <-ctx.Done():
		c.forget(id)
		_ = c.notify("$/cancelRequest", map[string]int64{"id": id}) // it may come too late
		return nil, context.Cause(ctx)
	}
}

func (c *conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// refusedError is an error in an answer of the server. The connection goes on.
type refusedError struct{ msg string }

func (e refusedError) Error() string { return e.msg }
