package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/idspace"
)

// serveCmd runs the daemon.
func serveCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Serves the directories that sandboxd allow has allowed, and the workspaces of the
configuration, on two sockets: agents call tools on one, operators answer and
configure on the other.

The signal TERM or INT ends it. It then takes no new calls, refuses the waiting
questions, and gives running calls api.stopGrace to finish; after that it ends
them with everything that they started. A second signal ends it at once. HUP reads
the configuration again; an invalid one changes nothing.

Started with CAP_SETUID and CAP_SETGID, and not by root, it goes into a user namespace
that has its own ids and those of the accounts, and gives tools the rights of the
account that calls.

For systemd it supports Type=notify, the watchdog and socket activation: see
deploy/sandboxd.service and deploy/sandboxd.socket; sandboxd setup installs them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := daemon.Serve(cmd.Context(), version, flagsOf(cmd), cmd.ErrOrStderr())
			if ended, ok := errors.AsType[idspace.Ended](err); ok {
				return exitStatus(ended)
			}
			return err
		},
	}
	overrideFlags(c)
	return c
}
