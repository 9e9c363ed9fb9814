package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/whatif"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/replay"
)

// window is how far back recorded calls are replayed.
type window struct{ text string }

func (w *window) add(c *cobra.Command) {
	c.Flags().StringVar(&w.text, "since", "7d", "look at the recorded calls of this time, such as 90m, 12h or 7d")
}

// since returns the start of the window. It is an error if decisions are not kept for so long.
func (w *window) since(cmd *cobra.Command, site *daemon.Site) (time.Time, error) {
	d, err := parseSpan(w.text)
	if err != nil {
		return time.Time{}, usageError{fmt.Errorf("--since %q: %w", w.text, err)}
	}
	if kept := site.Config.Policy.KeepDecisions; d > kept {
		if cmd.Flags().Changed("since") {
			return time.Time{}, usageError{fmt.Errorf("--since %s: decisions are kept for %s (policy.keepDecisions)",
				w.text, span(kept))}
		}
		d, w.text = kept, span(kept)
	}
	return time.Now().Add(-d), nil
}

// parseSpan parses a duration such as 90m or 7d.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 10_000 {
			return 0, errors.New("want a number of days, such as 7d")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errors.New("want a time such as 90m, 12h or 7d")
	}
	return d, nil
}

func span(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.String()
}

// instead returns the configuration. If directories are given, they replace policy.dirs.
func (f *policyFlags) instead(dirs []string) (*daemon.Site, error) {
	site, err := f.site(nil)
	if err != nil || len(dirs) == 0 {
		return site, err
	}
	site.Config.Policy.Dirs = nil
	for _, d := range dirs {
		abs, err := filepath.Abs(d)
		if err != nil {
			return nil, err
		}
		site.Config.Policy.Dirs = append(site.Config.Policy.Dirs, abs)
	}
	return site, nil
}

func policyReplayCmd() *cobra.Command {
	var f policyFlags
	var w window
	var asJSON, all bool
	c := &cobra.Command{
		Use: "replay [DIR...]", Short: "Judge recorded calls by other policies, and list what flips",
		Long: `Judges the calls that the daemon recorded by the policies of the configuration, with
DIR for policy.dirs and with the flags on top, and lists the calls that would be
judged otherwise, with counts by rule. Without DIR the directories stay.

Each call is judged by the code that judges every call, over what was recorded of it:
the input, what the sandbox settings, the tool, hooks, policy.canUseTool and the
sandbox said then, and what ran before it, for rules that count. Nothing is run or
asked. A call that cannot be judged exactly is counted with the reason.

The calls are read from the state directory; a daemon may be running.`,
		Example: "  sandboxd policy replay --since 7d ./policies\n  sandboxd policy replay --deny 'Bash(git push *)'",
		RunE: func(cmd *cobra.Command, args []string) error {
			site, err := f.instead(args)
			if err != nil {
				return err
			}
			since, err := w.since(cmd, site)
			if err != nil {
				return err
			}
			report, err := whatif.Replay(cmd.Context(), site.ReplayOptions(), since, site.Recorded)
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), report); err != nil {
					return err
				}
			} else if report.Calls+len(report.Unknown) > 0 {
				whatif.PrintReplay(cmd.OutOrStdout(), report, "as they were", all)
			}
			return nothingJudged(report, w.text)
		},
	}
	f.add(c)
	w.add(c)
	c.Flags().BoolVar(&all, "all", false, "name every call that flips")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// nothingJudged returns an error if a replay has judged no call.
func nothingJudged(r replay.Report, since string) error {
	if r.Calls > 0 {
		return nil
	}
	if len(r.Unknown) > 0 {
		return fmt.Errorf("no recorded call of the last %s can be judged again", since)
	}
	return &tool.Error{
		Code: "nothing_recorded", Msg: "no call of the last " + since + " is recorded",
		Hint: "calls are recorded when they have ended; --since looks further back",
	}
}

func policyDiffCmd() *cobra.Command {
	var w window
	var asJSON, all bool
	c := &cobra.Command{
		Use: "diff A [B]", Short: "Say in words how two sets of policies differ, and what flips",
		Args: cobra.RangeArgs(1, 2),
		Long: `A and B are directories, each in place of policy.dirs, or configuration files. With
one of them, it is compared with the configuration as it is. Prints which rules were
added, removed and changed, by package, which settings differ, and which recorded
calls A and B judge differently.`,
		Example: "  sandboxd policy diff /etc/sandboxd/policies ./policies\n  sandboxd policy diff new.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			f := policyFlags{cmd: cmd}
			own, err := f.site(nil)
			if err != nil {
				return err
			}
			sides := []*daemon.Site{own}
			for _, arg := range args {
				site, err := policiesAt(arg)
				if err != nil {
					return err
				}
				sides = append(sides, site)
			}
			sides = sides[len(sides)-2:]
			d, err := diff(cmd, sides[0], sides[1], &w, own)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), d)
			}
			d.Print(cmd.OutOrStdout(), all)
			return nil
		},
	}
	w.add(c)
	c.Flags().BoolVar(&all, "all", false, "name every call that flips")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// policiesAt returns the policies of a directory or of a configuration file.
func policiesAt(arg string) (*daemon.Site, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return daemon.LoadFile(version, arg, nil)
	}
	var f policyFlags
	return f.instead([]string{arg})
}

// diff prints how the policies of a and b differ for the recorded calls of own.
func diff(cmd *cobra.Command, a, b *daemon.Site, w *window, own *daemon.Site) (d whatif.Difference, err error) {
	if d.Changes, err = policy.Diff(cmd.Context(), a.ReplayOptions(), b.ReplayOptions()); err != nil {
		return d, err
	}
	since, err := w.since(cmd, own)
	if err != nil {
		return d, err
	}
	return d, d.Compare(cmd.Context(), a.ReplayOptions(), b.ReplayOptions(), since, own.Recorded)
}

func policySuggestCmd() *cobra.Command {
	var f policyFlags
	var w window
	var least int
	var asJSON bool
	c := &cobra.Command{
		Use: "suggest", Short: "Propose rules from the questions that people answered alike", Args: cobra.NoArgs,
		Long: `Looks at the questions that people answered and proposes the narrowest rules that
would have answered them the same way: a permission rule where only the mode asked,
or where the answer was no; Rego with an exception for exactly these commands where
another rule asked. Each is tried on the recorded calls, and what else it would change
is shown. Nothing is put in force: copy what you want into the configuration.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if least < 2 {
				return usageError{fmt.Errorf("--least %d: want 2 or more", least)}
			}
			site, err := f.site(nil)
			if err != nil {
				return err
			}
			since, err := w.since(cmd, site)
			if err != nil {
				return err
			}
			s, err := whatif.Suggest(cmd.Context(), site.ReplayOptions(), least, since, site.Recorded)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), s)
			}
			whatif.PrintSuggested(cmd.OutOrStdout(), s, w.text)
			return nil
		},
	}
	f.add(c)
	w.add(c)
	c.Flags().IntVar(&least, "least", 3, "how many questions must have been answered alike")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func policyShadowCmd() *cobra.Command {
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use: "shadow", Short: "Show where the policies of policy.shadow differ from those in force (operator)",
		Args: cobra.NoArgs,
		Long: `The running daemon judges every call by the policies in policy.shadow too, beside
those in force. They decide nothing. Prints how often they differ, by which rules, what
they could not judge, and the newest calls about which they differ.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > 100 {
				return usageError{fmt.Errorf("-n %d: want 1 to 100", limit)}
			}
			var r policy.ShadowReport
			path := "/policies/shadow?limit=" + strconv.Itoa(limit)
			if err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodGet, path, nil, &r); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			if r.Revision == "" && r.Failure == "" && r.Total == 0 {
				return &tool.Error{
					Code: "no_shadow", Msg: "no policies judge in the shadow",
					Hint: "policy.shadow names a directory with them",
				}
			}
			whatif.PrintShadow(cmd.OutOrStdout(), r)
			return nil
		},
	}
	c.Flags().IntVarP(&limit, "limit", "n", 20, "how many calls to name")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// liveExplain asks the running daemon to explain its judgement: of a recorded call by its id, or of a described
// call.
type liveExplain struct {
	session         string
	nearest, asJSON bool
}

// isCallID reports whether an argument is the id of a call and not a directory with policies.
func isCallID(arg string) bool { return strings.HasPrefix(arg, "call_") }

// past prints how a call was judged, and how the daemon would judge it now.
func (l liveExplain) past(cmd *cobra.Command, id string) error {
	rec, err := whatif.Past(cmd.Context(), client.New(operatorSocket()), id, l.nearest)
	if err != nil {
		return err
	}
	if l.asJSON {
		return printJSON(cmd.OutOrStdout(), rec)
	}
	whatif.PrintPast(cmd.OutOrStdout(), rec)
	return nil
}

// described explains a command line, or {"tool", "args"} given as text or on stdin.
func (l liveExplain) described(cmd *cobra.Command, line, text string) error {
	call, err := whatif.Described(line, text, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if call.Session, err = l.in(cmd.Context()); err != nil {
		return err
	}
	call.Nearest = l.nearest
	x, err := call.Ask(cmd.Context(), client.New(operatorSocket()))
	if err != nil {
		return err
	}
	if l.asJSON {
		return printJSON(cmd.OutOrStdout(), x)
	}
	whatif.PrintExplanation(cmd.OutOrStdout(), x)
	return nil
}

// in returns the named session, or that of the working directory.
func (l liveExplain) in(ctx context.Context) (string, error) {
	return sessionID(ctx, client.New(agentSocket()), l.session)
}
