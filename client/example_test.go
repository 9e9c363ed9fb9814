package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// An agent makes a session for its directory and calls a tool in it.
func Example() {
	socket, stop := answering(map[string]string{
		"POST /v1/sessions":           `{"data": {"id": "s1", "cwd": "/work", "mode": "auto"}}`,
		"POST /v1/sessions/s1/calls":  `{"data": {"call_id": "call_1", "status": "SUCCESS", "final_text": "go.mod"}}`,
		"GET /v1/sessions/s1/vars/no": `{"error": {"code": "variable_not_found", "message": "no variable no"}}`,
	})
	defer stop()

	ctx := context.Background()
	c := client.New(socket)
	s, err := c.SessionFor(ctx, "/work")
	if err != nil {
		log.Fatal(err)
	}
	result, err := c.Call(ctx, s.ID, "Bash", json.RawMessage(`{"command": "ls"}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Status, result.FinalText)

	_, err = c.Var(ctx, s.ID, "no")
	if e, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(e.Code)
	}
	// Output:
	// SUCCESS go.mod
	// variable_not_found
}

// A call that needs a person waits for minutes; its caller can say so. An event that
// this version does not know is left out.
func ExampleClient_Follow() {
	const calls = "POST /v1/sessions/s1/calls"
	socket, stop := answering(map[string]string{calls: `event: waiting
data: {"call_id": "call_1", "approval_id": "apr_1", "type": "execution", "expires_at": "2026-11-21T12:05:00Z"}

event: fanfare
data: {"of": "a newer daemon"}

event: begin
data: {"call_id": "call_1", "tool": "Bash"}

event: end
data: {"call_id": "call_1", "status": "SUCCESS", "final_text": "pushed"}

`})
	defer stop()

	args := json.RawMessage(`{"command": "git push --force"}`)
	result, err := client.New(socket).Follow(context.Background(), "s1", "Bash", args, func(p client.Progress) {
		switch {
		case p.Waiting != nil:
			fmt.Println("waiting for", p.Waiting.Approval, "until", p.Waiting.Until.Format(time.TimeOnly))
		case p.Began != nil:
			fmt.Println(p.Began.Tool, "runs")
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Status, result.FinalText)
	// Output:
	// waiting for apr_1 until 12:05:00
	// Bash runs
	// SUCCESS pushed
}

// A program that runs calls itself: POST /decide kept the call, RunLease starts it.
func ExampleClient_RunLease() {
	socket, stop := answering(map[string]string{
		"POST /v1/decide": `{"data": {"call_id": "call_1", "decision": {"verdict": "allow", "reasons": []}}}`,
		"POST /v1/calls/call_1/run": `event: run
data: {"call_id": "call_1", "argv": ["ls"], "cwd": "/work"}

`,
		"POST /v1/calls/call_1/ended": `{"data": {"recorded": true}}`,
		"after": `event: result
data: {"call_id": "call_1", "status": "SUCCESS", "final_text": "exit status 0"}

`,
	})
	defer stop()

	ctx := context.Background()
	c := client.New(socket)
	var kept struct {
		CallID string `json:"call_id"`
	}
	ask := map[string]any{
		"session_id": "s1", "tool": "Bash", "args": map[string]string{"command": "ls"}, "hold": true,
	}
	if err := c.Do(ctx, http.MethodPost, "/decide", ask, &kept); err != nil {
		log.Fatal(err)
	}
	result, err := c.RunLease(ctx, kept.CallID, func(_ context.Context, l client.Lease) client.LeaseEnd {
		fmt.Println("run", l.Argv, "in", l.Dir)
		return client.LeaseEnd{Why: "exited"}
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Status, result.FinalText)
	// Output:
	// run [ls] in /work
	// SUCCESS exit status 0
}

// answering is a daemon on a socket with fixed answers, by method and path. The
// answer "after" goes to whoever runs a call, once the end of it was told.
func answering(answers map[string]string) (socket string, stop func()) {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		log.Fatal(err)
	}
	socket = filepath.Join(dir, "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.Method+" "+r.URL.Path]
		if strings.HasPrefix(answer, "event: ") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		switch r.URL.Path {
		case "/v1/calls/call_1/run":
			io.WriteString(w, answer)
			w.(http.Flusher).Flush()
			<-ended
			answer = answers["after"]
		case "/v1/calls/call_1/ended":
			defer close(ended)
		}
		io.WriteString(w, answer)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	return socket, func() {
		server.Close()
		os.RemoveAll(dir)
	}
}
