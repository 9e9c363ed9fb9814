package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/internal/mcp/serve"
)

func Example() {
	daemon := &standIn{calls: func(w http.ResponseWriter, _ *http.Request, args json.RawMessage) {
		sse(w, "end", `{"status":"SUCCESS","final_text":"hello"}`)
	}}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	api, stop, err := daemon.start(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	ctx := context.Background()
	face, err := serve.New(ctx, serve.Options{API: api, Session: "s1", Version: "v1", Log: quiet()})
	if err != nil {
		log.Fatal(err)
	}
	defer face.Close()
	in, client := io.Pipe()
	go func() {
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
				`"capabilities":{},"clientInfo":{"name":"a client","version":"1"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"echo hello"}}}`,
		} {
			fmt.Fprintln(client, line)
		}
	}()
	if err := face.Stdio(ctx, in, answers{client}); err != nil {
		log.Fatal(err)
	}
	// Output: {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hello"}]}}
}

// answers prints the answer to request 2, and ends the input then.
type answers struct{ client io.Closer }

func (a answers) Write(p []byte) (int, error) {
	if strings.Contains(string(p), `"id":2`) {
		fmt.Print(string(p))
		a.client.Close()
	}
	return len(p), nil
}

func (a answers) Close() error { return nil }
