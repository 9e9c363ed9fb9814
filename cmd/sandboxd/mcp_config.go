package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/adapter"
	"github.com/sandboxd/sandboxd/internal/paths"
)

// mcpConfigCmd prints or writes the entry that makes a client start the bridge.
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

// toldSocket is the socket that the bridge must be told: clients start it without the variables that say where it is.
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
