package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/whatif"
)

// liveExplain lets the running daemon say why: about a call that it judged, by its
// id, or about one that is described.
type liveExplain struct {
	session         string
	nearest, asJSON bool
}

// isCallID tells the id of a call from a directory with policies.
func isCallID(arg string) bool { return strings.HasPrefix(arg, "call_") }

// past shows what was judged then, and how the daemon would judge it now.
func (l liveExplain) past(cmd *cobra.Command, id string) error {
	rec, err := whatif.Past(cmd.Context(), client.New(operatorSocket()), id, l.nearest)
	if err != nil {
		return err
	}
	if l.asJSON {
		return printJSON(cmd.OutOrStdout(), rec)
	}
	whatif.PrintPast(cmd.OutOrStdout(), rec)
	return nil
}

// described asks about a command line, or {"tool", "args"} as text or from stdin.
func (l liveExplain) described(cmd *cobra.Command, line, text string) error {
	call, err := whatif.Described(line, text, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if call.Session, err = l.in(cmd.Context()); err != nil {
		return err
	}
	call.Nearest = l.nearest
	x, err := call.Ask(cmd.Context(), client.New(operatorSocket()))
	if err != nil {
		return err
	}
	if l.asJSON {
		return printJSON(cmd.OutOrStdout(), x)
	}
	whatif.PrintExplanation(cmd.OutOrStdout(), x)
	return nil
}

// in is the session that is named, or the one of this directory.
func (l liveExplain) in(ctx context.Context) (string, error) {
	return sessionID(ctx, client.New(agentSocket()), l.session)
}
