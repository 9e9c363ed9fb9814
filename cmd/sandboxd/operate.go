package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
)

// reloadCmd makes the daemon read its configuration again.
func reloadCmd() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Make the daemon read its configuration again (operator)", Args: cobra.NoArgs,
		Long: `Reads the whole configuration again and puts it in force for new calls; those
that run finish under the old one. A configuration that cannot be used changes
nothing, and neither does one that needs a restart; both are told here.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := client.New(approvalsSocket()).Do(cmd.Context(), http.MethodPost, "/reload", nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "configuration loaded")
			return nil
		},
	}
}

// stopAllCmd ends everything now.
func stopAllCmd() *cobra.Command {
	return &cobra.Command{
		Use: "stop-all", Short: "End every call and the daemon, now (operator)", Args: cobra.NoArgs,
		Long: `Cancels every call of every account, ends all they started, refuses every
question that waits, and ends the daemon. Nothing has a grace. Under a service
manager that opens the sockets, stop those as well, or the next call starts the
daemon again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out struct {
				Cancelled int `json:"cancelled"`
			}
			if err := client.New(approvalsSocket()).Do(cmd.Context(), http.MethodPost, "/stop-all", nil, &out); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the daemon stops; cancelled %d calls\n", out.Cancelled)
			return nil
		},
	}
}
