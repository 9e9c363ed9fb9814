package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/mcp/serve"
)

// mcpCmd is the bridge between a client of MCP and the daemon.
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
			return face.Stdio(ctx, os.Stdin, os.Stdout) // messages of JSON, and no terminal
		},
	}
	c.AddCommand(mcpConfigCmd(), mcpServersCmd(), mcpPinsCmd(), mcpTryCmd())
	c.Flags().StringVar(&socket, "socket", "", "agent socket of the daemon (default: where it is found)")
	c.Flags().StringVar(&session, "session", "", "session id (default: a new session for the current directory)")
	return c
}

// mcpSession makes a session for the current directory.
func mcpSession(ctx context.Context, api *client.Client) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	var s client.Session
	err = api.Do(ctx, http.MethodPost, "/sessions", map[string]any{"cwd": dir, "tag": "mcp"}, &s)
	return s.ID, err
}
