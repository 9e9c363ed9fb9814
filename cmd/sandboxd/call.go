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
	"github.com/sandboxd/sandboxd/tool"
)

// callCmd makes one call, as an agent would.
func callCmd() *cobra.Command {
	var session string
	var asJSON bool
	c := &cobra.Command{
		Use:   "call TOOL JSON",
		Short: "Call a tool through the daemon, as an agent does",
		Long: `Calls one tool with arguments given as a JSON object; - reads them from stdin.
Without --session the call belongs to a session of this directory, which is made
when it is first used. The exit status is 0 when the call ran, 3 when it was
denied, 4 when a person refused it, 1 when it failed.`,
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
				return usageError{&tool.Error{Msg: "the arguments are not valid JSON", Hint: `quote them for your shell: sandboxd call Bash '{"command": "ls"}'`}}
			}
			api := client.New(agentSocketPath())
			id, err := sessionID(cmd.Context(), api, session)
			if err != nil {
				return err
			}
			r, err := api.Call(cmd.Context(), id, args[0], text)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), r)
			} else {
				printResult(cmd.OutOrStdout(), cmd.ErrOrStderr(), r)
			}
			return errors.Join(err, resultStatus(r))
		},
	}
	c.Flags().StringVar(&session, "session", "", "session id (default: a session of this directory)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the whole answer as JSON")
	return c
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
