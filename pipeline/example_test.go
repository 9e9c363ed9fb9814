package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// upper touches nothing but its arguments.
type upper struct{}

func (upper) Spec() tool.Spec {
	return tool.Spec{Name: "Upper", Class: tool.ClassState, ReadOnly: true, Schema: json.RawMessage(
		`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`,
	)}
}

func (upper) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (upper) Run(_ context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	var args struct{ Text string }
	err := json.Unmarshal(in.Args, &args)
	return tool.Output{Text: strings.ToUpper(args.Text)}, err
}

// noCage runs no programs; upper needs none. The record and the meter only print.
type (
	noCage struct{ sandbox.Backend }
	noBox  struct{ sandbox.Box }
	record struct{}
	meter  struct{}
	stage  struct{ *hooks.Registry }
)

func (noCage) Probe() sandbox.Report { return sandbox.Report{} }
func (noCage) Box(context.Context, string, sandbox.Profile, guard.Settings) (sandbox.Box, error) {
	return noBox{}, nil
}
func (b noBox) Judged(egress.Judge) sandbox.Box { return b }
func (noBox) Ledger() egress.Ledger             { return egress.Ledger{} }
func (b noBox) As(sandbox.User) sandbox.Box     { return b }
func (noBox) Report() sandbox.Report            { return sandbox.Report{} }
func (noBox) Close() error                      { return nil }

func (record) Begin(_ context.Context, c *tool.Call) error {
	fmt.Println("begin", c.Spec.Name, c.Decision.Verdict)
	return nil
}

func (record) End(_ context.Context, c *tool.Call) error {
	fmt.Println("end", c.Result.Status)
	return nil
}
func (meter) Stage(string, time.Duration) {}
func (meter) Done(*tool.Call)             {}
func (stage) Posts() bool                 { return false }

func (stage) Basis(context.Context, *tool.Call) (string, error) { return "", nil }

func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, sessions.Schema(), vars.Schema(), approvals.Schema())
	must(err)
	defer db.Close()
	tools := catalog.NewRegistry(catalog.Group{Name: "text", Tools: []tool.Tool{upper{}}})
	tools.SetDefaults(catalog.Defaults{AllGroups: true})
	judge, err := policy.New(ctx, policy.Options{})
	must(err)
	none, err := hooks.New(hooks.Options{})
	must(err)
	people, err := approvals.New(ctx, db, approvals.Options{})
	must(err)
	defer people.Close("the example ends")
	kept := sessions.New(db, sessions.Options{})
	_, err = kept.Create(ctx, tool.Session{ID: "s1", Account: "default-admin", Dir: "/", Mode: tool.ModeAuto})
	must(err)
	quiet := slog.New(slog.DiscardHandler)

	p := pipeline.New(pipeline.Options{
		Sessions: kept, Tools: tools, Vars: vars.New(db, vars.Options{Log: quiet}), Hooks: stage{none},
		Policy: judge, Approvals: people, Record: record{}, Meter: meter{}, Backend: noCage{},
		Workspaces: tool.Workspace{Roots: []string{"/"}}, Log: quiet,
	})
	result := p.Do(ctx, tool.Request{
		Account: "default-admin", Role: tool.RoleAgent, Session: "s1", Tool: "Upper",
		Args: json.RawMessage(`{"text": "hello"}`),
	})
	fmt.Println(result.FormattedText)
	// Output:
	// begin Upper allow
	// end SUCCESS
	// HELLO
}
