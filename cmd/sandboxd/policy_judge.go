package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
)

// policyCall says which calls a command judges, and what cannot be known of them without
// a daemon.
type policyCall struct {
	command, dir, home, confined, recent string
	mode                                 tool.Mode
}

func (p *policyCall) add(c *cobra.Command) {
	c.Flags().StringVarP(
		&p.command, "command", "c", "", "judge this command line (default: read calls as JSON from stdin)",
	)
	c.Flags().StringVar((*string)(&p.mode), "mode", "", "permission mode (default: the configuration's)")
	c.Flags().StringVar(&p.dir, "cwd", "", "directory of the session, in a workspace (default: the first workspace)")
	c.Flags().StringVar(&p.home, "home", "", "home directory of the caller (default: yours)")
	c.Flags().StringVar(&p.recent, "recent", "", "what was counted before the call, as the JSON of input.recent")
	c.Flags().StringVar(&p.confined, "confined", "", "true or false: programs run confined (default: ask this host)")
}

// offline opens the request path of the configuration, with the flags.
func (p *policyCall) offline(cmd *cobra.Command, f *policyFlags, dirs []string) (*daemon.Offline, error) {
	if p.mode != "" && !p.mode.Valid() {
		return nil, fmt.Errorf("%q is not a permission mode: want one of %v", p.mode, tool.Modes)
	}
	o := daemon.OfflineOptions{Home: p.home}
	if p.confined != "" {
		yes, err := strconv.ParseBool(p.confined)
		if err != nil {
			return nil, fmt.Errorf("--confined %q: want true or false", p.confined)
		}
		o.Confined = &yes
	}
	if p.dir != "" {
		abs, err := filepath.Abs(p.dir)
		if err != nil {
			return nil, err
		}
		o.Dir = abs
	}
	site, err := f.site(nil)
	if err != nil {
		return nil, err
	}
	if o.Policies, err = more(site.Config.Policy.Dirs, dirs); err != nil {
		return nil, err
	}
	return site.Offline(cmd.Context(), o)
}

// each reads the calls: the command line, or JSON values until the end of stdin.
func (p *policyCall) each(stdin io.Reader, judge func(policy.Example) error) error {
	if p.command != "" {
		return p.one(p.command, judge)
	}
	dec := json.NewDecoder(stdin)
	for n := 0; ; n++ {
		var raw any
		err := dec.Decode(&raw)
		if n > 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return usageError{errors.New(
				`no call was given: name one with -c 'git push', or write {"tool", "args"} to stdin`)}
		}
		if err != nil {
			return fmt.Errorf("read a call from stdin: %w", err)
		}
		if err := p.one(raw, judge); err != nil {
			return err
		}
	}
}

// one reads a call, to which the flags add what it does not say itself.
func (p *policyCall) one(raw any, judge func(policy.Example) error) error {
	call, ok := raw.(map[string]any)
	if !ok {
		call = map[string]any{"command": raw}
	}
	if p.recent != "" && call["recent"] == nil {
		var counted any
		if err := json.Unmarshal([]byte(p.recent), &counted); err != nil {
			return fmt.Errorf("--recent: %w", err)
		}
		call["recent"] = counted
	}
	x, err := policy.NewExample(call)
	if err != nil {
		return err
	}
	x.Mode = cmp.Or(x.Mode, p.mode)
	return judge(x)
}

func policyEvalCmd() *cobra.Command {
	var f policyFlags
	var p policyCall
	c := &cobra.Command{
		Use: "eval [DIR...]", Short: "Print the decision about calls as JSON",
		Long: `Judges as policy explain does without a daemon, and prints only the decision. Stdin
may hold several calls, one JSON value after the other; each has its answer, in order.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.explainAll(cmd, &f, args, false, func(x policy.Explanation) error {
				return printJSON(cmd.OutOrStdout(), x.Decision)
			})
		},
	}
	f.add(c)
	p.add(c)
	return c
}

// explainAll judges every call and hands the answers on.
func (p *policyCall) explainAll(cmd *cobra.Command, f *policyFlags, dirs []string, nearest bool,
	show func(policy.Explanation) error,
) error {
	judge, err := p.offline(cmd, f, dirs)
	if err != nil {
		return err
	}
	defer judge.Close()
	return p.each(cmd.InOrStdin(), func(e policy.Example) error {
		x, err := judge.Explain(cmd.Context(), e, nearest)
		if err != nil {
			return err
		}
		return show(x)
	})
}

func policyExplainCmd() *cobra.Command {
	var f policyFlags
	var p policyCall
	var asJSON, nearest, live bool
	var session string
	c := &cobra.Command{
		Use: "explain [CALL-ID | JSON | DIR...]", Short: "Say why a call is allowed, asked about or denied",
		Long: `Prints what the rules found about a call, which rule decided and where it is, what
the call would lose, publish or change elsewhere, and a small change after which it
would be allowed.

CALL-ID is the id of a call that the daemon judged; the result of the call and the
audit have it. JSON is {"tool", "args"}. For both, the running daemon judges as
for a real call, over the operator socket; it runs the hooks before the call and
nothing else. With --live it does so for --command, or for JSON from stdin.

In every other case no daemon is needed. The call is judged as the first of a new
session: by the same code, with the tools, the sandbox settings and the policies of
the configuration and the policies in DIR. Hooks and policy.canUseTool are not asked.
Stdin may hold several calls, one JSON value after the other.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l := liveExplain{session: session, nearest: nearest, asJSON: asJSON}
			switch {
			case len(args) == 1 && isCallID(args[0]):
				return l.past(cmd, args[0])
			case len(args) == 1 && strings.HasPrefix(args[0], "{"):
				return l.described(cmd, "", args[0])
			case live:
				return l.described(cmd, p.command, "")
			}
			return p.explainAll(cmd, &f, args, nearest, func(x policy.Explanation) error {
				if asJSON {
					return printJSON(cmd.OutOrStdout(), x)
				}
				printExplanation(cmd.OutOrStdout(), x, recordedLine(x.Input))
				return nil
			})
		},
	}
	f.add(c)
	p.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the whole input of the rules")
	c.Flags().BoolVar(&live, "live", false, "ask the running daemon")
	c.Flags().StringVar(&session, "session", "", "with --live: session id (default: a session of this directory)")
	c.Flags().BoolVar(&nearest, "nearest", true, "search for a small change that would be allowed")
	return c
}

func printExplanation(w io.Writer, x policy.Explanation, text string) {
	policy.PrintDecision(w, x.Decision, text)
	printEffects(w, x.Input)
	shown := map[string]bool{}
	for _, r := range x.Decision.Reasons {
		shown[r.Rule] = true
	}
	for _, f := range x.Findings {
		switch {
		case f.Effect == policy.EffectCount:
			fmt.Fprintf(w, "  counted as %s: %s\n", f.ID, f.Message)
		case !shown[f.ID]:
			fmt.Fprintf(w, "  also %s wants %s: %s\n", f.ID, f.Effect, f.Message)
		}
	}
	if x.Note != "" {
		fmt.Fprintf(w, "note: %s\n", x.Note)
	}
	if x.Nearest != "" {
		fmt.Fprintf(w, "it would be allowed %s\n", x.Nearest)
	}
}

func policyBenchCmd() *cobra.Command {
	var f policyFlags
	var p policyCall
	var n int
	c := &cobra.Command{
		Use: "bench [DIR...]", Short: "Measure how long a decision takes",
		Long: `Judges each call --count times, as policy explain does without a daemon: what the call
would touch, the rules, and the sandbox settings.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 {
				return fmt.Errorf("--count %d: want at least 1", n)
			}
			x, err := p.offline(cmd, &f, args)
			if err != nil {
				return err
			}
			defer x.Close()
			return p.each(cmd.InOrStdin(), func(e policy.Example) error {
				took, err := measure(cmd.Context(), x, e, n)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d decisions: median %s, p99 %s, slowest %s\n",
					n, took[n/2], took[n*99/100], took[n-1])
				return err
			})
		},
	}
	f.add(c)
	p.add(c)
	c.Flags().IntVar(&n, "count", 1000, "how many decisions")
	return c
}

// measure judges a call n times, and sorts how long it took.
func measure(ctx context.Context, x *daemon.Offline, e policy.Example, n int) ([]time.Duration, error) {
	judge, err := x.Judge(ctx, e)
	if err != nil {
		return nil, err
	}
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if err := judge(); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took, nil
}
