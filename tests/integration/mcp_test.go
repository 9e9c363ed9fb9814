package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpVersions are one version of each era: with sessions, and without.
var mcpVersions = []string{"2025-11-25", "2026-07-28"}

// mcpWay is how a client reaches the daemon, and in which version.
type mcpWay struct {
	http    bool
	version string
}

func (w mcpWay) String() string {
	if w.http {
		return "http-" + w.version
	}
	return "bridge-" + w.version
}

var mcpWays = []mcpWay{{false, mcpVersions[0]}, {false, mcpVersions[1]}, {true, mcpVersions[0]}, {true, mcpVersions[1]}}

// overHTTP is a client of the SDK that speaks to the agent socket itself.
func (d *running) overHTTP(t testing.TB, version string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	s, err := c.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: "http://sandboxd/mcp", HTTPClient: &http.Client{Transport: d.socket(t, http.Header{})}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("%s: %v\n%s", version, err, d.log)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// socket sends requests to the agent socket, with these headers.
func (d *running) socket(t testing.TB, header http.Header) http.RoundTripper {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(d.work, "run/a.sock"))
	}
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	return withHeader{transport, header}
}

type withHeader struct {
	http.RoundTripper
	header http.Header
}

func (w withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range w.header {
		r.Header[name] = values
	}
	return w.RoundTripper.RoundTrip(r)
}

func (d *running) mcpBy(t testing.TB, w mcpWay, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	if w.http {
		return d.overHTTP(t, w.version, o)
	}
	return d.mcpClient(t, w.version, o)
}

// bridge starts sandboxd mcp as a client does.
func (d *running) bridge(t testing.TB, args ...string) (stdin io.WriteCloser, stdout io.ReadCloser, ended func() error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), append([]string{"mcp"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = d.ws, d.env, d.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if stdout, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var left error
	done := make(chan struct{})
	go func() { left = cmd.Wait(); close(done) }()
	ended = func() error { stdin.Close(); <-done; return left }
	t.Cleanup(func() { _ = ended() })
	return stdin, stdout, ended
}

// mcpClient is a client of the SDK behind a bridge.
func (d *running) mcpClient(t testing.TB, version string, o *mcp.ClientOptions, args ...string) *mcp.ClientSession {
	t.Helper()
	stdin, stdout, _ := d.bridge(t, args...)
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	s, err := c.Connect(context.Background(), &mcp.IOTransport{Reader: stdout, Writer: stdin},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("%s: %v\n%s", version, err, d.log)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mcpCall(t testing.TB, s *mcp.ClientSession, name, args string) *mcp.CallToolResult {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	return r
}

func mcpText(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}

func TestM24_AClientHasTheToolsOfTheDaemon(t *testing.T) {
	d := newDaemon(t, "")
	d.write("ws/dot.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"+
		"\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82")
	for _, way := range mcpWays {
		t.Run(way.String(), func(t *testing.T) {
			version := way.String()
			s := d.mcpBy(t, way, nil)
			var names []string
			for tool, err := range s.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, tool.Name)
			}
			if !slices.IsSorted(names) || !slices.Contains(names, "Bash") || !slices.Contains(names, "NotebookEdit") {
				t.Errorf("the tools are %v", names)
			}
			r := mcpCall(t, s, "Bash", `{"command": "pwd; echo kept > made-`+version+`; head -c 60000 /dev/zero | tr '\\0' x"}`)
			if r.IsError || !strings.HasPrefix(mcpText(r), d.ws) || r.StructuredContent != nil {
				t.Fatalf("Bash: %.300s", mcpText(r))
			}
			link, ok := r.Content[1].(*mcp.ResourceLink)
			if !ok {
				t.Fatalf("no link to the whole of a result that was cut: %T", r.Content[1])
			}
			res, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(res.Contents[0].Text); got < 60_000 {
				t.Errorf("the variable has %d bytes, want all", got)
			}
			if r := mcpCall(t, s, "Read", `{"file_path": "made-`+version+`"}`); !strings.Contains(mcpText(r), "kept") {
				t.Errorf("Read: %s", mcpText(r))
			}
			r = mcpCall(t, s, "Read", `{"file_path": "dot.png"}`)
			if !slices.ContainsFunc(r.Content, func(c mcp.Content) bool { _, ok := c.(*mcp.ImageContent); return ok }) {
				t.Errorf("an image is %v", r.Content)
			}
			p, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{
				Name: "review", Arguments: map[string]string{"arguments": "the last commit"},
			})
			if err != nil || !strings.Contains(p.Messages[0].Content.(*mcp.TextContent).Text, "the last commit") {
				t.Errorf("the prompt: %v, %v", p, err)
			}
			for _, uri := range []string{"var://s-of-others/x", "var://", "file:///etc/passwd", link.URI + "x"} {
				if res, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
					t.Errorf("%s was read: %v", uri, res)
				}
			}
		})
	}
}

// Rules, floor and strict arguments hold for clients of MCP, who are told what to do.
func TestM25_M28_CallsOverMCPTakeTheOneRequestPath(t *testing.T) {
	d := newDaemon(t, "")
	s := d.mcpClient(t, mcpVersions[0], nil)
	for _, tt := range []struct{ tool, args, want string }{
		{"Bash", `{"command": "cat ~/.ssh/id_rsa"}`, "is denied by sandbox policy"},
		{"Read", fmt.Sprintf(`{"file_path": %q}`, d.home+"/.ssh/id_rsa"), "denied"},
		{"Read", `{"file_path": "a", "FILE_PATH": "b"}`, `unknown field "FILE_PATH"`},
		{"Read", `{"file_path": "a", "file_path": "b"}`, "file_path"},
		{"Read", `{"file_path": "none"}`, "does not exist\nHint: "},
		{"Read", `[]`, "args must be an object"},
	} {
		r := mcpCall(t, s, tt.tool, tt.args)
		if !r.IsError || !strings.Contains(mcpText(r), tt.want) || strings.Contains(mcpText(r), "PLANTED") {
			t.Errorf("%s %s: error %t, %q; want %q", tt.tool, tt.args, r.IsError, mcpText(r), tt.want)
		}
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "rm -rf"}); err == nil {
		t.Error("a tool that there is not was called")
	}
	var lines []struct {
		Tool  string `json:"tool"`
		Phase string `json:"phase"`
	}
	if err := d.operator.Do(t.Context(), "GET", "/audit?limit=100", nil, &lines); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range lines {
		if l.Tool == "Read" || l.Tool == "Bash" {
			n++
		}
	}
	if n < 4 {
		t.Errorf("the record has %d lines of these calls: %v", n, lines)
	}
}

func pushes(to string) string {
	return fmt.Sprintf(`{"command": "git push --force origin %s; echo after the push"}`, to)
}

// What the user of a client answers is no approval: accept waits, decline ends the call, and only the queue decides.
func TestM24_TheClientsAnswerIsNoApproval(t *testing.T) {
	d := newDaemon(t, "")
	for _, way := range mcpWays {
		t.Run(way.String(), func(t *testing.T) {
			version := way.String()
			asked, action := make(chan string, 8), make(chan string, 8)
			s := d.mcpBy(t, way, &mcp.ClientOptions{
				Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}},
				ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked <- r.Params.Message
					select {
					case a := <-action:
						return &mcp.ElicitResult{Action: a}, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				},
			})
			call := func(to string) chan *mcp.CallToolResult {
				out := make(chan *mcp.CallToolResult, 1)
				go func() {
					r, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "Bash", Arguments: json.RawMessage(pushes(to))})
					if err != nil {
						t.Error(err)
					}
					out <- r
				}()
				return out
			}

			accepted := call("one" + version)
			if q := <-asked; !strings.Contains(q, "approves nothing") || !strings.Contains(q, "sandboxd approvals") {
				t.Errorf("the user is told %q", q)
			}
			action <- "accept"
			d.waiting(1)
			select {
			case r := <-accepted:
				t.Fatalf("the client's answer let the call run: %s", mcpText(r))
			default:
			}
			d.settle(true)
			if r := <-accepted; r.IsError || !strings.Contains(mcpText(r), "after the push") {
				t.Errorf("after the approval: %s", mcpText(r))
			}

			declined := call("two" + version)
			<-asked
			action <- "decline"
			if r := <-declined; !r.IsError || !strings.Contains(mcpText(r), "declined") {
				t.Errorf("declined: %s", mcpText(r))
			}
			d.settle(true) // the question stays, and nobody waits for its answer

			refused := call("three" + version)
			<-asked
			d.settle(false)
			if way != mcpWays[0] {
				action <- "accept" // it looks at the queue again; over HTTP the question may stay open
			}
			if r := <-refused; !r.IsError {
				t.Errorf("refused by a person: %s", mcpText(r))
			}
		})
	}
}

// settle answers the one question that waits, and nothing else.
func (d *running) settle(yes bool) {
	d.t.Helper()
	in := map[string]any{"approved": yes}
	if err := d.operator.Do(context.Background(), "POST", "/approvals/"+d.waiting(1)[0].ID, in, nil); err != nil {
		d.t.Fatal(err)
	}
}
