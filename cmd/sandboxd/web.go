package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/web"
)

// webCmd makes a link to the page.
func webCmd() *cobra.Command {
	var as string
	var asJSON, open bool
	c := &cobra.Command{
		Use: "web", Short: "Print a link to the page on which people answer and watch",
		Long: `Print a link that logs in once, within a minute, on the page of the daemon. The page
is off until web.listen says where it listens, such as 127.0.0.1:3456; docs/web.md says
what it shows.`,
		Example: "  sandboxd web --as Ada --open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var made web.Link
			in := map[string]string{"as": cmp.Or(as, os.Getenv("USER"))}
			if err := client.New(operatorSocket()).Do(cmd.Context(), "POST", "/web/links", in, &made); err != nil {
				return err
			}
			if open {
				show := exec.CommandContext(cmd.Context(), "xdg-open", made.URL)
				show.Stderr = cmd.ErrOrStderr()
				if err := show.Run(); err != nil {
					return fmt.Errorf("open the link: %w", err)
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), made)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), made.URL)
			return err
		},
	}
	c.Flags().StringVar(&as, "as", "", "name of the person, which answers carry (default: $USER)")
	c.Flags().BoolVar(&open, "open", false, "open it in a browser, by xdg-open")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
