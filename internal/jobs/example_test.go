package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/jobs"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

type program struct{ sandbox.Proc }

func (program) Apart() bool             { return false }
func (program) Sweep() []sandbox.Denial { return nil }

func Example() {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	all, err := jobs.Open(context.Background(), jobs.Options{
		Dir: dir, Config: jobs.Defaults(), Publish: func(events.Event) {}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	call := tool.NewCall(tool.Request{Args: json.RawMessage(`{"command":"npm run dev"}`)})
	call.Session = tool.Session{ID: "s", Account: "a"}
	call.In.Args = call.Request.Args
	job, err := all.Open(call, false) // by the request path
	if err != nil {
		panic(err)
	}
	job.Started(program{})     // by the tool
	job.Detach(func(error) {}) // the caller is answered
	fmt.Fprintln(job.Output(), "listening")
	for _, j := range all.List(jobs.Caller{Account: "a"}) {
		fmt.Println(j.Command, j.State, j.Printed)
	}
	// Output:
	// npm run dev running 10
}
