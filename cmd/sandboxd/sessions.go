package main

import (
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
)

// sessionLine is what the list shows of a session.
type sessionLine struct {
	client.Session
	Title   string    `json:"title"`
	Tag     string    `json:"tag"`
	Updated time.Time `json:"updated_at"`
}

// sessionsCmd looks after sessions.
func sessionsCmd() *cobra.Command {
	c := &cobra.Command{Use: "sessions", Short: "List and change sessions"}
	c.AddCommand(sessionsListCmd(), sessionsModeCmd(), sessionsRemoveCmd())
	return c
}

func sessionsListCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List sessions, the last changed first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var found []sessionLine
			err := client.New(agentSocketPath()).Do(cmd.Context(), http.MethodGet, "/sessions?limit=100&sort_by=updated_at", nil, &found)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), found)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tMODE\tTAG\tDIRECTORY\tCHANGED")
			for _, s := range found {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.ID, s.Mode, safeLine(s.Tag), safeLine(s.Dir), s.Updated.Local().Format(time.DateTime))
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func sessionsModeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "mode ID MODE", Short: "Set the permission mode of a session (operator)", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return client.New(approvalsSocket()).Do(cmd.Context(), http.MethodPatch, "/sessions/"+url.PathEscape(args[0]), map[string]string{"mode": args[1]}, nil)
		},
	}
}

func sessionsRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID", Short: "Delete a session with its variables", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return client.New(agentSocketPath()).Do(cmd.Context(), http.MethodDelete, "/sessions/"+url.PathEscape(args[0]), nil, nil)
		},
	}
}

// statusCmd prints what the daemon says of itself.
func statusCmd() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Print what the daemon says of itself, as JSON", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out map[string]any
			if err := client.New(agentSocketPath()).Do(cmd.Context(), http.MethodGet, "/status", nil, &out); err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), out)
		},
	}
}
