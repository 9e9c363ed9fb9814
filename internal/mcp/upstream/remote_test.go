package upstream_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/internal/mcp/upstream"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// TestM07_BothKindsOfRemoteServers: a server of type sse answers by the events of one long connection, and one of type
// http in the answers to requests. Neither is spoken to as the other.
func TestM07_BothKindsOfRemoteServers(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "echo"}, nil)
	srv.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "answer"}}}, nil
		})
	server := func(*http.Request) *mcp.Server { return srv }
	for name, web := range map[string]http.Handler{
		"sse": mcp.NewSSEHandler(server, nil), "http": mcp.NewStreamableHTTPHandler(server, nil),
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
			conn, err := upstream.Remote(ctx, ctx, upstream.Options{Line: 1 << 20}, upstream.Address{
				URL: u, Push: name == "sse",
				Header: func(context.Context) (http.Header, []string, error) { return nil, nil, nil },
				Dial: func(ctx context.Context, to egress.Connection) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(to.Port)))
				},
			})
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
