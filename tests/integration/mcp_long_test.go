package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// A request that is cancelled, and a client that has gone, end the call in the daemon.
func TestM24_ACancelledCallEnds(t *testing.T) {
	d := newDaemon(t, "")
	running := func(n int) func() bool {
		return func() bool {
			var list []json.RawMessage
			return d.agent.Do(context.Background(), "GET", "/calls", nil, &list) == nil && len(list) == n
		}
	}
	for _, way := range mcpWays {
		ctx, cancel := context.WithCancel(t.Context())
		s := d.mcpBy(t, way, nil)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = s.CallTool(ctx, &mcp.CallToolParams{Name: "Bash", Arguments: json.RawMessage(`{"command":"sleep 300"}`)})
		}()
		if !waitFor(running(1)) {
			t.Fatal("the call does not run")
		}
		cancel()
		if <-ended; !waitFor(running(0)) {
			t.Errorf("%s: a cancelled call runs on", way)
		}
	}
	in, _, gone := d.bridge(t)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
		`"clientInfo":{"name":"raw","version":"1"}}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"sleep 300"}}}`)
	if !waitFor(running(1)) {
		t.Fatal("the call does not run")
	}
	if err := gone(); err != nil || !waitFor(running(0)) {
		t.Errorf("the bridge ended with %v; a call whose client has gone runs on", err)
	}
}

// Progress is told on output, and while a person is asked.
func TestM24_ProgressOfALongCall(t *testing.T) {
	d := newDaemon(t, "")
	for _, way := range mcpWays {
		heard := make(chan string, 64)
		s := d.mcpBy(t, way, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				heard <- r.Params.Message
			},
		})
		p := &mcp.CallToolParams{Name: "Bash", Arguments: json.RawMessage(pushes(way.String()))}
		p.SetProgressToken("t")
		ended := make(chan struct{})
		go func() { defer close(ended); _, _ = s.CallTool(t.Context(), p) }()
		for m := range heard {
			if strings.Contains(m, "sandboxd approvals") {
				break
			}
		}
		d.settle(false)
		<-ended
		p = &mcp.CallToolParams{Name: "Bash", Arguments: json.RawMessage(`{"command":"echo one line; until [ -e go ]; do sleep 0.05; done"}`)}
		p.SetProgressToken("u")
		ended = make(chan struct{})
		go func() { defer close(ended); _, _ = s.CallTool(t.Context(), p) }()
		for m := range heard {
			if strings.Contains(m, "one line") {
				break
			}
		}
		d.write("ws/go", "")
		<-ended
		mcpCall(t, s, "Bash", `{"command": "rm go"}`)
	}
}

// A group that is switched off, and on: the client hears of it and lists again.
func TestM24_ListsThatChangeAreAnnounced(t *testing.T) {
	d := newDaemon(t, "")
	changed := make(chan struct{}, 64)
	var session client.Session
	if err := d.agent.Do(t.Context(), "POST", "/sessions", map[string]any{"cwd": d.ws}, &session); err != nil {
		t.Fatal(err)
	}
	s := d.mcpClient(t, mcpVersions[0], &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	}, "--session", session.ID)
	has := func() bool {
		r, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(r.Tools, func(x *mcp.Tool) bool { return x.Name == "WebFetch" })
	}
	for _, on := range []bool{false, true} {
		path := "/sessions/" + session.ID + "/groups/web"
		if err := d.operator.Do(t.Context(), "PUT", path, map[string]any{"enabled": on}, nil); err != nil {
			t.Fatal(err)
		}
		for has() != on {
			<-changed
		}
	}
}

// The bridge outlives a daemon that restarts: its session is still there.
func TestM24_TheBridgeOutlivesARestart(t *testing.T) {
	d := newDaemon(t, "")
	s := d.mcpClient(t, mcpVersions[0], nil)
	mcpCall(t, s, "WriteVar", `{"name": "kept", "value": "yes"}`)
	d.stop(os.Interrupt)
	if r := mcpCall(t, s, "ReadVar", `{"name": "kept"}`); !r.IsError || !strings.Contains(mcpText(r), "no daemon answers") {
		t.Errorf("without a daemon: %s", mcpText(r))
	}
	d.start()
	if r := mcpCall(t, s, "ReadVar", `{"name": "kept"}`); r.IsError || !strings.Contains(mcpText(r), "yes") {
		t.Errorf("with the next daemon: %s", mcpText(r))
	}
}
