package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Program runs one argument vector with the streams of this process. The words
// are literal: no shell reads them. It runs one program, and is used by one
// goroutine.
type Program struct {
	Child      string              // launcher for Leased; empty is this executable itself
	Ended      *sandbox.Exit       // how the program ended; nil until it did
	NotStarted *sandbox.StartError // set when the program could not be started for a reason of its own

	terminal       *terminal // nil: the streams are those of this process
	stdin          *os.File
	stdout, stderr io.Writer
}

// New returns the tool for a program that reads and writes these files. From then
// on, writing to a reader that has gone is an error in this process and not its end.
func New(stdin, stdout, stderr *os.File) *Program {
	t := &Program{stdin: stdin}
	t.stdout, t.stderr = streams(stdout, stderr)
	return t
}

// Spec returns the spec of the tool Exec, which no model is offered.
func (*Program) Spec() tool.Spec {
	return tool.Spec{
		Name:        "Exec",
		Description: "Run one program with literal arguments.",
		Schema: json.RawMessage(`{"type": "object", "required": ["argv"], "additionalProperties": false,
			"properties": {"argv": {"type": "array", "items": {"type": "string"}, "minItems": 1}}}`),
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

// Uses says what the argument vector would touch.
func (*Program) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	argv, err := argvOf(in)
	if err != nil {
		return guard.Uses{}, err
	}
	script, err := shellparse.Argv(argv, shellparse.Options{Dir: in.Dir, Home: in.Home})
	if err != nil {
		return guard.Uses{}, err
	}
	return in.Rules.ScriptUses(script, in.Dir), nil
}

// Run runs the program in box to its end. Its output goes to the streams; the result
// holds the exit status.
func (t *Program) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	argv, err := argvOf(in)
	if err != nil {
		return tool.Output{}, err
	}
	exit, err := t.start(ctx, sandbox.Spec{Argv: argv, Dir: in.Dir}, box)
	if err != nil {
		return tool.Output{}, err
	}
	text := fmt.Sprintf("exit status %d", exit.Code)
	return tool.Output{Text: text, Data: data{exit.Code, exit.Why()}, Usage: &exit.Usage, Denials: exit.Denials}, nil
}

// start runs a program with the streams of this process to its end.
func (t *Program) start(ctx context.Context, s sandbox.Spec, box sandbox.Box) (sandbox.Exit, error) {
	var exit sandbox.Exit
	var err error
	if t.terminal != nil {
		exit, err = t.terminal.start(ctx, s, box)
	} else {
		exit, err = t.startHere(ctx, s, box)
	}
	errors.As(err, &t.NotStarted)
	if err == nil {
		t.Ended = &exit
	}
	return exit, err
}

func (t *Program) startHere(ctx context.Context, s sandbox.Spec, box sandbox.Box) (sandbox.Exit, error) {
	s.Stdin, s.Stdout, s.Stderr = t.stdin, t.stdout, t.stderr
	proc, err := box.Start(ctx, s)
	if err != nil {
		return sandbox.Exit{}, err
	}
	return proc.Wait()
}

// data is what the report and the record hold of the program.
type data struct {
	ExitCode int    `json:"exit_code"`
	Why      string `json:"ended"`
}

// Ended is for the record: the exit status and a word for it.
func (d data) Ended() (int, string) { return d.ExitCode, d.Why }
