package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/internal/mcp/upstream"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// TestM07_BothKindsOfRemoteServers: a server of type sse answers by the events of one long connection, and one of type
// http in the answers to requests. Neither is spoken to as the other, and neither is offered roots, sampling or
// questions.
func TestM07_BothKindsOfRemoteServers(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "echo"}, nil)
	srv.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if p := r.Session.InitializeParams(); p == nil || !reflect.DeepEqual(p.Capabilities, &mcp.ClientCapabilities{}) {
				t.Errorf("the server was told %+v", p)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "answer"}}}, nil
		})
	server := func(*http.Request) *mcp.Server { return srv }
	for name, web := range map[string]http.Handler{
		"sse": mcp.NewSSEHandler(server, nil), "http": mcp.NewStreamableHTTPHandler(server, nil),
		"json": mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{JSONResponse: true}),
	} {
		t.Run(name, func(t *testing.T) {
			at := httptest.NewServer(web)
			t.Cleanup(at.Close) // after the connection, which it waits for
			u, err := url.Parse(at.URL)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			conn, err := upstream.Remote(ctx, ctx, upstream.Options{}, address(u, name == "sse"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			answer, err := conn.Call(ctx, "echo", []byte(`{}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			if text, _ := answer.Content[0].(*mcp.TextContent); text == nil || text.Text != "answer" {
				t.Errorf("got %+v", answer)
			}
		})
	}
}

// address is that of a server of a test.
func address(u *url.URL, push bool) upstream.Address {
	return upstream.Address{
		URL: u, Push: push,
		Header: func(context.Context) (http.Header, []string, error) { return nil, nil, nil },
		Dial: func(ctx context.Context, to egress.Connection) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(to.Port)))
		},
	}
}

// A server of type sse says itself where messages go. Another host, port or scheme is asked nothing.
func TestM07_OnlyTheHostOfTheAddressIsAsked(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(other.Close)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", other.URL)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(at.Close)
	u, err := url.Parse(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := upstream.Remote(ctx, ctx, upstream.Options{}, address(u, true))
	if err == nil {
		conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "only its own host is asked") || asked.Load() != 0 {
		t.Errorf("got %v, the other host was asked %d times", err, asked.Load())
	}
}

// A list that has no end is refused.
func TestAListWithoutEndIsRefused(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "endless"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{},
		},
	})
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			switch method {
			case "tools/list":
				return &mcp.ListToolsResult{NextCursor: "more", Tools: []*mcp.Tool{}}, nil
			case "resources/list":
				return &mcp.ListResourcesResult{NextCursor: "more", Resources: []*mcp.Resource{}}, nil
			}
			return next(ctx, method, r)
		}
	})
	at := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	t.Cleanup(at.Close)
	u, err := url.Parse(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := upstream.Remote(ctx, ctx, upstream.Options{}, address(u, false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Tools(ctx); err == nil || !strings.Contains(err.Error(), "more than 100 pages") {
		t.Errorf("tools: %v", err)
	}
	if _, err := conn.Resources(ctx); err == nil || !strings.Contains(err.Error(), "more than 5000 resources") {
		t.Errorf("resources: %v", err)
	}
}

// TestAnAnswerIsBounded: whatever a server says that its answer is, no more of it is read than a message may have.
func TestAnAnswerIsBounded(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			t.Run(fmt.Sprint(status, " ", kind), func(t *testing.T) {
				const most = 64 << 20
				var sent atomic.Int64
				at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", kind)
					w.WriteHeader(status)
					for part := bytes.Repeat([]byte("x"), 64<<10); sent.Load() < most; {
						n, err := w.Write(part)
						if sent.Add(int64(n)); err != nil {
							return
						}
					}
				}))
				t.Cleanup(at.Close)
				u, err := url.Parse(at.URL)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				conn, err := upstream.Remote(ctx, ctx, upstream.Options{Line: 1 << 20}, address(u, false))
				if err == nil {
					conn.Close()
					t.Error("it is a server")
				}
				if sent.Load() >= most { // what the kernel holds of a connection is much less
					t.Errorf("all %d bytes are read", sent.Load())
				}
			})
		}
	}
}
