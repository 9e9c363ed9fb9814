package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/mcp/serve"
)

// standIn answers like a daemon with one session, s1.
type standIn struct {
	mu     sync.Mutex
	tools  string // definitions
	skills string
	events chan string
	calls  func(w http.ResponseWriter, r *http.Request, args json.RawMessage)
}

const oneTool = `[{"name":"Bash","description":"runs","inputSchema":{"type":"object"}}]`

// sse writes one event of a call.
func sse(w http.ResponseWriter, event, data string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
	_ = http.NewResponseController(w).Flush()
}

// start serves on a socket, and returns a client of it.
func (s *standIn) start(dir string) (*client.Client, func(), error) {
	if s.tools == "" {
		s.tools = oneTool
	}
	if s.skills == "" {
		s.skills = `[]`
	}
	s.events = make(chan string)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/sessions/s1/tools", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintf(w, `{"data":%s}`, s.tools)
	})
	mux.HandleFunc("GET /v1/sessions/s1/skills", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintf(w, `{"data":%s}`, s.skills)
	})
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case e := <-s.events:
				if !slices.Contains(r.URL.Query()["type"], e) {
					continue // the daemon sends what was asked for
				}
				sse(w, e, fmt.Sprintf(`{"type":%q,"session_id":"s1"}`, e))
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /v1/sessions/s1/calls", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Args json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.calls(w, r, in.Args)
	})
	socket := filepath.Join(dir, "a.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, nil, err
	}
	srv := &http.Server{Handler: mux}
	go func() { _ = srv.Serve(l) }()
	return client.New(socket), func() { srv.Close() }, nil
}

// face is the stand-in as an MCP server.
func (s *standIn) face(t *testing.T) *serve.Face {
	t.Helper()
	api, stop, err := s.start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	f, err := serve.New(t.Context(), serve.Options{API: api, Session: "s1", Version: "v1", Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// connect is a client of a face, over pipes.
func connect(t *testing.T, f *serve.Face, o *mcp.ClientOptions, version string) *mcp.ClientSession {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Stdio(ctx, in, out); out.Close() }()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	session, err := c.Connect(ctx, &mcp.IOTransport{Reader: fromServer, Writer: toServer},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close(); stop(); toServer.Close(); <-ended })
	return session
}
