package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Echo touches nothing and answers with its text.
type Echo struct{}

func (Echo) Spec() tool.Spec {
	return tool.Spec{
		Name: "Echo", ReadOnly: true,
		Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
	}
}

func (Echo) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (Echo) Run(_ context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[struct{ Text string }](in)
	return tool.Output{Text: args.Text}, err
}

func Example() {
	ctx := context.Background()
	var t tool.Tool = Echo{}
	in := tool.In{Args: json.RawMessage(`{"text": "hello"}`)}
	uses, err := t.Uses(ctx, in)
	if err != nil {
		log.Fatal(err)
	}
	in.Judged = uses // what was judged; here nothing is refused
	out, err := t.Run(ctx, in, nil)
	fmt.Println(t.Spec().Name, "touches", len(uses.Paths), "files:", out.Text, err)
	// Output:
	// Echo touches 0 files: hello <nil>
}
