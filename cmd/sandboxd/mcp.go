package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/adapter"
	"github.com/sandboxd/sandboxd/internal/mcp/gateway"
	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/serve"
	"github.com/sandboxd/sandboxd/internal/mcp/vet"
	"github.com/sandboxd/sandboxd/internal/paths"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// mcpCmd returns the command that serves MCP on its standard streams, as a bridge to the daemon.
func mcpCmd() *cobra.Command {
	var socket, session string
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Give an MCP client the tools of this daemon, over stdin and stdout",
		Long: `Speaks the Model Context Protocol over stdin and stdout, so that any client of it has
the tools of the daemon: judged, confined and recorded. It makes a session for the current
directory, which the client chooses; --session takes one that there is.

A call that needs a person waits, and tells the client so. The client's own answer
approves nothing: sandboxd approvals does.

When stdin ends, what runs is cancelled.`,
		Example: "  claude mcp add sandboxd -- sandboxd mcp",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				socket = agentSocket()
			}
			ctx, api := cmd.Context(), client.New(socket)
			if session == "" {
				var err error
				if session, err = mcpSession(ctx, api); err != nil {
					return err
				}
			}
			face, err := serve.New(ctx, serve.Options{
				API: api, Session: session, Version: version,
				Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
			})
			if err != nil {
				return err
			}
			defer face.Close()
			return face.Stdio(ctx, os.Stdin, os.Stdout) // JSON messages for a program, not text for a terminal
		},
	}
	c.AddCommand(mcpConfigCmd(), mcpServersCmd(), mcpPinsCmd(), mcpTryCmd())
	c.Flags().StringVar(&socket, "socket", "", "agent socket of the daemon (default: where it is found)")
	c.Flags().StringVar(&session, "session", "", "session id (default: a new session for the current directory)")
	return c
}

// mcpSession creates a session for the working directory.
func mcpSession(ctx context.Context, api *client.Client) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	var s client.Session
	err = api.Do(ctx, http.MethodPost, "/sessions", map[string]any{"cwd": dir, "tag": "mcp"}, &s)
	return s.ID, err
}

// mcpConfigCmd returns the command that prints or writes the entry for a client's configuration that starts the
// bridge.
func mcpConfigCmd() *cobra.Command {
	var project, remove bool
	e := adapter.MCPEntry{}
	c := &cobra.Command{
		Use:   "config CLIENT",
		Short: "Print the entry for an MCP client, or put it into its configuration",
		Long: `Prints the entry that makes a client start sandboxd mcp:
` + strings.Join(adapter.MCPClients(), ", ") + `.
With --write it shows the change to the configuration of the client, saves the old file
beside the new one and makes the change. Order, comments and what others wrote stay.

With --remove --write the entry goes. With --project it is in a file of the current
directory, which other people of the project may get, too.`,
		Example: `  sandboxd mcp config claude-code --write
  sandboxd mcp config codex`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: adapter.MCPClients(),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if e.File != "" && project {
				return usageError{errors.New("--file goes without --project")}
			}
			e.Agents, e.Socket = args, toldSocket()
			if e.Exe, err = os.Executable(); err != nil {
				return err
			}
			if project {
				if e.Project, err = os.Getwd(); err != nil {
					return err
				}
			}
			if remove {
				return e.Uninstall(cmd.OutOrStdout())
			}
			if e.Question, err = questionTime(cmd); err != nil {
				return err
			}
			if e.Write {
				return e.Install(cmd.OutOrStdout())
			}
			file, err := e.Print(cmd.OutOrStdout())
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "sandboxd: hint: it belongs into %s; --write puts it there\n", file)
			}
			return err
		},
	}
	c.Flags().BoolVar(&project, "project", false, "the configuration for the current directory, not that of the user")
	c.Flags().StringVar(&e.File, "file", "", "configuration file of the client (default: where the client looks)")
	c.Flags().BoolVar(&e.Write, "write", false, "make the change")
	c.Flags().BoolVar(&remove, "remove", false, "take the entry out")
	return c
}

// toldSocket returns the socket that the entry must name, or "". Clients start the bridge without the variables that
// name the socket.
func toldSocket() string {
	here := agentSocket()
	there := paths.AgentSocket(func(name string) string {
		switch name {
		case "HOME", "USER", "PATH":
			return os.Getenv(name)
		}
		return ""
	})
	if here == there {
		return ""
	}
	return here
}

// mcpServersCmd returns the command that lists the MCP servers of a session.
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

// mcpPinsCmd returns the command that lists the tools that were let in.
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

// mcpTryCmd returns the command that calls a tool of a server.
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

// mcpAnswers waits until a server is not pending any more.
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
