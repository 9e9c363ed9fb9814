package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/doctor"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/sandbox"
)

// doctorCmd tries the forbidden acts in a live sandbox.
func doctorCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show what the sandbox stops on this host, by trying it",
		Long: `Starts a sandbox like that of a call and tries in it what it must stop. The exit
status is 0 when every row with NEEDED yes also has PROVED yes: the forbidden
acts, and the layers that sandbox.require names. The sandbox is one of this user with
the configuration that is named; whether roles are split is asked of the daemon, if
one runs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := examine(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), found)
			} else {
				err = printFindings(cmd.OutOrStdout(), screenOf(cmd), found)
			}
			if doctor.Failed(found) {
				return exitStatus(exitFailed)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// printFindings writes a row for each finding, or two where the terminal is narrow.
func printFindings(out io.Writer, s review.Screen, found []doctor.Finding) error {
	yes := map[bool]string{true: "yes", false: "no"}
	if s.Terminal && s.Width < 80 {
		for _, f := range found {
			needed, proved := yes[f.Needed], yes[f.Proved]
			_, err := fmt.Fprintf(out, "%s: needed %s, proved %s\n  %s\n", f.Layer, needed, proved, f.What)
			if err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LAYER\tNEEDED\tPROVED\tWHAT")
	for _, f := range found {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Layer, yes[f.Needed], yes[f.Proved], f.What)
	}
	return w.Flush()
}

func examine(cmd *cobra.Command) ([]doctor.Finding, error) {
	ctx := cmd.Context()
	site, err := daemon.Load(version, nil)
	if err != nil {
		return nil, err
	}
	if err := site.Here(); err != nil {
		return nil, err
	}
	backend, err := site.Backend("")
	if err != nil {
		return nil, err
	}
	defer backend.Close()
	h := doctor.Host{
		Settings: site.Settings, Profile: site.Config.Profile, Dir: site.Roots[0], RoleSplit: site.RoleSplit(),
		Idle: site.Idle(ctx, backend), TakesRights: sandbox.TakesRights(), Parts: site.Doctor(ctx),
	}
	if s, ok := daemonCounts(cmd); ok { // of which another user is
		h.RoleSplit, h.TakesRights = s.RoleSplit, s.Rights == "caller"
	}
	return doctor.Examine(ctx, backend, h)
}
