package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/sandboxd/sandboxd/internal/agents"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, sessions.Schema())
	must(err)
	defer db.Close()
	kept := sessions.New(db, sessions.Options{})
	_, err = kept.Create(ctx, tool.Session{ID: "s1", Account: "a", Dir: "/src", Mode: tool.ModeAuto})
	must(err)

	config := agents.Definition().Config().(*agents.Config)
	config.Spawner.Command = []string{"/usr/bin/run-an-agent"}
	p, err := agents.Definition().Open(ctx, part.Host{
		Config: config, Sessions: kept, NewSession: kept.Create, RunAgent: answer,
		Events: &events.Broker{}, Log: slog.New(slog.DiscardHandler),
		Hooked: func(part.Event) bool { return false },
		Model:  func(string) string { return "" },
		Heard:  func(context.Context, string) ([]tool.Origin, error) { return nil, nil },
		Busy:   func(string) map[string]bool { return map[string]bool{"s1": true} },
	})
	must(err)

	in := tool.In{Session: "s1", Account: "a", By: &tool.Identity{}, Args: json.RawMessage(
		`{"prompt": "where are the tests?", "description": "find tests", "subagent_type": "Explore"}`,
	)}
	out, err := p.Groups[0].Tools[0].Run(ctx, in, nil)
	must(err)
	fmt.Println(out.Text)

	list := func() []agents.Agent { // GET /agents
		r := httptest.NewRequest("GET", "/agents", nil)
		all, err := p.Routes[0].Handle(r.WithContext(route.WithCaller(ctx, route.Caller{Account: "a"})))
		must(err)
		return all.([]agents.Agent)
	}
	agent, err := kept.Session(ctx, "a", list()[1].Session)
	must(err)
	p.Ended(&tool.Call{Started: time.Now(), Target: tool.Target{Session: agent}}) // a call that the agent made
	for _, a := range list() {
		fmt.Printf("%q below %q, %s, %d calls\n", a.Agent, a.Parent, a.State, a.Used.Calls)
	}
	// Output:
	// where are the tests? [Read Glob Grep Bash]
	// in tests/
	// [Tools used: Glob]
	// "" below "", running, 0 calls
	// "Explore-1" below "s1", idle, 1 calls
}

// answer is the program that runs agents, which the daemon starts.
func answer(_ context.Context, p tool.AgentProgram) (stdout []byte, stderr string, err error) {
	var order struct {
		Prompt string   `json:"prompt"`
		Tools  []string `json:"allowed_tools"`
	}
	if err := json.Unmarshal(p.Stdin, &order); err != nil {
		return nil, "", err
	}
	fmt.Println(order.Prompt, order.Tools)
	return []byte(`{"text": "in tests/", "tool_calls": ["Glob"]}`), "", nil
}
