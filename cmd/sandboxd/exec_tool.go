package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
)

// execTool runs one argument vector with the streams of this process. The words
// are literal: no shell reads them.
type execTool struct {
	stdin          *os.File
	stdout, stderr io.Writer
	ended          *sandbox.Exit       // how the program ended
	notStarted     *sandbox.StartError // set when it did not start for a reason of its own
}

func (*execTool) Spec() tool.Spec {
	return tool.Spec{
		Name:        "Exec",
		Description: "Run one program with literal arguments.",
		Schema:      json.RawMessage(`{"type": "object", "properties": {"argv": {"type": "array", "items": {"type": "string"}, "minItems": 1}}, "required": ["argv"], "additionalProperties": false}`),
		Class:       tool.ClassExec,
		NoCache:     true,
		Annotations: &tool.Annotations{Destructive: true},
	}
}

func argvOf(in tool.In) ([]string, error) {
	var args struct {
		Argv []string `json:"argv"`
	}
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return nil, err
	}
	if len(args.Argv) == 0 {
		return nil, errors.New("argv is empty")
	}
	return args.Argv, nil
}

func (*execTool) Uses(_ context.Context, in tool.In) (sandbox.Uses, error) {
	argv, err := argvOf(in)
	if err != nil {
		return sandbox.Uses{}, err
	}
	script, err := shellparse.Argv(argv, shellparse.Options{Dir: in.Dir, Home: in.Home})
	if err != nil {
		return sandbox.Uses{}, err
	}
	return sandbox.ScriptUses(script, in.Dir, in.Home), nil
}

func (t *execTool) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	argv, err := argvOf(in)
	if err != nil {
		return tool.Output{}, err
	}
	exit, err := t.start(ctx, argv, in.Dir, box)
	if err != nil {
		return tool.Output{}, err
	}
	text := fmt.Sprintf("exit status %d", exit.Code)
	return tool.Output{Text: text, Data: execData{exit.Code, exit.Why()}, Usage: &exit.Usage, Denials: exit.Denials}, nil
}

// start runs the program to its end.
func (t *execTool) start(ctx context.Context, argv []string, dir string, box sandbox.Box) (sandbox.Exit, error) {
	proc, err := box.Start(ctx, sandbox.Spec{Argv: argv, Dir: dir, Stdin: t.stdin, Stdout: t.stdout, Stderr: t.stderr})
	var exit sandbox.Exit
	if err == nil {
		exit, err = proc.Wait()
	}
	errors.As(err, &t.notStarted)
	if err == nil {
		t.ended = &exit
	}
	return exit, err
}

// execData is what the report and the record hold of the program.
type execData struct {
	ExitCode int    `json:"exit_code"`
	Why      string `json:"ended"`
}

// Ended is for the record: the exit status and a word for it.
func (d execData) Ended() (int, string) { return d.ExitCode, d.Why }
