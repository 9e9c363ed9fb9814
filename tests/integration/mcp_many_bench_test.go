package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkMCPServers is a session with 20 servers of 50 tools, beside a session without servers: a call of a tool that
// is no server's should take 1.05 × as long, and the list of 1,000 tools 50 ms. Seen on two cores with a load of 15: 1.12,
// and 13 ms; the limit of the call finds what is much worse on such a machine. A call of a server in its cage is
// beside one of the daemon and 1.15 of the same server as a plain program. That is printed: one keeps its result.
func BenchmarkMCPServers(b *testing.B) {
	servers := map[string]string{}
	for i := range 20 {
		servers[fmt.Sprintf("s%d", i)] = mcpConfig(b, mcpScript{Count: 50})
	}
	echo := mcpScript{Tools: plainTools("echo")}
	d := newMCP(b, allowMCP, servers)
	s := d.session()
	for name := range servers {
		d.mcpIs(s, name, "connected")
	}
	// In a session of its own: each result is a variable, and ListVars lists them.
	caged := newMCP(b, allowMCP, map[string]string{"one": mcpConfig(b, echo, `"limits":{"callsPerMinute":1000000}`)})
	e := caged.session()
	caged.mcpIs(e, "one", "connected")
	bare := newDaemon(b, "")
	alone := bare.session()
	plain := plainMCP(b, echo)
	times := func(n int, run func()) func() {
		return func() {
			for range n {
				run()
			}
		}
	}
	vars := func(d *running, s string) func() { return func() { d.good(s, "ListVars", `{}`) } }
	bench.Compare(b, []bench.Case{
		{Name: "ListVars", N: 20, Run: times(20, vars(bare, alone))},
		{Name: "ListVars beside 20 servers", N: 20, Run: times(20, vars(d, s))},
		{Name: "list 1,000 tools", N: 20, Run: func() {
			if n := len(d.tools(s)); n < 1000 {
				b.Fatalf("%d tools", n)
			}
		}},
		{Name: "echo of a plain server", N: 20, Run: times(20, plain)},
		{Name: "ListVars and 1.15 echoes", N: 20, Run: func() { times(20, vars(d, s))(); times(23, plain)() }},
		{Name: "echo of a server", N: 20, Run: times(20, func() { caged.good(e, "mcp__one__echo", `{}`) })},
	}, bench.Limit{Case: "ListVars beside 20 servers", Over: "ListVars", AtMost: 1.4},
		bench.Limit{Case: "list 1,000 tools", Over: "ListVars", AtMost: 0.01, Plus: 50 * time.Millisecond},
		bench.Limit{Case: "echo of a server", Over: "ListVars and 1.15 echoes"})
}

// plainMCP is a call of a scripted server that runs as a program like any other.
func plainMCP(b *testing.B, s mcpScript) func() {
	b.Helper()
	script, err := json.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), mcpServer+"="+string(script))
	c, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).
		Connect(context.Background(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return func() {
		r, err := c.CallTool(b.Context(), &mcp.CallToolParams{Name: "echo", Arguments: json.RawMessage(`{}`)})
		if err != nil || r.IsError {
			b.Fatal(r, err)
		}
	}
}
