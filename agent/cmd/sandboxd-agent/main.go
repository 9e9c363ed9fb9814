// The command sandboxd-agent works on a task with a model and the tools of a daemon; "models" lists models, "spawn"
// runs one sub-agent. usage.txt lists commands, flags and exit codes, docs/agent.md explains them. A new flag is in
// settings.read, a new command in parse and run, both in usage.txt; what it does is in package loop or host.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandboxd/sandboxd/agent/host"
	"github.com/sandboxd/sandboxd/agent/loop"
	"github.com/sandboxd/sandboxd/agent/provider"
	"github.com/sandboxd/sandboxd/agent/terminal"
	"github.com/sandboxd/sandboxd/client"
)

// version is set by the build.
var version = "dev"

// The exit codes, by how a prompt ends.
var exits = map[string]int{
	loop.Success: 0, loop.ErrorExecution: exitFailed, loop.ErrorMaxTurns: 5, loop.ErrorMaxBudget: 6,
	loop.Cancelled: exitCancelled,
}

const exitFailed, exitUsage, exitCancelled = 1, 2, 130

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	s, err := parse(args, os.Getenv)
	if err != nil {
		complain(err, "sandboxd-agent --help says what there is")
		return exitUsage
	}
	switch s.command {
	case "help":
		_, err = fmt.Print(usage)
		return failed(err)
	case "version":
		_, err = fmt.Println("sandboxd-agent", version)
		return failed(err)
	case "models":
		return failed(models(s.json))
	case "spawn":
		return spawn(s)
	}
	if s.prompt == "" && s.input == "" && !terminal.Is(os.Stdin) {
		complain(errors.New("no prompt"), `sandboxd-agent "what to do", or --input - for one a line`)
		return exitUsage
	}
	return runAgent(s)
}

func complain(err error, hint string) {
	w := terminal.Visible(os.Stderr)
	fmt.Fprintf(w, "sandboxd-agent: error: %v\n", err)
	if failed, ok := errors.AsType[*client.Error](err); ok && failed.Hint != "" {
		hint = failed.Hint
	}
	if hint != "" {
		fmt.Fprintf(w, "sandboxd-agent: hint: %s\n", hint)
	}
}

func models(asJSON bool) error {
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(provider.Models())
	}
	const line = "%-18s $%g in, $%g out a million tokens; %s\n"
	for _, m := range provider.Models() {
		if _, err := fmt.Printf(line, m.Value, m.Price.In, m.Price.Out, m.Description); err != nil {
			return err
		}
	}
	return nil
}

// interrupts cancels a turn at the first signal, and ends the program at the second. Where it is
// not Ctrl-C, and before there are turns, the first cancels everything. The function that it
// returns names the turn that runs now; between turns it is nil, and nothing is to be saved.
func interrupts(all context.CancelFunc) (during func(turn context.CancelFunc)) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // a reader who left is an error of the write
	turns := make(chan context.CancelFunc)
	go func() {
		turn, hit := all, false
		for {
			select {
			case turn = <-turns:
				hit = false
			case sig := <-signals:
				if hit || turn == nil {
					os.Exit(exitCancelled)
				}
				hit = true
				turn()
				if sig != syscall.SIGINT {
					all()
				}
			}
		}
	}()
	return func(turn context.CancelFunc) { turns <- turn }
}

// runAgent works on the prompt of the command line, or on those that are typed.
func runAgent(s settings) int {
	all, cancel := context.WithCancel(context.Background())
	defer cancel()
	during := interrupts(cancel)
	unwritten := func(err error) {
		if all.Err() == nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.EIO) { // nobody reads it
			complain(err, "")
		}
		cancel()
	}
	show := terminal.Lines(terminal.Visible(os.Stdout), unwritten)
	if !s.json {
		show = terminal.People(terminal.Visible(os.Stdout), terminal.Visible(os.Stderr), unwritten)
	}
	a, err := open(all, s)
	if err != nil {
		if s.json {
			show(loop.Result{Subtype: loop.ErrorExecution, Costs: []provider.Cost{}, Errors: []string{err.Error()}})
		}
		return failed(err)
	}
	exit := 0
	typed := s.input == ""
	turn := func(prompt string) loop.Result {
		ctx, end := context.WithCancel(all)
		defer end()
		during(end)
		defer during(nil)
		r := a.Prompt(ctx, prompt, show)
		if exit == 0 || !typed {
			exit = max(exit, exits[r.Subtype])
		}
		return r
	}
	if s.prompt != "" {
		turn(s.prompt)
		return exit
	}
	prompt := func() {}
	if typed {
		prompt = func() { fmt.Fprint(os.Stderr, "sandboxd-agent> ") }
	}
	during(nil)
	for line := range terminal.Input(os.Stdin, prompt, func(err error) { exit = failed(err) }) {
		text := a.Line(line, show)
		if text != "" && turn(text).Cancelled && !typed || all.Err() != nil {
			return exitCancelled
		}
	}
	return exit
}

// open finds the daemon, and opens the session.
func open(ctx context.Context, s settings) (*loop.Agent, error) {
	socket, err := host.Find(ctx, s.choice.Dir, os.Getenv, func(said string) {
		fmt.Fprintln(terminal.Visible(os.Stderr), "sandboxd-agent:", said)
	})
	if err != nil {
		return nil, err
	}
	daemon := client.New(socket)
	session, err := host.Open(ctx, daemon, s.choice)
	if err != nil {
		return nil, err
	}
	return loop.New(daemon, session, s.options)
}

// failed returns the exit code after an error, which it prints, or after none.
func failed(err error) int {
	if err == nil {
		return 0
	}
	complain(err, "")
	return exitFailed
}
