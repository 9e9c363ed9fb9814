package review

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// PrintItems writes one line for each question. Control characters in text of the model are escaped, so it cannot
// break the table.
func PrintItems(out io.Writer, items []approvals.Item, now time.Time) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(out, "no questions")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tLEFT\tTOOL\tWHAT")
	for _, i := range items {
		what := Clip(Summary(i), 60)
		if callerGone(i) {
			what += " (its caller is gone)"
		}
		visible.Row(w, i.ID, i.Status, timeLeft(i, now), i.Tool, what)
	}
	return w.Flush()
}

func timeLeft(i approvals.Item, now time.Time) string {
	if i.Status != approvals.StatusPending {
		return "-"
	}
	return max(i.ExpiresAt.Sub(now), 0).Round(time.Second).String()
}

// PrintGrants writes one line for each remembered answer.
func PrintGrants(out io.Writer, grants []approvals.Grant) error {
	if len(grants) == 0 {
		_, err := fmt.Fprintln(out, "nothing is remembered")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tANSWER\tSCOPE\tUSED\tBY\tUNTIL\tRULE")
	for _, g := range grants {
		answer, scope := "refuse", g.Scope
		if g.Approved {
			answer = "allow"
		}
		if g.SessionID != "" {
			scope += " " + g.SessionID
		}
		rule := fmt.Sprintf("%s %s in %s", g.Tool, g.Args, g.Dir)
		if g.RunsAs != "" {
			rule += " as " + g.RunsAs
		}
		visible.Row(w, g.ID, answer, scope, g.Hits, g.Author, g.ExpiresAt.Format(time.DateTime), rule)
	}
	return w.Flush()
}
