package main

import (
	"fmt"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/mcp/gateway"
	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/vet"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// mcpServersCmd shows the MCP servers of a session.
func mcpServersCmd() *cobra.Command {
	var session string
	var asJSON bool
	c := &cobra.Command{
		Use: "servers", Short: "List the MCP servers of a session, and how they are", Args: cobra.NoArgs,
		Long: `A server is connected, pending, failed, disabled, or needsAuth. A tool that is withheld is
no tool of the session: what it says of itself is not readable, or a person has to let it in with
sandboxd approvals.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api := client.New(agentSocket())
			id, err := sessionID(cmd.Context(), api, session)
			if err != nil {
				return err
			}
			var all []gateway.Status
			if err := api.Do(cmd.Context(), "GET", "/sessions/"+url.PathEscape(id)+"/mcp", nil, &all); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tTYPE\tSTATUS\tTOOLS\tWHY")
			for _, s := range all {
				visible.Row(w, s.Name, s.Type, s.Status, fmt.Sprint(len(s.Tools)), s.Error)
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&session, "session", "", "session id (default: the session of this directory)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// mcpPinsCmd shows what was let in.
func mcpPinsCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "pins", Short: "List what tools of MCP servers said when they were let in", Args: cobra.NoArgs,
		Long: `The pin of a tool is the SHA-256 of its definition. A tool whose definition is another one, or
that came later, is withheld until a person accepts it in sandboxd approvals, with the difference.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []kept.Pinned
			if err := client.New(operatorSocket()).Do(cmd.Context(), "GET", "/mcp/pins", nil, &all); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ACCOUNT\tSERVER\tTOOL\tPIN\tBY\tSINCE")
			for _, p := range all {
				visible.Row(w, p.Account, p.Server, p.Tool, p.Pin[:min(12, len(p.Pin))], p.By,
					p.At.Local().Format(time.DateTime))
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// mcpTryCmd is call for a tool of a server.
func mcpTryCmd() *cobra.Command {
	c := callCmd()
	call := c.RunE
	c.Use, c.Short = "try SERVER TOOL [JSON]", "Call a tool of an MCP server, as an agent calls it"
	c.Long = `The call is judged, confined and recorded like any other. A server that is pending is waited
for. Flags and exit status are those of sandboxd call.`
	c.Example = `  sandboxd mcp try git git_status '{"repo_path": "/repo"}'`
	c.Args = cobra.RangeArgs(2, 3)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		named, err := cmd.Flags().GetString("session")
		if err != nil {
			return err
		}
		api := client.New(agentSocket())
		id, err := sessionID(cmd.Context(), api, named)
		if err != nil {
			return err
		}
		if err := mcpAnswers(cmd, api, id, args[0]); err != nil {
			return err
		}
		return call(cmd, append([]string{vet.Name(args[0], args[1])}, args[2:]...))
	}
	return c
}

// mcpAnswers waits as long as a server is pending.
func mcpAnswers(cmd *cobra.Command, api *client.Client, session, name string) error {
	for {
		var all []gateway.Status
		if err := api.Do(cmd.Context(), "GET", "/sessions/"+url.PathEscape(session)+"/mcp", nil, &all); err != nil {
			return err
		}
		found := false
		for _, s := range all {
			if s.Name != name {
				continue
			}
			if found = true; s.Status == gateway.Connected {
				return nil
			} else if s.Status != gateway.Pending {
				return fmt.Errorf("server %s is %s: %s", name, s.Status, s.Error)
			}
		}
		if !found {
			return fmt.Errorf("session %s has no MCP server %q", session, name)
		}
		select {
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
