package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/undo/ask"
)

// loneExec is the flag --exec of commands about changes.
type loneExec struct{ on bool }

func (l *loneExec) flag(c *cobra.Command) {
	c.Flags().BoolVar(&l.on, "exec", false, "of what sandboxd exec ran in this directory without a daemon")
}

// said is the flag as a person types it.
func (l *loneExec) said() string {
	if l.on {
		return " --exec"
	}
	return ""
}

// open opens whom the flag names.
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

// session is the session that the command is about.
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
