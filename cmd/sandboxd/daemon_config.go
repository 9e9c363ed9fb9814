package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// noteConfig says on stderr when a running daemon has read another configuration than this
// command, which needs no daemon and so asks none. Who names one with --config knows.
func noteConfig(cmd *cobra.Command, site *daemon.Site) {
	if f := cmd.Flag("config"); f != nil && f.Changed {
		return
	}
	s, err := statusOfDaemon(cmd)
	if e, ok := toolError(err); ok && e.Code == "daemon_unreachable" {
		return
	}
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: note: which configuration the daemon uses is not known:", err)
		return
	}
	if s.Config.File == site.Config.File {
		return
	}
	theirs, ours, cure := "none", "the defaults", "name none"
	if s.Config.File != "" {
		theirs = visible.Text(s.Config.File)
		cure = "--config " + theirs
		if unix.Access(s.Config.File, unix.R_OK) != nil {
			cure = "this user may not read it"
		}
	}
	if site.Config.File != "" {
		ours = site.Config.File
	}
	if cmd.Flags().Lookup("live") != nil {
		cure += " or --live"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "sandboxd: note: the configuration of the daemon is %s, this used %s: %s\n",
		theirs, ours, cure)
}

// statusOfDaemon asks a running daemon, over the socket that this user may reach.
func statusOfDaemon(cmd *cobra.Command) (s api.Status, err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	if err = client.New(agentSocket()).Do(ctx, http.MethodGet, "/status", nil, &s); err == nil {
		return s, nil
	}
	if client.New(operatorSocket()).Do(ctx, http.MethodGet, "/status", nil, &s) == nil {
		return s, nil
	}
	return s, err
}

// daemonCounts reports whether the command is about the daemon that runs, and not about a
// configuration that somebody named.
func daemonCounts(cmd *cobra.Command) (s api.Status, yes bool) {
	if f := cmd.Flag("config"); f != nil && f.Changed {
		return s, false
	}
	s, err := statusOfDaemon(cmd)
	return s, err == nil
}
