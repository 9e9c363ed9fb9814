package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/config"
)

// configCmd shows and checks the configuration.
func configCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show and check the configuration",
		Long: `The configuration is one YAML file, named by SANDBOXD_CONFIG or --config; without
one the working directory is served with the defaults. docs/configuration.md has
every key.`,
	}
	c.AddCommand(configShowCmd(), configCheckCmd())
	return c
}

func configShowCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show", Short: "Print every effective value and where it came from", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := loadHouse()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), h.cfg.Explain())
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "KEY\tVALUE\tFROM")
			for _, v := range h.cfg.Explain() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", v.Key, v.Value, v.From)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func configCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Read a configuration as the daemon would, without serving it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			c, err := config.Load(config.Source{File: args[0], Env: os.Getenv, Dir: dir})
			if err != nil {
				return err
			}
			for _, w := range c.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: warning:", w)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "ok")
			return err
		},
	}
}
