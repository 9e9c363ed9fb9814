package integration

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// mcpEcho makes this program a server of the SDK with one tool that returns its argument.
const mcpEcho = "SANDBOXD_TEST_MCP_ECHO"

func echoServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
		})
	return s
}

// BenchmarkMCP is a call over MCP beside the same call without it and an echo of the SDK by the same way. What MCP
// costs should be 1.2 echoes, a ratio of 1. Seen on two busy cores: 1.08 and 1.12 by the bridge, which is one process
// more, and 1 over HTTP. The limits find what is much worse than that, on a machine with more to do, too.
func BenchmarkMCP(b *testing.B) {
	d := newDaemon(b, "")
	ctx, session := b.Context(), d.session()
	direct := func() {
		if _, err := d.agent.Call(ctx, session, "ListVars", json.RawMessage(`{}`)); err != nil {
			b.Fatal(err)
		}
	}
	calls := func(s *mcp.ClientSession, tool string) func() {
		return func() {
			r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(`{}`)})
			if err != nil || r.IsError {
				b.Fatal(r, err)
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), mcpEcho+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	connect := func(way mcp.Transport) *mcp.ClientSession {
		c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		s, err := c.Connect(context.Background(), way, &mcp.ClientSessionOptions{ProtocolVersion: mcpVersions[0]})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return s
	}
	socket := filepath.Join(d.work, "echo.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	server := echoServer()
	srv := &http.Server{Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)}
	go func() { _ = srv.Serve(l) }()
	b.Cleanup(func() { srv.Close() })
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	times := func(n int, run func()) func() {
		return func() {
			for range n {
				run()
			}
		}
	}
	echo := calls(connect(&mcp.IOTransport{Reader: out, Writer: in}), "echo")
	echoHTTP := calls(connect(&mcp.StreamableClientTransport{
		Endpoint: "http://echo/", HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial}}, MaxRetries: -1,
	}), "echo")
	bridge, overHTTP := calls(d.mcpClient(b, mcpVersions[0], nil), "ListVars"), calls(d.overHTTP(b, mcpVersions[0], nil), "ListVars")
	five := times(5, direct)
	bench.Compare(b, []bench.Case{
		{Name: "direct", N: 20, Run: five},
		{Name: "echo", N: 20, Run: times(5, echo)},
		{Name: "echo over HTTP", N: 20, Run: times(5, echoHTTP)},
		{Name: "direct and 1.2 echoes", N: 20, Run: func() { five(); times(6, echo)() }},
		{Name: "direct and 1.2 echoes over HTTP", N: 20, Run: func() { five(); times(6, echoHTTP)() }},
		{Name: "bridge", N: 20, Run: times(5, bridge)},
		{Name: "HTTP", N: 20, Run: times(5, overHTTP)},
	}, bench.Limit{Case: "bridge", Over: "direct and 1.2 echoes", AtMost: 1.6},
		bench.Limit{Case: "HTTP", Over: "direct and 1.2 echoes over HTTP", AtMost: 1.3})
}
