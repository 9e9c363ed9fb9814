package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/visible"
)

func auditVerifyCmd(place func() (audit.Options, error)) *cobra.Command {
	var asJSON bool
	var anchor string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that nobody changed the record",
		Long: `Checks every line against its hash, the line before it and the signed checkpoints,
and the whole against the database, the head beside the key and the anchor. It
names the first bad line. A crash can cut the last line short. That is reported
and is no failure: the daemon accounts for it when it starts.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := place()
			if err != nil {
				return err
			}
			if anchor != "" {
				if _, err := os.Stat(anchor); err != nil {
					return fmt.Errorf("read the anchor: %w", err)
				}
				o.Anchor.File = anchor
			}
			rep, err := audit.Verify(cmd.Context(), o, audit.MirrorAt(filepath.Join(o.Dir, "state.db")))
			if err != nil {
				return err
			}
			if err := printReport(cmd.OutOrStdout(), rep, asJSON); err != nil {
				return err
			}
			if rep.Bad != nil {
				return fmt.Errorf("audit %v", rep.Bad)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	cmd.Flags().StringVar(&anchor, "anchor", "",
		"file with a head that an anchor has kept, in place of the configured one")
	return cmd
}

func auditAcceptCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Begin again after a file of the record was lost",
		Long: `Makes a record usable again that the daemon refuses: a file of it was lost, moved
away or restored from an older copy. Lines that are in order are continued; a log
that is not is moved aside. What did not fit, what was known of the lines that are
gone, the reason and your uid become a line of the record, which audit verify shows
from then on. The daemon must not run. A database that is damaged has to be moved
away first.`,
		Example: `  sandboxd audit accept --reason "restored from the backup of Monday"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := daemon.Load(version, nil)
			if err != nil {
				return err
			}
			a, err := h.AcceptRecord(cmd.Context(), reason)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "accepted, and recorded in line %d: %s\n", a.Line, a.Problem)
			if a.Moved != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "the log before is in %s\n", a.Moved)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever reads the record (required)")
	_ = cmd.MarkFlagRequired("reason") // there is such a flag
	return cmd
}

func printReport(w io.Writer, rep audit.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(rep)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "good lines\t%d\n", rep.Lines)
	fmt.Fprintf(t, "signed checkpoints\t%d\n", rep.Checkpoints)
	fmt.Fprintf(t, "known to the database\t%d\n", rep.Mirrored)
	fmt.Fprintf(t, "known beside the key\t%d\n", rep.Kept)
	if rep.Anchored > 0 {
		fmt.Fprintf(t, "known to the anchor\t%d\n", rep.Anchored)
	}
	for _, a := range rep.Accepted {
		fmt.Fprintf(t, "accepted in line %d\t%s by %s: %s (%s)\n", a.Line, a.Time.Local().Format(time.DateTime),
			visible.Text(a.By), visible.Text(a.Reason), visible.Text(a.Problem))
	}
	if rep.TornBytes > 0 {
		fmt.Fprintf(t, "torn by a crash\t%d bytes of line %d\n", rep.TornBytes, rep.Lines+1)
	}
	return t.Flush()
}
