package main

import (
	"fmt"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// docsCmd writes what packagers install; make man calls it.
func docsCmd() *cobra.Command {
	c := &cobra.Command{Use: "docs", Short: "Write generated documents", Hidden: true}
	man := &cobra.Command{
		Use: "man DIR", Short: "Write the man pages into a directory", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			epoch := time.Unix(0, 0).UTC() // the same pages from every build
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(
				cmd.Root(), &doc.GenManHeader{Section: "1", Source: "sandboxd " + version, Date: &epoch}, args[0],
			)
		},
	}
	openapi := &cobra.Command{
		Use: "openapi", Short: "Print the OpenAPI document of the HTTP interface", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := daemon.OpenAPI()
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			}
			return err
		},
	}
	page := &cobra.Command{
		Use: "tools", Short: "Print the page that describes the tools", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), toolsPage())
			return err
		},
	}
	c.AddCommand(man, openapi, page)
	return c
}
