package upstream_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/internal/mcp/upstream"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

func Example() {
	srv := mcp.NewServer(&mcp.Implementation{Name: "echo"}, nil)
	srv.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	defer web.Close()
	u, err := url.Parse(web.URL)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	conn, err := upstream.Remote(ctx, ctx, upstream.Options{Line: 1 << 20}, upstream.Address{
		URL:    u,
		Header: func(context.Context) (http.Header, []string, error) { return nil, nil, nil },
		Dial: func(ctx context.Context, to egress.Connection) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(to.Host, fmt.Sprint(to.Port)))
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	tools, err := conn.Tools(ctx)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := conn.Call(ctx, tools[0].Name, []byte(`{"a":1}`), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tools[0].Name, answer.Content[0].(*mcp.TextContent).Text)
	// Output: echo {"a":1}
}
