package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/tool"
)

func policyTestCmd() *cobra.Command {
	var f policyFlags
	var asJSON bool
	var least float64
	c := &cobra.Command{
		Use: "test [DIR...]", Short: "Run examples and _test.rego files, with coverage",
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := f.options(args)
			if err != nil {
				return err
			}
			report, err := policy.Test(cmd.Context(), opts)
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), report); err != nil {
					return err
				}
			} else {
				printTests(cmd.OutOrStdout(), report)
			}
			if report.Failed() {
				return errors.New("policy tests failed")
			}
			for _, c := range report.Coverage {
				if c.Percent < least {
					return fmt.Errorf("%s: %.1f %% covered, want %.1f: lines %v are not run", c.File, c.Percent, least, c.Missing)
				}
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().Float64Var(&least, "min-coverage", 0, "fail when a file has less, in percent")
	return c
}

func printTests(w io.Writer, r policy.TestReport) {
	passed := 0
	for _, t := range r.Tests {
		switch {
		case t.Pass:
			passed++
		case t.Skip:
			fmt.Fprintf(w, "skip %s\n", t.Name)
		default:
			fmt.Fprintf(w, "FAIL %s\n     %s:%d\n", t.Name, t.File, t.Line)
			if t.FailedAt != "" {
				fmt.Fprintf(w, "     not true: %s\n", t.FailedAt)
			}
			if t.Error != "" {
				fmt.Fprintf(w, "     %s\n", t.Error)
			}
		}
	}
	if r.Examples != "" {
		fmt.Fprintf(w, "FAIL examples\n%s\n", r.Examples)
	}
	for _, c := range r.Coverage {
		fmt.Fprintf(w, "%5.1f %%  %s", c.Percent, c.File)
		if len(c.Missing) > 0 {
			fmt.Fprintf(w, "  not run: lines %v", c.Missing)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%d of %d tests passed\n", passed, len(r.Tests))
}

// policyCall is a call that a command judges: a command line, or an example as
// in the metadata of a rule.
type policyCall struct {
	command, mode, dir, home string
}

func (p *policyCall) add(c *cobra.Command) {
	c.Flags().StringVarP(&p.command, "command", "c", "", "judge this command line; without it an example as JSON is read from stdin")
	c.Flags().StringVar(&p.mode, "mode", policy.ModeAuto, "permission mode")
	c.Flags().StringVar(&p.dir, "cwd", "", "working directory of the session")
	c.Flags().StringVar(&p.home, "home", "", "home directory of the caller")
}

func (p *policyCall) call(stdin io.Reader) (*tool.Call, error) {
	if !policy.ValidMode(p.mode) {
		return nil, fmt.Errorf("%q is not a permission mode: want one of %v", p.mode, policy.Modes)
	}
	if p.command != "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		home, _ := os.UserHomeDir() // without one, ~ is unknown to the rules
		return policy.CommandCall(p.command, cmp.Or(p.dir, dir), cmp.Or(p.home, home), p.mode)
	}
	var raw map[string]any
	if err := json.NewDecoder(stdin).Decode(&raw); err != nil {
		return nil, fmt.Errorf("read an example from stdin: %w", err)
	}
	x, err := policy.NewExample(raw)
	if err != nil {
		return nil, err
	}
	x.Mode = cmp.Or(x.Mode, p.mode)
	return x.Call()
}

// load gives the policies of the flags and the call to judge.
func (p *policyCall) load(cmd *cobra.Command, f *policyFlags, dirs []string) (*policy.Engine, *tool.Call, error) {
	e, err := f.engine(cmd, dirs)
	if err != nil {
		return nil, nil, err
	}
	call, err := p.call(cmd.InOrStdin())
	return e, call, err
}

func policyEvalCmd() *cobra.Command {
	var f policyFlags
	var p policyCall
	c := &cobra.Command{
		Use: "eval [DIR...]", Short: "Print the decision about one call as JSON",
		RunE: func(cmd *cobra.Command, args []string) error {
			e, call, err := p.load(cmd, &f, args)
			if err != nil {
				return err
			}
			d, err := e.Decide(cmd.Context(), call)
			if err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), d)
		},
	}
	f.add(c)
	p.add(c)
	return c
}

func policyExplainCmd() *cobra.Command {
	var f policyFlags
	var p policyCall
	var asJSON, nearest, live bool
	var session string
	c := &cobra.Command{
		Use: "explain [CALL-ID | JSON | DIR...]", Short: "Say why a call is judged as it is",
		Long: `Says what was found about a call, which rule decided and where, and the nearest
change after which it would be allowed.

CALL-ID is a call that the daemon judged, as its result and the audit name it;
JSON is {"tool", "args"}. Both ask the running daemon, over the operator socket,
by all that it asks for a real call, and run nothing but hooks before the call.
--live does so with --command or JSON from stdin.

Otherwise no daemon is needed: rules and mode judge, with policies in DIR added;
the sandbox settings and hooks are not asked.`,
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
			e, call, err := p.load(cmd, &f, args)
			if err != nil {
				return err
			}
			d, err := e.Decide(cmd.Context(), call)
			if err != nil {
				return err
			}
			x, err := policy.Explain(d)
			if err != nil {
				return err
			}
			if nearest && !wouldRun(d, call) {
				x.Nearest = p.nearest(cmd.Context(), e, call)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), x)
			}
			printExplanation(cmd.OutOrStdout(), x, p.command)
			return nil
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

// nearest judges each change as a call of its own.
func (p *policyCall) nearest(ctx context.Context, e *policy.Engine, c *tool.Call) string {
	return policy.Nearest(c, func(change policy.Change) bool {
		v := *c
		v.Session.Mode, v.Facts.Mode = change.Mode, change.Mode
		if p.command != "" && string(change.Args) != string(c.In.Args) {
			var args struct {
				Command string `json:"command"`
			}
			if json.Unmarshal(change.Args, &args) != nil {
				return false
			}
			shorter, err := policy.CommandCall(args.Command, c.Session.Dir, c.Session.Home, change.Mode)
			if err != nil {
				return false
			}
			v = *shorter
		}
		d, err := e.Decide(ctx, &v)
		return err == nil && d.Args == nil && wouldRun(d, &v)
	})
}

// wouldRun reports whether the settings answer what only the mode asks: commands
// that run in the sandbox pass with autoAllowBashIfSandboxed (CX-38).
func wouldRun(d tool.Decision, c *tool.Call) bool {
	return d.Verdict == tool.Allow ||
		d.Verdict == tool.Ask && d.By == tool.ByMode && c.Spec.Class == tool.ClassExec && c.Settings.AutoAllowBashIfSandboxed && c.Session.Mode != policy.ModePlan
}

func printExplanation(w io.Writer, x policy.Explanation, text string) {
	policy.PrintDecision(w, x.Decision, text)
	shown := map[string]bool{}
	for _, r := range x.Decision.Reasons {
		shown[r.Rule] = true
	}
	for _, f := range x.Findings {
		if !shown[f.ID] {
			fmt.Fprintf(w, "  also %s wants %s: %s\n", f.ID, f.Effect, f.Message)
		}
	}
	if x.Decision.By == tool.ByMode && x.Decision.Verdict == tool.Ask && text != "" {
		fmt.Fprintln(w, "  autoAllowBashIfSandboxed, on by default, answers this question of the mode")
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 {
				return fmt.Errorf("--count %d: want at least 1", n)
			}
			e, call, err := p.load(cmd, &f, args)
			if err != nil {
				return err
			}
			took := make([]time.Duration, n)
			for i := range took {
				start := time.Now()
				if _, err := e.Decide(cmd.Context(), call); err != nil {
					return err
				}
				took[i] = time.Since(start)
			}
			slices.Sort(took)
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d decisions: median %s, p99 %s, slowest %s\n", n, took[n/2], took[n*99/100], took[n-1])
			return err
		},
	}
	f.add(c)
	p.add(c)
	c.Flags().IntVar(&n, "count", 1000, "how many decisions")
	return c
}
