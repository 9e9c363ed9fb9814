package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// callCmd makes one call, as an agent would.
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

The exit status is 0 when the call ran, 3 when sandboxd denied it, 4 when a person
refused it, 1 when it failed. The call of a command that failed did run: with
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

// as turns a value of the client into what the rest of this program uses, or back:
// both have the same JSON.
func as[T any](v any) (T, error) {
	var out T
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}

// sessionID is the session named, or the one of the working directory.
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

// printResult prints what the model would read on stdout, and why a call did not
// run on stderr.
func printResult(out, errOut io.Writer, r tool.Result) {
	for _, m := range r.SystemMessages {
		fmt.Fprintln(errOut, "sandboxd: note:", m)
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

// commandStatus is the exit status of the command that a call ran; a tool that runs no
// command has 0.
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

// failedStatus is the exit status where a command did not run to its end.
func failedStatus(r tool.Result) error {
	if s := resultStatus(r); s == exitStatus(exitDenied) || s == exitStatus(exitRejected) {
		return exitStatus(execRefused)
	}
	return exitStatus(execFailed)
}

// resultStatus is the exit status of a call; nil when it ran.
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
