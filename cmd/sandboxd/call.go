package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/runner"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/undo"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// callCmd returns the command that makes one call as an agent.
func callCmd() *cobra.Command {
	var session string
	var asJSON, follow bool
	c := &cobra.Command{
		Use:   "call TOOL JSON",
		Short: "Call a tool through the daemon, as an agent does",
		Long: `Calls one tool. The arguments are a JSON object; - reads them from stdin. Without
--session the call uses the session of this directory, and makes it if there is
none.

On a terminal, what programs print is shown while they do.

A call that needs a person waits, and says on stderr for whom, how long, and which
command answers.

The exit status is 0 when the call ran, 3 when sandboxd denied it before it ran, 4
when a person refused it, or when what it had changed was refused and undone, 1
when it failed. The call of a command that failed did run: with
--exit-status the status is that of the command, as exec has it, or 125 when the
call failed, 126 when it was denied or refused.`,
		Example: `  sandboxd call Bash '{"command": "go test ./... | tail -5"}'
  sandboxd call Read '{"file_path": "README.md", "limit": 5}'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := []byte("{}")
			if len(args) == 2 {
				text = []byte(args[1])
				if args[1] == "-" {
					var err error
					if text, err = io.ReadAll(cmd.InOrStdin()); err != nil {
						return err
					}
				}
			}
			if !json.Valid(text) {
				return usageError{&tool.Error{
					Msg:  "the arguments are not valid JSON",
					Hint: `quote them for your shell: sandboxd call Bash '{"command": "ls"}'`,
				}}
			}
			api := client.New(agentSocket())
			id, err := sessionID(cmd.Context(), api, session)
			if err != nil {
				return err
			}
			live := printer{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
			send := api.Follow
			if !asJSON && onTerminal(cmd) {
				send = api.Stream
			}
			answer, err := send(cmd.Context(), id, args[0], text, live.hear)
			if ctx := cmd.Context(); ctx.Err() != nil && errors.Is(err, context.Canceled) {
				err = &tool.Error{
					Msg:  fmt.Sprintf("the call is cancelled: %v", context.Cause(ctx)),
					Hint: "a call ends with its client; with \"run_in_background\": true it is a job, and goes on",
				}
			}
			if err != nil {
				return err
			}
			r, err := as[tool.Result](answer)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), r)
			} else {
				if live.end(&r) {
					printResult(results(cmd), cmd.ErrOrStderr(), r)
				}
				s := resultStatus(r)
				if r.CallID != "" && (s == exitStatus(exitDenied) || s == exitStatus(exitRejected)) {
					fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: why: sandboxd policy explain", r.CallID)
				}
			}
			if err != nil || !follow {
				return errors.Join(err, resultStatus(r))
			}
			return commandStatus(r)
		},
	}
	c.Flags().StringVar(&session, "session", "", "session id (default: the session of this directory)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the whole answer as JSON")
	c.Flags().BoolVar(&follow, "exit-status", false, "end with the exit status of the command")
	return c
}

// as converts a value between a type of package client and one of this program with the same JSON.
func as[T any](v any) (T, error) {
	var out T
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}

// sessionID returns the named session, or that of the working directory.
func sessionID(ctx context.Context, api *client.Client, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	s, err := api.SessionFor(ctx, dir)
	return s.ID, err
}

// printResult prints the text for the model on out, and on errOut why a call did not run.
func printResult(out, errOut io.Writer, r tool.Result) {
	for _, m := range r.SystemMessages {
		fmt.Fprintln(errOut, "sandboxd: note:", m)
	}
	if u := r.Undo; u != nil && !u.Kept && u.Why != undo.Off {
		fmt.Fprintln(errOut, "sandboxd: note: not all that the call changed can be undone:", u.Why)
	}
	if r.Error == nil {
		fmt.Fprintln(out, r.FinalText)
		return
	}
	msg := r.Error.Msg
	if r.RejectReason != "" {
		msg += ": " + r.RejectReason
	}
	fmt.Fprintf(errOut, "sandboxd: error: %s (%s)\n", msg, r.Error.Code)
	if d := r.Decision; d != nil && d.Verdict == tool.Deny {
		for _, reason := range d.Reasons {
			fmt.Fprintf(errOut, "sandboxd: rule: %s%s: %s\n", reason.Rule, place(reason), reason.Message)
		}
	}
	if r.Error.Hint != "" {
		fmt.Fprintln(errOut, "sandboxd: hint:", r.Error.Hint)
	}
}

func place(r tool.Reason) string {
	if r.At == nil || r.At.Line == 0 {
		return ""
	}
	return fmt.Sprintf(" at line %d, column %d", r.At.Line, r.At.Col)
}

// commandStatus returns the exit status of the command that a call ran. It is 0 for a tool that runs no command.
func commandStatus(r tool.Result) error {
	if resultStatus(r) != nil {
		return failedStatus(r)
	}
	data, _ := r.Data.(map[string]any)
	if code, _ := data["exit_code"].(float64); code != 0 {
		return exitStatus(code)
	}
	return nil
}

// failedStatus returns the exit status for a command that did not run to its end.
func failedStatus(r tool.Result) error {
	if s := resultStatus(r); s == exitStatus(exitDenied) || s == exitStatus(exitRejected) {
		return exitStatus(execRefused)
	}
	return exitStatus(execFailed)
}

// resultStatus returns the exit status for a call, and nil if the call ran.
func resultStatus(r tool.Result) error {
	switch {
	case r.Status == tool.StatusSuccess:
		return nil
	case r.Status == tool.StatusExecutionRejected || r.Status == tool.StatusResultRejected:
		return exitStatus(exitRejected)
	case r.Error != nil && (r.Error.Stage == "judge" || r.Error.Stage == "before"):
		return exitStatus(exitDenied)
	}
	return exitStatus(exitFailed)
}

// The exit statuses of exec that are not those of the command. They are the same as in other runners.
const (
	execFailed   = 125
	execRefused  = 126
	execNotFound = 127
)

// execCmd returns the command that runs one command through the request path in this process, without a daemon.
func execCmd() *cobra.Command {
	var settings, profile, mode, report, call string
	var terminal bool
	c := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARG...]",
		Short: "Judge, confine and run one command, without a daemon",
		Long: `Runs one command; no shell reads its words. It uses the same policies, guard,
sandbox and record as the daemon, and this directory is the workspace. When a
person must decide, it asks on the terminal; without a terminal it refuses the
command.

Output that does not go to a terminal is passed on up to outputBytes: 16 MiB unless
the settings name another limit. The rest is left out, and exec says so; with
outputAction kill the command is ended instead.

With -t the command has a terminal of its own: the keys that you type go there, and
what it draws is shown, without anything that makes your terminal do more. It may run
until it ends, unless the settings limit it.

With --call it runs a command that the daemon judged for the hook of another
agent: once, within 10 minutes, in the same directory, in a sandbox with the
settings of that judgement. Before it runs, the daemon judges it again.

What the command changes is kept, and sandboxd undo --exec puts it back; with --call
nothing is kept.

The exit status is the command's own, or 125 when sandboxd failed, 126 when the
command was refused, 127 when it was not found.`,
		Example: "  sandboxd exec -- npm test",
		Args: func(cmd *cobra.Command, args []string) error {
			if call == "" {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			if len(args) > 0 || settings+profile+mode != "" || terminal {
				return errors.New("--call names what runs and how: only --report may be given with it, and no command")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			x := runner.New(os.Stdin, os.Stdout, os.Stderr)
			if terminal {
				var err error
				if x, err = runner.NewTerminal(os.Stdin, os.Stdout); err != nil {
					complain(cmd.ErrOrStderr(), err)
					return exitStatus(execFailed)
				}
			}
			x.Child = daemon.ChildPath()
			var r tool.Result
			var err error
			if call != "" {
				r, err = runLease(cmd.Context(), x, call, cmd.ErrOrStderr())
			} else {
				o := daemon.StandaloneOptions{
					Settings: settings, Profile: sandbox.Profile(profile), Mode: tool.Mode(mode), Terminal: terminal,
				}
				r, err = daemon.Standalone(cmd.Context(), version, x, &review.Terminal{Err: cmd.ErrOrStderr()}, args, o)
			}
			if err != nil {
				complain(cmd.ErrOrStderr(), err)
				return exitStatus(execFailed)
			}
			if report != "" {
				if err := writeReport(report, r); err != nil {
					complain(cmd.ErrOrStderr(), err)
					return exitStatus(execFailed)
				}
			}
			if r.Sandbox != nil && r.Sandbox.Isolation == "landlock" {
				fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: warning: the command ran without namespaces, "+
					"held by Landlock and seccomp alone (sandboxd doctor says why)")
			}
			if call == "" && r.Undo != nil && !r.Undo.Kept && r.Undo.Why != undo.Off {
				why := visible.Text(r.Undo.Why)
				fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: warning: not everything can be undone:", why)
			}
			return execStatus(cmd.ErrOrStderr(), x, r)
		},
	}
	c.Flags().BoolVarP(&terminal, "tty", "t", false, "give the command a terminal of its own")
	c.Flags().StringVar(&settings, "settings", "", "file with sandbox settings, JSON or YAML, merged over the defaults")
	c.Flags().StringVar(&profile, "profile", "", "sandbox profile: strict or light")
	c.Flags().StringVar(&mode, "mode", "", "permission mode (default: as configured)")
	c.Flags().StringVar(&call, "call", "", "run the call with this id; the daemon has judged it")
	c.Flags().StringVar(&report, "report", "", "write the whole answer as JSON to this file")
	return c
}

func execStatus(errOut io.Writer, x *runner.Program, r tool.Result) error {
	switch {
	case x.Ended != nil && r.Status == tool.StatusSuccess:
		if x.Ended.TimedOut {
			fmt.Fprintln(errOut, "sandboxd: error: the time limit ended the command")
		} else if x.Ended.Limit != "" {
			fmt.Fprintf(errOut, "sandboxd: error: the command reached a limit of the sandbox: %s\n", x.Ended.Limit)
		}
		if x.Ended.Overflow > 0 {
			fmt.Fprintf(errOut, "sandboxd: warning: the command wrote more than %d bytes; the rest was left out; "+
				"limits.outputBytes of --settings sets it\n", x.Ended.Overflow)
		}
		if x.Ended.Code == 0 {
			return nil
		}
		return exitStatus(x.Ended.Code)
	case x.NotStarted != nil:
		complain(errOut, x.NotStarted)
		return exitStatus(x.NotStarted.Code)
	}
	printResult(io.Discard, errOut, r)
	return failedStatus(r)
}

// writeReport replaces the file at the path. It does not write through it, because the command may have put a link
// or a FIFO there.
func writeReport(path string, r tool.Result) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if guard.Within(filepath.Clean(path), "/dev") {
		return os.WriteFile(path, b, 0o600)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".report-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// runLease runs a call that the daemon has judged.
func runLease(ctx context.Context, x *runner.Program, id string, errOut io.Writer) (tool.Result, error) {
	open := &leaseConnections{ended: map[client.Closed]chan struct{}{}}
	start := func(ctx context.Context, call client.Lease) client.LeaseEnd {
		var end tool.LeaseEnd
		l, err := as[tool.Lease](call)
		if err == nil {
			end = x.Leased(ctx, l, open.judge(l.CallID))
		}
		out, bad := as[client.LeaseEnd](end)
		if err = errors.Join(err, bad); err != nil {
			out.Failure = err.Error()
		}
		return out
	}
	answer, err := client.New(agentSocket()).RunLease(ctx, id, start, open.hear(sayWaiting(errOut)))
	if err != nil {
		return tool.Result{}, err
	}
	return as[tool.Result](answer)
}

// leaseConnections asks the daemon about the connections of a call that this process runs.
type leaseConnections struct {
	mu    sync.Mutex
	ended map[client.Closed]chan struct{} // closed when the daemon revokes an allowed destination
}

// judge returns a function that asks the daemon about each connection of a call.
func (l *leaseConnections) judge(id string) egress.Judge {
	return func(ctx context.Context, c egress.Connection) egress.Verdict {
		defer egress.Pause(ctx)()                                    // the daemon may ask a person
		ended := l.opened(client.Closed{Host: c.Host, Port: c.Port}) // first: it may be revoked at once
		v, err := client.New(agentSocket()).LeaseConnects(ctx, id, client.LeaseConnection(c))
		if err != nil {
			return egress.Verdict{Rule: "core.connection", Reason: "the daemon could not be asked: " + err.Error()}
		}
		return egress.Verdict{Allow: v.Allow, Rule: v.Rule, Reason: v.Reason, Hint: v.Hint, Ended: ended}
	}
}

func (l *leaseConnections) opened(at client.Closed) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[at] == nil {
		l.ended[at] = make(chan struct{})
	}
	return l.ended[at]
}

// hear ends connections that the daemon revokes, and passes all other events to next.
func (l *leaseConnections) hear(next func(client.Progress)) func(client.Progress) {
	return func(p client.Progress) {
		if p.Closed == nil {
			next(p)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if ended := l.ended[*p.Closed]; ended != nil {
			close(ended)
			delete(l.ended, *p.Closed)
		}
	}
}
