package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/internal/mcp/vet"
)

// Options apply to all kinds of servers.
type Options struct {
	Line int // bytes of a message; 0 means 16 MiB
	// Changed is called when the server announces a change of its tools. It must not block.
	Changed func()
	Log     *slog.Logger // gets panics of handlers; nil: they are dropped
	// Patience is how long a program may take to read a message. After that the connection ends. Less than ten
	// seconds means ten.
	Patience time.Duration
}

// protocol is the version that is asked for first. The server may answer with an older one.
const protocol = "2025-11-25"

// The bounds of lists.
const (
	MaxTools     = 500
	maxPages     = 100
	maxResources = 5000
	maxListBytes = 32 << 20 // all pages of one list together
)

var errLongList = fmt.Errorf("its list has more than %d MiB", maxListBytes>>20)

// Conn is the connection to a server that has answered. It is safe for concurrent use.
type Conn struct {
	session *mcp.ClientSession
	close   func() // ends the program or the connection of the session
	ended   chan struct{}
	once    sync.Once

	server *Process // nil for a remote server

	next     atomic.Int64
	mu       sync.Mutex              // guards progress
	progress map[string]func(string) // by token
}

// connect begins a session, which ends with lasting. began bounds the time of the connection. If it fails, it calls
// end.
func connect(lasting, began context.Context, o Options, t mcp.Transport, end func()) (*Conn, error) {
	log := cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	c := &Conn{close: end, ended: make(chan struct{}), progress: map[string]func(string){}}
	guard := func(what string, f func()) {
		defer func() {
			if v := recover(); v != nil {
				log.Error("panic in a handler of an MCP server", "handler", what, "panic", fmt.Sprint(v))
			}
		}()
		f()
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "sandboxd", Version: "1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{}, // nil would announce roots
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			guard("tools", func() {
				if o.Changed != nil {
					o.Changed()
				}
			})
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			guard("progress", func() { c.tell(r.Params) })
		},
	})
	type made struct {
		s   *mcp.ClientSession
		err error
	}
	done := make(chan made, 1)
	go func() { // Connect does not always obey its context
		var m made
		defer func() {
			if v := recover(); v != nil {
				m.err = fmt.Errorf("panic while connecting: %v", v)
			}
			done <- m
		}()
		m.s, m.err = client.Connect(lasting, t, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	}()
	select {
	case m := <-done:
		if m.err != nil {
			end()
			return nil, m.err
		}
		c.session = m.s
	case <-began.Done():
		end()
		go func() { // it may connect all the same
			if m := <-done; m.s != nil {
				_ = m.s.Close()
			}
		}()
		return nil, fmt.Errorf("it did not answer initialize: %w", context.Cause(began))
	}
	go func() {
		_ = c.session.Wait()
		close(c.ended)
	}()
	return c, nil
}

// tell passes progress to the call that it belongs to.
func (c *Conn) tell(p *mcp.ProgressNotificationParams) {
	if p == nil {
		return
	}
	token, _ := p.ProgressToken.(string)
	c.mu.Lock()
	f := c.progress[token]
	c.mu.Unlock()
	if f == nil {
		return
	}
	text := strconv.FormatFloat(p.Progress, 'g', 6, 64)
	if p.Total > 0 {
		text += "/" + strconv.FormatFloat(p.Total, 'g', 6, 64)
	}
	if p.Message != "" {
		text += fmt.Sprintf(" %.200s", p.Message)
	}
	f(text)
}

// Ended returns a channel that is closed when the connection has ended.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// Process returns the program of the server. It is nil for a remote server.
func (c *Conn) Process() *Process { return c.server }

// Close ends the connection and the program.
func (c *Conn) Close() {
	c.once.Do(func() {
		go func() { _ = c.session.Close() }() // it waits for calls, which end with the program
		c.close()
	})
}

// Tools returns the tools as the server describes them.
func (c *Conn) Tools(ctx context.Context) ([]vet.Definition, error) {
	var all []vet.Definition
	err := pages(ctx, "tools", MaxTools, func(cursor string) (page[mcp.Tool], error) {
		r, err := c.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return page[mcp.Tool]{}, err
		}
		return page[mcp.Tool]{r.Tools, r.NextCursor}, nil
	}, func(t *mcp.Tool) (size int, err error) {
		d, err := definition(t)
		all = append(all, d)
		return len(d.Name) + len(d.Title) + len(d.Description) + len(d.InputSchema) + len(d.OutputSchema) +
			len(d.Annotations) + len(d.Icons), err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// page is a part of a list.
type page[E any] struct {
	elements []*E
	next     string // the cursor of the page behind it; "": it is the last
}

// pages reads a list of a server, most elements of it at most. ask returns the page at a cursor; take keeps an element
// and returns how many bytes it has.
func pages[E any](ctx context.Context, what string, most int, ask func(cursor string) (page[E], error),
	take func(*E) (size int, err error),
) error {
	failed := func(err error) error { return fmt.Errorf("list its %s: %w", what, err) }
	count, size, cursor := 0, 0, ""
	for range maxPages {
		p, err := within(ctx, func() (page[E], error) { return ask(cursor) })
		if err != nil {
			return failed(err)
		}
		if count += len(p.elements); count > most {
			return fmt.Errorf("it offers more than %d %s", most, what)
		}
		for _, e := range p.elements {
			if e == nil {
				continue // null is left out, as the SDK does with tools
			}
			n, err := take(e)
			if err != nil {
				return failed(err)
			}
			size += n
		}
		if size += len(p.next); size > maxListBytes {
			return failed(errLongList)
		}
		if p.next == "" {
			return nil
		}
		cursor = p.next
	}
	return fmt.Errorf("its list of %s has more than %d pages", what, maxPages)
}

func definition(t *mcp.Tool) (vet.Definition, error) {
	d := vet.Definition{Name: t.Name, Title: t.Title, Description: t.Description}
	for _, part := range []struct {
		into *json.RawMessage
		from any
		none bool
	}{
		{&d.InputSchema, t.InputSchema, false},
		{&d.OutputSchema, t.OutputSchema, t.OutputSchema == nil},
		{&d.Annotations, t.Annotations, t.Annotations == nil},
		{&d.Icons, t.Icons, len(t.Icons) == 0},
	} {
		if part.none {
			continue
		}
		raw, err := json.Marshal(part.from)
		if err != nil {
			return d, err
		}
		*part.into = raw
	}
	return d, nil
}

// Call calls a tool. progress gets its messages while it runs.
func (c *Conn) Call(ctx context.Context, name string, args json.RawMessage, progress func(string)) (
	*mcp.CallToolResult, error,
) {
	p := &mcp.CallToolParams{Name: name, Arguments: args}
	if progress != nil {
		token := "call-" + strconv.FormatInt(c.next.Add(1), 10)
		p.SetProgressToken(token)
		c.mu.Lock()
		c.progress[token] = progress
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			delete(c.progress, token)
			c.mu.Unlock()
		}()
	}
	return within(ctx, func() (*mcp.CallToolResult, error) { return c.session.CallTool(ctx, p) })
}

// Resources returns the resources of the server. It returns none if the server says that it has none.
func (c *Conn) Resources(ctx context.Context) ([]*mcp.Resource, error) {
	if r := c.session.InitializeResult(); r == nil || r.Capabilities == nil || r.Capabilities.Resources == nil {
		return nil, nil
	}
	var all []*mcp.Resource
	err := pages(ctx, "resources", maxResources, func(cursor string) (page[mcp.Resource], error) {
		r, err := c.session.ListResources(ctx, &mcp.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return page[mcp.Resource]{}, err
		}
		return page[mcp.Resource]{r.Resources, r.NextCursor}, nil
	}, func(r *mcp.Resource) (size int, err error) {
		r.Meta, r.Icons, r.Annotations = nil, nil, nil // nothing uses them
		all = append(all, r)
		return len(r.Name) + len(r.Title) + len(r.Description) + len(r.URI), nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Read reads a resource.
func (c *Conn) Read(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
	return within(ctx, func() (*mcp.ReadResourceResult, error) {
		return c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	})
}

// within calls f and waits for it until ctx ends. The error is then the cause of that, also if f noticed the end first.
// It turns a panic into an error.
func within[R any](ctx context.Context, f func() (R, error)) (R, error) {
	type answer struct {
		r   R
		err error
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if v := recover(); v != nil {
				a.err = fmt.Errorf("panic: %v", v)
			}
			done <- a
		}()
		a.r, a.err = f()
	}()
	select {
	case a := <-done:
		if a.err == nil || ctx.Err() == nil {
			return a.r, a.err
		}
	case <-ctx.Done():
	}
	var none R
	return none, context.Cause(ctx)
}
