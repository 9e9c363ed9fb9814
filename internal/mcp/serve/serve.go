// Package serve shows one session of the daemon as an MCP server.
//
// A [Face] is made over a client of the daemon. So every call takes the one request path: it is
// judged, approved, confined and recorded like any other, and the daemon knows the caller from the
// connection. [Face.Stdio] serves one client over two pipes, in every version of the protocol that the
// SDK speaks: sandboxd mcp does. [HTTP] serves many clients over HTTP, and makes and ends their faces: the
// daemon does.
//
//	api := client.New(agentSocket)
//	face, err := serve.New(ctx, serve.Options{API: api, Session: "s1", Log: slog.Default()})
//	defer face.Close()
//	err = face.Stdio(ctx, os.Stdin, os.Stdout) // until stdin or ctx ends
//
//	h := serve.NewHTTP(api, version, slog.Default()) // h.Routes() go into the daemon's server
//	defer h.Close()
//
// A client sees the tools of the session as the daemon describes them, without ToolSearch;
// variables as resources, var://SESSION/NAME, by the rules of ReadVar; and the skills that a user
// may call as prompts. A tool whose schema the SDK cannot serve is left out, with a warning in Log.
// A change of the tools or the skills is announced. Arguments go to the daemon as they came.
//
// Guarantees:
//   - No answer of a client is an approval. A client may show the question to its user. "accept"
//     means that the queue of the daemon is looked at again, and "decline" ends the call.
//   - A result has no structuredContent, because clients show their models that alone.
//   - A panic in a handler fails its request alone.
//   - If a request is cancelled or its client goes, the call is cancelled. In the version of the
//     protocol without sessions, a call that waits for a person is held between two requests
//     ([Holds]); it is cancelled if nobody takes it in time.
//
// Tools and prompts are listed in lists.go. What a client reads is in read.go; reading a variable is a
// call of ReadVar. Every request to call a tool goes through call.go.
package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// Options says what is served. API, Session and Log are required.
type Options struct {
	API     *client.Client // of an agent socket
	Session string
	Version string // of this program
	Log     *slog.Logger
	Holds   *Holds // calls between two requests; nil: a Holds for this face only
	Caller  string // the caller in Holds, if several callers share it

	id      string                                           // Mcp-Session-Id, over HTTP
	request func(http.Header) (ctx context.Context, ok bool) // returns the context of a message's HTTP request
}

// Face serves one session as an MCP server. It is safe for concurrent use.
type Face struct {
	Options
	server *mcp.Server
	stop   context.CancelFunc
	ended  chan struct{} // closed when watch has ended
	gone   atomic.Bool   // the session was deleted

	mu      sync.Mutex        // guards what follows
	tools   map[string]string // offered definitions, by name
	prompts map[string]string
}

const instructions = "Every call is judged by the rules of sandboxd, runs in a sandbox and is recorded. A person " +
	"may be asked first. What is refused says why and what to do; the same call again is refused again. Results are " +
	"kept as variables: $VAR_REF{{name}} in an argument is replaced by one, ReadVar reads one in parts."

// New serves a session until Close. It first reads the session's lists, so that an error tells that the daemon is
// not running or does not know the session; it is a [*client.Error] then.
func New(ctx context.Context, o Options) (*Face, error) {
	if o.Holds == nil {
		o.Holds = NewHolds()
	}
	f := &Face{Options: o, ended: make(chan struct{}), tools: map[string]string{}, prompts: map[string]string{}}
	me := &mcp.Implementation{Name: "sandboxd", Title: "sandboxd", Version: o.Version}
	f.server = mcp.NewServer(me, &mcp.ServerOptions{
		Instructions: instructions,
		// For a field that is not set the SDK would choose what to announce.
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{ListChanged: true},
			Prompts:   &mcp.PromptCapabilities{ListChanged: true},
			Resources: &mcp.ResourceCapabilities{},
		},
		GetSessionID: func() string { return o.id },
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.TTLMs, c.CacheScope = 0, "private" },
	})
	f.server.AddReceivingMiddleware(f.recovers)
	f.server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "variables", URITemplate: "var://" + o.Session + "/{+name}",
		Description: "A variable of the session, whole: a result of a call, or what the model wrote. " +
			"ListVars lists them.",
		MIMEType: "text/plain",
	}, f.readVar)
	if err := f.refresh(ctx); err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	go f.watch(watching)
	return f, nil
}

// Gone reports whether the session was deleted.
func (f *Face) Gone() bool { return f.gone.Load() }

// Close closes the connections and stops watching the session.
func (f *Face) Close() {
	f.stop()
	for s := range f.server.Sessions() {
		_ = s.Close() // the client gets no message either way
	}
	<-f.ended
}

// recovers turns a panic into the failure of one request. With the SDK alone it would end the process.
func (f *Face) recovers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				f.Log.Error("a handler of MCP panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
				res = nil
				err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "this request failed in sandboxd"}
			}
		}()
		return next(ctx, method, req)
	}
}

// offered is a tool as the daemon describes it.
type offered struct {
	Name        string               `json:"name"`
	Title       string               `json:"title,omitempty"`
	Description string               `json:"description,omitempty"`
	InputSchema json.RawMessage      `json:"inputSchema"`
	Annotations *mcp.ToolAnnotations `json:"annotations,omitempty"`
}

// add offers a tool. It returns an error if the SDK panics because it cannot serve the schema.
func (f *Face) add(t offered) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the SDK refuses tool %q: %v", t.Name, p)
		}
	}()
	f.server.AddTool(&mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema,
		Annotations: t.Annotations,
	}, f.call)
	return nil
}
