package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/approvals"
)

// approvalsCmd is how a person answers: one question at a time from a shell, or
// all of them from a terminal that stays open.
func approvalsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "approvals",
		Short: "Answer the calls that wait for a person",
		Long: `Calls that need a person wait here. An answer binds what was shown: if the
arguments, a file, the mode or a policy changes before the call runs, it is
asked again. These commands talk to the operator socket.`,
	}
	c.AddCommand(approvalsListCmd(), approvalsShowCmd(), approvalsApproveCmd(), approvalsDenyCmd(),
		approvalsAnswerCmd(), approvalsWatchCmd(), approvalsGrantsCmd(), approvalsRevokeCmd())
	return c
}

func approvalsListCmd() *cobra.Command {
	var status string
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the questions that wait", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			items, err := newApprovalsAPI().list(cmd.Context(), status)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), items)
			}
			return printItems(cmd.OutOrStdout(), items, time.Now())
		},
	}
	c.Flags().StringVar(&status, "status", "pending", "pending, approved, refused, expired, cancelled or all")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printItems(out io.Writer, items []approvals.Item, now time.Time) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(out, "no questions")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tLEFT\tTOOL\tWHAT")
	for _, i := range items {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", i.ID, i.Status, timeLeft(i, now), safeLine(i.Tool), clip(safeLine(summary(i)), 60))
	}
	return w.Flush()
}

func timeLeft(i approvals.Item, now time.Time) string {
	if i.Status != approvals.StatusPending {
		return "-"
	}
	return max(i.ExpiresAt.Sub(now), 0).Round(time.Second).String()
}

func approvalsShowCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show ID", Short: "Show one question with everything known about it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			item, err := newApprovalsAPI().get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), item)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), renderItem(item, time.Now(), screen{width: 80, colour: isTerminal(os.Stdout)}))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func approvalsApproveCmd() *cobra.Command {
	var d approvalDecision
	var args string
	c := &cobra.Command{
		Use: "approve ID", Short: "Let a call run, or a result go to the model", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			d.Approved, d.Args = true, json.RawMessage(args)
			return decideAndSay(cmd, ids[0], d)
		},
	}
	c.Flags().StringVar(&d.Remember, "remember", approvals.RememberOnce, "once, session or always: whether equal calls run without asking")
	c.Flags().StringVar(&args, "args", "", "run with these arguments instead (JSON object); they are judged again")
	return c
}

func approvalsDenyCmd() *cobra.Command {
	var d approvalDecision
	c := &cobra.Command{
		Use: "deny ID", Short: "Refuse a call or a result", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error { return decideAndSay(cmd, ids[0], d) },
	}
	c.Flags().StringVar(&d.Reason, "reason", "", "tell the model why, so that it can do better")
	c.Flags().StringVar(&d.Remember, "remember", approvals.RememberOnce, "once, session or always: whether equal calls are refused without asking")
	return c
}

func approvalsAnswerCmd() *cobra.Command {
	return &cobra.Command{
		Use: "answer ID TEXT", Short: "Answer a question of the model (AskUser)", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return decideAndSay(cmd, args[0], approvalDecision{Approved: true, Reason: args[1]})
		},
	}
}

func decideAndSay(cmd *cobra.Command, id string, d approvalDecision) error {
	item, err := newApprovalsAPI().decide(cmd.Context(), id, d)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", item.ID, item.Status, clip(safeLine(summary(item)), 60))
	return err
}

func approvalsGrantsCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "grants", Short: "List the answers that are remembered", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			grants, err := newApprovalsAPI().grants(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), grants)
			}
			return printGrants(cmd.OutOrStdout(), grants)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printGrants(out io.Writer, grants []approvals.Grant) error {
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
			scope += " " + safeLine(g.SessionID)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", g.ID, answer, scope, g.Hits, safeLine(g.Author),
			g.ExpiresAt.Format(time.DateTime), safeLine(fmt.Sprintf("%s %s in %s", g.Tool, g.Args, g.Dir)))
	}
	return w.Flush()
}

func approvalsRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "revoke GRANT", Short: "Forget a remembered answer: the next such call asks again", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := newApprovalsAPI().revoke(cmd.Context(), args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s revoked\n", args[0])
			return err
		},
	}
}
