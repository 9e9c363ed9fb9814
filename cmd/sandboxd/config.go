package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/config"
	"github.com/sandboxd/sandboxd/policy"
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
	overrideFlags(c)
	c.AddCommand(configShowCmd(), configCheckCmd())
	return c
}

func configShowCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show", Short: "Print every effective value and where it came from", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig("", flagsOf(cmd))
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), c.Explain())
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "KEY\tFROM\tVALUE")
			for _, v := range c.Explain() {
				// The values stand last: lists of paths are long.
				fmt.Fprintf(w, "%s\t%s\t%s\n", v.Key, v.From, v.Value)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// checked is the answer of config check.
type checked struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"`
	Error    string   `json:"error,omitempty"`
	Warnings []string `json:"warnings"`
}

func configCheckCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check [FILE]", Short: "Read a configuration as the daemon would, without serving it", Args: cobra.MaximumNArgs(1),
		Long: `Reads the file, or the one that --config or SANDBOXD_CONFIG names, as the daemon
would, and compiles the policies that it names. Exit 1 when it could not be served.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			answer := checked{Warnings: []string{}}
			c, err := loadConfig(cmp.Or(append(args, "")[0], os.Getenv("SANDBOXD_CONFIG")), flagsOf(cmd))
			if err == nil {
				answer.File, answer.Warnings = c.File, append(answer.Warnings, c.Warnings...)
				_, err = policy.New(cmd.Context(), c.Policy.Options())
			}
			answer.OK = err == nil
			if asJSON {
				if err != nil {
					answer.Error = err.Error()
				}
				if encoded := json.NewEncoder(cmd.OutOrStdout()).Encode(answer); encoded != nil {
					return encoded
				}
				return err
			}
			for _, w := range answer.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: warning:", w)
			}
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "ok")
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func loadConfig(file string, flags map[string]string) (*config.Config, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return config.Load(config.Source{File: file, Env: os.Getenv, Flags: flags, Dir: dir})
}
