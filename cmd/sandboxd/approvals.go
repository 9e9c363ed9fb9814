package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// approvalsCmd returns the command by which a person answers questions: one at a time from a shell, or all of them
// on a terminal.
func approvalsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "approvals",
		Short: "Answer the calls that wait for a person",
		Long: `A call that needs a person waits until somebody answers it here. The answer
holds for what was shown: if the arguments, a file, the mode or a policy changes
before the call runs, sandboxd asks again. These commands use the operator
socket.`,
	}
	c.AddCommand(approvalsListCmd(), approvalsShowCmd(), approvalsApproveCmd(), approvalsDenyCmd(),
		approvalsAnswerCmd(), approvalsWatchCmd(), approvalsGrantsCmd(), approvalsRevokeCmd())
	return c
}

// operatorQueue returns the queue of the daemon that the environment names.
func operatorQueue() review.Queue { return review.NewQueue(client.New(operatorSocket())) }

func approvalsListCmd() *cobra.Command {
	var status string
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the questions that wait", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			items, err := operatorQueue().List(cmd.Context(), status)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), items)
			}
			return review.PrintItems(cmd.OutOrStdout(), items, time.Now())
		},
	}
	c.Flags().StringVar(&status, "status", "pending", "pending, approved, refused, expired, cancelled or all")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func approvalsShowCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show ID", Short: "Show everything that is known about one question", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			item, err := operatorQueue().Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), item)
			}
			_, err = io.WriteString(raw(cmd), review.Render(item, time.Now(), screenOf(cmd)))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func approvalsApproveCmd() *cobra.Command {
	var d review.Answer
	var args string
	c := &cobra.Command{
		Use: "approve ID", Short: "Let a call run, or a result go to the model", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			d.Approved, d.Args = true, json.RawMessage(args)
			return decideAndSay(cmd, ids[0], d)
		},
	}
	c.Flags().StringVar(
		&d.Remember, "remember", approvals.RememberOnce,
		"how long equal calls run without a question: once, session or always",
	)
	c.Flags().StringVar(&args, "args", "", "run with these arguments instead (JSON object); sandboxd judges them again")
	return c
}

func approvalsDenyCmd() *cobra.Command {
	var d review.Answer
	c := &cobra.Command{
		Use: "deny ID", Short: "Refuse a call or a result", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error { return decideAndSay(cmd, ids[0], d) },
	}
	c.Flags().StringVar(&d.Reason, "reason", "", "the reason, which the model is told")
	c.Flags().StringVar(
		&d.Remember, "remember", approvals.RememberOnce,
		"how long equal calls are refused without a question: once, session or always",
	)
	return c
}

func approvalsAnswerCmd() *cobra.Command {
	return &cobra.Command{
		Use: "answer ID TEXT", Short: "Answer a question of the model (AskUser)", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return decideAndSay(cmd, args[0], review.Answer{Approved: true, Reason: args[1]})
		},
	}
}

func decideAndSay(cmd *cobra.Command, id string, d review.Answer) error {
	item, err := operatorQueue().Decide(cmd.Context(), id, d)
	if err != nil {
		return err
	}
	what := review.Clip(visible.Text(review.Summary(item)), 60)
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", item.ID, item.Status, what)
	if item.Waiting == 0 && err == nil {
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), review.Gone)
	}
	return err
}

func approvalsWatchCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show questions when they come and answer each with one key",
		Long: `Shows each new question and takes one key for the answer: y allows the call once,
s for the session, a always; n refuses it, and you can type a reason; e edits the
arguments, as text over several lines. j and k go to the next and the previous
question, and ? says what the keys do. q leaves; the questions then wait on.

With --json it prints one line {"event", "item"} for each change and reads answers
from stdin, as lines {"id", "approved", "reason", "remember", "args"}.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api := operatorQueue()
			if asJSON {
				return review.WatchJSON(cmd.Context(), api, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			return review.Watch(cmd.Context(), api, os.Stdin, os.Stdout)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print changes and read answers as JSON lines")
	return c
}

func approvalsGrantsCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "grants", Short: "List the remembered answers", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			grants, err := operatorQueue().Grants(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), grants)
			}
			return review.PrintGrants(cmd.OutOrStdout(), grants)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func approvalsRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "revoke GRANT", Short: "Forget a remembered answer, so that the next such call asks again",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := operatorQueue().Revoke(cmd.Context(), args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s revoked\n", args[0])
			return err
		},
	}
}

// allowCmd returns the command that changes the list of directories in which agents may work.
func allowCmd() *cobra.Command {
	var list, remove, asJSON bool
	c := &cobra.Command{
		Use:   "allow [DIR]",
		Short: "Let agents work in a directory (operator)",
		Long: `Lets agents work in DIR, or in the current directory: sessions may start there and
below, and may write there and in no other project. A running daemon takes the
change at once. Where none runs, the next one has it.

A link is resolved, and the directory that it leads to is allowed. The whole system,
a home, what belongs to another user and what holds files of sandboxd itself cannot
be allowed.

With --remove the directory is taken back: calls that run there are ended, waiting
questions of such calls are withdrawn, and sessions there are refused until it is
allowed again. With --list the directories are printed; one that cannot be used, for
it was moved or removed, begins with "!".`,
		Example: `  cd ~/src/project && sandboxd allow
  sandboxd allow --list
  sandboxd allow --remove ~/src/project`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				if len(args) > 0 {
					return usageError{errors.New("--list takes no directory")}
				}
				return listProjects(cmd, asJSON)
			}
			dir, err := filepath.Abs(append(args, ".")[0])
			if err != nil {
				return err
			}
			p := allowing(dir)
			if remove {
				p = removing(dir)
			}
			a, running, err := p.make(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), a)
			}
			fmt.Fprintln(cmd.OutOrStdout(), p.said(a, remove))
			if !running && !remove {
				fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: hint: no daemon runs;", client.StartHint())
			}
			return nil
		},
	}
	c.Flags().BoolVar(&list, "list", false, "print the directories that are allowed")
	c.Flags().BoolVar(&remove, "remove", false, "take the directory back")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("list", "remove")
	return c
}

// change is one change of this list.
type change struct {
	dir, route string
	do         func(l *projects.List, dir, by string, record projects.Record) (projects.Answer, error)
}

func allowing(dir string) change { return change{dir, "/projects", (*projects.List).Allow} }

func removing(dir string) change { return change{dir, "/projects/remove", (*projects.List).Remove} }

// make asks the daemon for the change. If no daemon runs, it changes the list itself.
func (c change) make(ctx context.Context) (a projects.Answer, running bool, err error) {
	err = client.New(operatorSocket()).Do(ctx, http.MethodPost, c.route, map[string]string{"dir": c.dir}, &a)
	if err == nil || !nobodyListens() {
		return a, true, err
	}
	site, err := daemon.Load(version, nil)
	if err != nil {
		return a, false, err
	}
	a, err = site.ChangeProjects(ctx, func(l *projects.List, record projects.Record) (projects.Answer, error) {
		return c.do(l, c.dir, fmt.Sprintf("uid:%d", os.Getuid()), record)
	})
	return a, false, err
}

// nobodyListens reports whether no daemon listens on the operator socket. If this user may not connect, a daemon
// does.
func nobodyListens() bool {
	conn, err := net.Dial("unix", operatorSocket())
	if err == nil {
		conn.Close()
		return false
	}
	return !errors.Is(err, os.ErrPermission)
}

// said returns the text about the result of the change.
func (c change) said(a projects.Answer, remove bool) string {
	name := visible.Text(a.Dir)
	if a.Dir != c.dir {
		name += ", which is where " + visible.Text(c.dir) + " leads,"
	}
	switch {
	case remove && a.Ended > 0:
		return fmt.Sprintf("%s is taken back; %d calls there were ended", name, a.Ended)
	case remove:
		return name + " is taken back"
	case a.Change:
		return name + " is allowed"
	case a.In != a.Dir:
		return fmt.Sprintf("%s was allowed before, as a part of %s", name, visible.Text(a.In))
	}
	return name + " was allowed before"
}

func listProjects(cmd *cobra.Command, asJSON bool) error {
	var all []projects.Status
	err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodGet, "/projects", nil, &all)
	if err != nil && nobodyListens() {
		var site *daemon.Site
		if site, err = daemon.Load(version, nil); err == nil {
			all, err = site.Projects()
		}
	}
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), all)
	}
	if len(all) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: hint: nothing is allowed; allow a directory with:",
			tool.CommandLine("sandboxd", "allow", "DIR"))
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DIRECTORY\tALLOWED\tBY\t")
	for _, p := range all {
		note := ""
		if p.Problem != "" {
			note = "! " + p.Problem
		}
		visible.Row(w, p.Dir, p.Allowed.Local().Format(time.DateTime), p.By, note)
	}
	return w.Flush()
}
