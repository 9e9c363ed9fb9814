package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/audit"
	"github.com/sandboxd/sandboxd/store"
)

// auditCmd reads the record from the state directory; no daemon is needed.
func auditCmd(place func() (audit.Options, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show and check the record of every call and decision",
	}
	cmd.AddCommand(auditTailCmd(place), auditVerifyCmd(place))
	return cmd
}

func auditTailCmd(place func() (audit.Options, error)) *cobra.Command {
	var lines int
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the newest lines",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := place()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			show := func(line []byte) error { return printEntry(out, line) }
			if asJSON {
				show = func(line []byte) error { _, err := out.Write(line); return err }
			}
			err = audit.Tail(cmd.Context(), o.Path(), lines, follow, show)
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("no record in %q yet", o.Dir)
			}
			return err
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", 20, "how many lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more")
	cmd.Flags().BoolVar(&asJSON, "json", false, "the lines as they are recorded")
	return cmd
}

func printEntry(w io.Writer, line []byte) error {
	var e audit.Entry
	if err := json.Unmarshal(line, &e); err != nil {
		_, err := fmt.Fprintf(w, "(not a line of the log: %d bytes)\n", len(line))
		return err
	}
	words := []string{e.Event, e.Tool, e.Verdict, e.Status, strings.Join(e.Rules, ","), e.ErrorCode}
	if a := e.Approval; a != nil {
		answer := "refused"
		if a.Approved {
			answer = "approved"
		}
		words = append(words, answer+" by "+a.By)
	}
	words = append(words, e.Session, e.Call, e.Message)
	var shown []string
	for _, word := range words {
		if word != "" {
			// A name of the model's making must not move the cursor of a terminal.
			shown = append(shown, strings.Trim(fmt.Sprintf("%q", word), `"`))
		}
	}
	_, err := fmt.Fprintf(w, "%s %6d  %s\n", e.Time.Local().Format(time.DateTime), e.Seq, strings.Join(shown, "  "))
	return err
}

func auditVerifyCmd(place func() (audit.Options, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the record is what was written",
		Long: "Check every line against its hash, the line before, the signed checkpoints and\n" +
			"what the database knows. The first bad line is named. A last line that a crash\n" +
			"cut short is reported and no failure: it is accounted for at the next start.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := place()
			if err != nil {
				return err
			}
			rep, err := verifyAudit(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := printReport(cmd.OutOrStdout(), rep, asJSON); err != nil {
				return err
			}
			if rep.Bad != nil {
				return fmt.Errorf("audit line %d: %s", rep.Bad.Line, rep.Bad.Reason)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "the report as JSON")
	return cmd
}

func verifyAudit(ctx context.Context, o audit.Options) (audit.Report, error) {
	path := filepath.Join(o.Dir, "state.db")
	if _, err := os.Stat(path); err != nil {
		// Opening would make an empty one, against which anything is cut off or new.
		return audit.Report{}, fmt.Errorf("verify audit log: the database is not there: %w", err)
	}
	db, err := store.Open(ctx, store.Options{Path: path}, audit.Schema())
	if err != nil {
		return audit.Report{}, err
	}
	rep, err := audit.Verify(ctx, o, audit.NewMirror(db))
	return rep, errors.Join(err, db.Close())
}

func printReport(w io.Writer, rep audit.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(rep)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "good lines\t%d\n", rep.Lines)
	fmt.Fprintf(t, "signed checkpoints\t%d\n", rep.Checkpoints)
	fmt.Fprintf(t, "known to the database\t%d\n", rep.Mirrored)
	if rep.TornBytes > 0 {
		fmt.Fprintf(t, "torn by a crash\t%d bytes of line %d\n", rep.TornBytes, rep.Lines+1)
	}
	return t.Flush()
}
