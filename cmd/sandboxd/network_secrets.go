package main

import (
	"cmp"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/secrets"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// secretShown is what is told about a secret: everything but its value.
type secretShown struct {
	Host   string `json:"host"`
	Header string `json:"header"`
	Source string `json:"source"` // file, credential or command
	Name   string `json:"name"`   // of the file, the credential or the program
	Error  string `json:"error,omitempty"`
}

func networkSecretsCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "secrets", Short: "List the secrets that requests get, and whether each can be read",
		Long: `Reads each secret of network.secrets as the daemon does when a request needs it, runs the
programs that print one, and says what is wrong. No value is shown. Credentials of systemd are
in the daemon's unit alone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			site, err := daemon.LoadFile(version, "", flagsOf(cmd))
			if err != nil {
				return err
			}
			reader := &secrets.Reader{Stderr: cmd.ErrOrStderr()}
			list := []secretShown{}
			for _, s := range site.Config.Sandbox.Network.Secrets {
				show := secretShown{Host: s.Host, Header: s.Name(), Source: s.Source(), Name: nameOf(s)}
				if _, err := reader.Value(cmd.Context(), s); err != nil {
					show.Error = err.Error()
				}
				list = append(list, show)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "HOST\tHEADER\tSOURCE\tSTATE")
			for _, s := range list {
				visible.Row(t, s.Host, s.Header, s.Source+" "+s.Name, cmp.Or(s.Error, "ready"))
			}
			return t.Flush()
		},
	}
	overrideFlags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func nameOf(s guard.Secret) string {
	if len(s.Command) > 0 {
		return s.Command[0]
	}
	return cmp.Or(s.File, s.Credential)
}
