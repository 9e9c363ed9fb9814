package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/undo/ask"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// undoCmd returns the command that restores what calls changed.
func undoCmd() *cobra.Command {
	var session string
	var last int
	var force, asJSON bool
	var lone loneExec
	c := &cobra.Command{
		Use:   "undo [CALL] [PATH…]",
		Short: "Put back what a call changed",
		Long: `Puts back the files that a call changed: the last one of the session of this directory that
changed something and was not undone, or the call that is named. With --last N the last N
calls are undone, the newest first; with --session all calls of that session. With paths only
these files, and what lies below these directories.

What changed since the call is left as it is, and named; --force restores it all the same, and
needs the operator socket. An undo is a call, and can be undone by its id. Whoever may use the
operator socket is not asked about it; of others a person may be.

With --exec it is about what sandboxd exec ran in this directory without a daemon.

The exit status is 1 if something was left as it is.`,
		Example: `  sandboxd undo
  sandboxd undo --last 3
  sandboxd undo call_XXXXXXXXXXXXXXXXXXXXXXXXXX src/a.go`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, done, err := lone.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			u := ask.Undo{Daemon: agent, Force: force, Flag: lone.said()}
			if !lone.on && (force || operates()) {
				u.Daemon = client.New(operatorSocket())
			}
			ids := []string{}
			if len(args) > 0 && strings.HasPrefix(args[0], "call_") {
				ids, args = append(ids, args[0]), args[1:]
			}
			named, counted := cmd.Flags().Changed("session"), cmd.Flags().Changed("last")
			if last < 1 || len(ids) > 0 && (named || counted) || named && counted {
				return usageError{errors.New("name a call, --last N with N of at least 1, or --session")}
			}
			for _, path := range args {
				path, err := ask.Physical(path)
				if err != nil {
					return err
				}
				u.Paths = append(u.Paths, path)
			}
			if len(ids) == 0 {
				id, err := lone.session(cmd, agent, session)
				if err != nil {
					return err
				}
				most := last
				if named {
					most = 0
				}
				u.Newest = most == 1
				if ids, err = u.Undoable(cmd.Context(), id, most); err != nil {
					return err
				}
			}
			left, err := u.All(cmd.Context(), ids, func(a ask.Answer) error {
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(a)
				}
				u.Print(cmd.OutOrStdout(), a)
				return nil
			})
			if err == nil && left {
				return exitStatus(exitFailed)
			}
			return err
		},
	}
	c.Flags().IntVar(&last, "last", 1, "how many calls")
	c.Flags().StringVar(&session, "session", "", "undo all calls of this session")
	c.Flags().BoolVar(&force, "force", false, "also what changed since (operator)")
	c.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each call")
	lone.flag(c)
	c.AddCommand(undoPurgeCmd())
	return c
}

// operates reports whether this user may use the operator socket.
func operates() bool {
	conn, err := net.Dial("unix", operatorSocket())
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func undoPurgeCmd() *cobra.Command {
	var session string
	var lone loneExec
	c := &cobra.Command{
		Use: "purge", Short: "Remove what is kept for undo, old secrets included (operator)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var gone struct {
				Calls int   `json:"calls"`
				Bytes int64 `json:"bytes"`
			}
			in := map[string]string{}
			if session != "" {
				in["session_id"] = session
			}
			var api ask.Daemon = client.New(operatorSocket())
			if lone.on {
				var done func()
				var err error
				if api, done, err = lone.open(cmd); err != nil {
					return err
				}
				defer done()
			}
			err := api.Do(cmd.Context(), http.MethodPost, "/undo/purge", in, &gone)
			switch out := cmd.OutOrStdout(); {
			case err != nil:
				return err
			case session != "" && gone.Calls == 0:
				fmt.Fprintf(out, "nothing is kept of session %s\n", visible.Text(session))
			default:
				fmt.Fprintf(out, "removed %d calls, %d bytes\n", gone.Calls, gone.Bytes)
			}
			return nil
		},
	}
	c.Flags().StringVar(&session, "session", "", "of this session alone")
	lone.flag(c)
	return c
}

// diffCmd returns the command that shows the changes of a call.
func diffCmd() *cobra.Command {
	var lone loneExec
	c := &cobra.Command{
		Use: "diff CALL", Short: "Show what a call changed", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, done, err := lone.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			diff, err := ask.Diff(cmd.Context(), api, args[0])
			if err == nil {
				_, err = io.WriteString(results(cmd), diff)
			}
			return err
		},
	}
	lone.flag(c)
	return c
}

// changesCmd returns the command that lists the calls of a session that changed files.
func changesCmd() *cobra.Command {
	var session string
	var asJSON bool
	var lone loneExec
	c := &cobra.Command{
		Use: "changes", Short: "List calls of the session of this directory that changed files", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, done, err := lone.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			id, err := lone.session(cmd, api, session)
			if err != nil {
				return err
			}
			found, err := ask.OfSession(cmd.Context(), api, id)
			if err != nil {
				return err
			}
			return showChanges(cmd, found, asJSON)
		},
	}
	c.Flags().StringVar(&session, "session", "", "session id (default: the session of this directory)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	lone.flag(c)
	return c
}

// historyCmd returns the command that lists the calls that changed a file.
func historyCmd() *cobra.Command {
	var asJSON bool
	var lone loneExec
	c := &cobra.Command{
		Use: "history PATH", Short: "List calls that changed a file, or anything in a directory",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := ask.Physical(args[0])
			if err != nil {
				return err
			}
			api, done, err := lone.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			found, err := ask.OfPath(cmd.Context(), api, path)
			if err != nil {
				return err
			}
			return showChanges(cmd, found, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	lone.flag(c)
	return c
}

func showChanges(cmd *cobra.Command, found []ask.Changed, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), found)
	}
	return ask.PrintChanges(cmd.OutOrStdout(), found)
}

// loneExec is the flag --exec of the commands about changes: it selects calls that exec ran without a daemon.
type loneExec struct{ on bool }

func (l *loneExec) flag(c *cobra.Command) {
	c.Flags().BoolVar(&l.on, "exec", false, "of what sandboxd exec ran in this directory without a daemon")
}

// said returns the flag as a person types it, or "".
func (l *loneExec) said() string {
	if l.on {
		return " --exec"
	}
	return ""
}

// open opens the daemon, or the journal of exec if the flag is set.
func (l *loneExec) open(cmd *cobra.Command) (_ ask.Daemon, done func(), err error) {
	if !l.on {
		return client.New(agentSocket()), func() {}, nil
	}
	x, err := daemon.OpenExecStore(cmd.Context(), version, &review.Terminal{Err: cmd.ErrOrStderr()})
	if err != nil {
		return nil, nil, err
	}
	return x, x.Close, nil
}

// session returns the session that the command is about.
func (l *loneExec) session(cmd *cobra.Command, api ask.Daemon, named string) (string, error) {
	switch x := api.(type) {
	case *daemon.ExecStore:
		if named != "" {
			return "", usageError{errors.New("--exec has no sessions")}
		}
		return x.Session(), nil
	case *client.Client:
		return sessionID(cmd.Context(), x, named)
	}
	return "", errors.New("cannot happen: nobody answers")
}
