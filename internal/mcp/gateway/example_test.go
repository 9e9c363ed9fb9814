package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/mcp/gateway"
	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// forecast is a tool of a server in this process, which needs no program and no connection.
type forecast struct{}

func (forecast) Spec() tool.Spec {
	return tool.Spec{Name: "forecast", ReadOnly: true, Schema: json.RawMessage(`{"type":"object"}`)}
}

func (forecast) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (forecast) Run(context.Context, tool.In, sandbox.Box) (tool.Output, error) {
	return tool.Output{Text: "sunny"}, nil
}

func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, kept.Schema())
	must(err)
	defer db.Close()
	config := servers.Defaults()
	config.Servers = map[string]servers.Server{"weather": {
		Type: servers.TypeSDK, SDK: &servers.InProcess{Name: "weather", Version: "1", Tools: []tool.Tool{forecast{}}},
	}}
	must(config.Check())
	p, err := gateway.Definition().Open(ctx, part.Host{
		DB: db, Local: db, Config: config, Events: &events.Broker{}, Log: slog.New(slog.DiscardHandler),
	})
	must(err)
	defer p.Close()

	tools := p.Groups[0].Of // the catalog asks for those of a session
	session := tool.Session{ID: "s1", Account: "a"}
	for len(tools(session)) == 0 { // the first question makes its servers connect
		time.Sleep(time.Millisecond)
	}
	for name, t := range tools(session) {
		out, err := t.Run(ctx, tool.In{}, nil)
		// The server says that the tool only reads, and that makes nothing looser.
		fmt.Println(name, t.Spec().ReadOnly, out.Text, err)
	}
	p.Forget(ctx, session) // it was deleted
	fmt.Println(len(tools(session)))
	// Output:
	// mcp__weather__forecast false sunny <nil>
	// 0
}
