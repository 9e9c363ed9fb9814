package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/policy"
)

// reloadCmd makes the daemon read its configuration again.
func reloadCmd() *cobra.Command {
	var in policy.Reload
	c := &cobra.Command{
		Use: "reload", Short: "Make the daemon read its configuration again (operator)", Args: cobra.NoArgs,
		Long: `Reads the whole configuration again. New calls use it; running calls finish under
the old one. A configuration that is invalid, or that needs a restart, changes
nothing: the command then fails and says why.

A daemon that takes the rights of its accounts starts again for new accounts and their
groups if no call runs; the command waits for it. While calls run it says what it lacks.

Where the policies let calls pass that those before them did not, of the recorded
calls, that is said. With policy.guardReload such a reload needs --loosen.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var loaded api.ConfigStatus
			err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodPost, "/reload", in, &loaded)
			if err != nil {
				return err
			}
			said := "configuration loaded: " + visible.Text(loaded.File)
			if loaded.File == "" {
				said = "the daemon has no configuration file: defaults, variables and flags hold"
			}
			fmt.Fprintln(cmd.ErrOrStderr(), said)
			if loaded.Loosens != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "it "+loaded.Loosens.Words())
			}
			return startedAgain(cmd, loaded)
		},
	}
	c.Flags().BoolVar(&in.Loosen, "loosen", false, "let calls pass that did not pass before")
	return c
}

// startedAgain waits for a daemon that starts again for new accounts, or says why it does not.
func startedAgain(cmd *cobra.Command, loaded api.ConfigStatus) error {
	if len(loaded.Lacking) == 0 {
		return nil
	}
	ids := strings.Join(loaded.Lacking, ", ")
	if !loaded.StartsAgain {
		fmt.Fprintln(cmd.ErrOrStderr(), "the daemon must start again for "+ids+", and calls run: "+
			"reload once more when none runs, or restart it, which ends them")
		return nil
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "the daemon starts again for "+ids)
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
	defer cancel()
	for {
		var now api.Status
		err := client.New(operatorSocket()).Do(ctx, http.MethodGet, "/status", nil, &now)
		if err == nil && now.Config.Loaded.After(loaded.Loaded) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("the daemon does not answer since it started again; its log says why"), err)
		case <-time.After(50 * time.Millisecond): // before it opens its sockets there is nothing else to wait for
		}
	}
}

// stopAllCmd ends everything now.
func stopAllCmd() *cobra.Command {
	return &cobra.Command{
		Use: "stop-all", Short: "End every call and the daemon, now (operator)", Args: cobra.NoArgs,
		Long: `Cancels every call of every account, ends everything that they started, refuses
every waiting question, and ends the daemon. Nothing gets time to finish. If a
service manager opens the sockets, stop the sockets as well: otherwise the next
call starts the daemon again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out struct {
				Cancelled int `json:"cancelled"`
			}
			err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodPost, "/stop-all", nil, &out)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the daemon stops; cancelled %d calls\n", out.Cancelled)
			return nil
		},
	}
}
