package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/daemon"
)

// configCmd returns the command that shows and checks the configuration.
func configCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show and check the configuration",
		Long: `The configuration is one YAML file. SANDBOXD_CONFIG or --config names it. Without a
file the default values hold, and the daemon serves what sandboxd allow allowed.
docs/configuration.md lists every key.`,
	}
	overrideFlags(c)
	c.AddCommand(configShowCmd(), configCheckCmd(), configEnvCmd())
	return c
}

func configShowCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show", Short: "Print every effective value and where it came from", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			site, err := daemon.LoadFile(version, "", flagsOf(cmd))
			if err != nil {
				return err
			}
			c := site.Config
			if asJSON {
				return printJSON(cmd.OutOrStdout(), c.Explain())
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "KEY\tFROM\tVALUE")
			for _, v := range c.Explain() {
				// The values come last, because lists of paths are long.
				fmt.Fprintf(w, "%s\t%s\t%s\n", v.Key, v.From, v.Value)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func configEnvCmd() *cobra.Command {
	return &cobra.Command{
		Use: "env", Short: "Print the places of the sockets, for a shell to read", Args: cobra.NoArgs,
		Example: `  eval "$(sandboxd config env)"
  curl --unix-socket "$SANDBOXD_SOCKET" http://x/status`,
		Long: `Prints what clients need, and no more. A shell with SANDBOXD_STATE_DIR would look for the
key of the record beside that directory too, and no longer where the daemon has it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			site, err := daemon.LoadFile(version, "", flagsOf(cmd))
			if err != nil {
				return err
			}
			for _, v := range [][2]string{
				{"SANDBOXD_SOCKET", site.Paths.AgentSocket},
				{"SANDBOXD_OPERATOR_SOCKET", site.Paths.OperatorSocket},
			} {
				// A shell takes all characters in single quotes literally, except a single quote.
				fmt.Fprintf(cmd.OutOrStdout(), "export %s='%s'\n", v[0], strings.ReplaceAll(v[1], "'", `'\''`))
			}
			return nil
		},
	}
}

// checked is the output of config check.
type checked struct {
	File     string    `json:"file"`
	OK       bool      `json:"ok"`
	Error    string    `json:"error,omitempty"`
	Mistakes []mistake `json:"mistakes"`
	Warnings []string  `json:"warnings"`
}

// mistake is one error of a configuration.
type mistake struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

// mistakesOf returns the mistakes that an error joins.
func mistakesOf(err error) []mistake {
	all := []mistake{}
	for _, one := range several(err) {
		m := mistake{Message: one.Error()}
		if e, ok := errors.AsType[*config.Error](one); ok {
			m = mistake{e.File, e.Line, e.Key, e.Err.Error()}
		}
		all = append(all, m)
	}
	return all
}

// idle returns the settings that have no effect. If the host cannot be probed, it leaves out settings that depend on
// the host.
func idle(ctx context.Context, site *daemon.Site) []string {
	backend, err := site.Backend("")
	if err != nil {
		return append(slices.Clone(site.Config.Warnings), "this host was not asked: "+err.Error())
	}
	defer backend.Close()
	return site.Idle(ctx, backend)
}

func configCheckCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check [FILE]", Short: "Check a configuration without starting the daemon",
		Args: cobra.MaximumNArgs(1),
		Long: `Reads FILE, or else the file that --config or SANDBOXD_CONFIG names, as the daemon
does, and compiles its policies. It names every mistake, each with its line.
Settings that have no effect, by themselves or on this host, are warnings; one that
never has any is an error. The exit status is 1 when the daemon could not start
with it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			answer := checked{Warnings: []string{}}
			site, err := daemon.CheckFile(cmd.Context(), version, append(args, "")[0], flagsOf(cmd))
			if err == nil {
				answer.File, answer.Warnings = site.Config.File, append(answer.Warnings, idle(cmd.Context(), site)...)
			}
			answer.OK, answer.Mistakes = err == nil, mistakesOf(err)
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
