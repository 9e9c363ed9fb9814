package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/whatif"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// policyCmd returns the command for authors of policies. Only its subcommands that ask a running daemon need one;
// all others load files with the code of the daemon.
func policyCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Write, check, test and explain policies",
		Long: `Policies allow calls, deny them, or ask a person. They are permission rules, such
as Bash(git push *), or Rego. docs/policies.md has a tutorial that starts with a
denied call.`,
	}
	c.AddCommand(
		policyInitCmd(), policyCheckCmd(), policyTestCmd(), policyEvalCmd(), policyExplainCmd(), policyBenchCmd(),
		policyFmtCmd(), policyRulesCmd(), policyExportCmd(), policyReplayCmd(), policyDiffCmd(), policySuggestCmd(),
		policyShadowCmd(),
	)
	return c
}

// policyFlags are the flags that say which policies to load.
type policyFlags struct {
	profile policy.Profile
	rules   permission.Rules
	disable []string
	cmd     *cobra.Command // gets a warning if the daemon has another configuration; nil: it was given
}

func (f *policyFlags) add(c *cobra.Command) {
	f.cmd = c
	c.Flags().StringVar((*string)(&f.profile), "profile", "",
		"developer, observe or strict (default: the configuration's)")
	c.Flags().StringArrayVar(&f.rules.Allow, "allow", nil, "permission rule that allows, such as 'Bash(git log *)'")
	c.Flags().StringArrayVar(&f.rules.Ask, "ask", nil, "permission rule that asks")
	c.Flags().StringArrayVar(&f.rules.Deny, "deny", nil, "permission rule that denies")
	c.Flags().StringArrayVar(&f.disable, "disable", nil, "id of a profile rule to switch off")
}

// site returns the configuration with the flags and dirs added, so that check without arguments loads what the
// daemon would load.
func (f *policyFlags) site(dirs []string) (*daemon.Site, error) {
	site, err := daemon.Load(version, nil)
	if err != nil {
		return nil, err
	}
	if f.cmd != nil {
		noteConfig(f.cmd, site)
	}
	p := &site.Config.Policy
	p.Profile = cmp.Or(f.profile, p.Profile)
	p.Rules.Allow = append(p.Rules.Allow, f.rules.Allow...)
	p.Rules.Ask = append(p.Rules.Ask, f.rules.Ask...)
	p.Rules.Deny = append(p.Rules.Deny, f.rules.Deny...)
	p.Disable = append(p.Disable, f.disable...)
	more, err := more(p.Dirs, dirs)
	if err != nil {
		return nil, err
	}
	p.Dirs = append(p.Dirs, more...)
	return site, nil
}

// more returns the absolute paths of those dirs that there does not hold.
func more(there, dirs []string) ([]string, error) {
	var out []string
	for _, d := range dirs {
		abs, err := filepath.Abs(d)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(there, abs) && !slices.Contains(out, abs) {
			out = append(out, abs)
		}
	}
	return out, nil
}

func (f *policyFlags) options(dirs []string) (policy.Options, error) {
	site, err := f.site(dirs)
	if err != nil {
		return policy.Options{}, err
	}
	return site.PolicyOptions(), nil
}

func (f *policyFlags) engine(c *cobra.Command, dirs []string) (*policy.Engine, error) {
	opts, err := f.options(dirs)
	if err != nil {
		return nil, err
	}
	return policy.New(c.Context(), opts)
}

func policyInitCmd() *cobra.Command {
	var owner string
	c := &cobra.Command{
		Use: "init DIR", Short: "Write a first policy with its test", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := policy.Init(args[0], owner)
			for _, f := range files {
				fmt.Fprintln(cmd.OutOrStdout(), f)
			}
			return err
		},
	}
	c.Flags().StringVar(&owner, "owner", "local", "owner of the policy; a part of its package name")
	return c
}

func policyCheckCmd() *cobra.Command {
	var f policyFlags
	c := &cobra.Command{
		Use: "check [DIR...]", Short: "Load policies as the daemon does, and run their examples",
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := f.engine(cmd, args)
			if err != nil {
				return err
			}
			s := e.Status()
			_, err = fmt.Fprintf(
				cmd.OutOrStdout(), "ok: revision %s, profile %s, %d rules\n", s.Revision, s.Profile, len(s.Rules),
			)
			return err
		},
	}
	f.add(c)
	return c
}

func policyRulesCmd() *cobra.Command {
	var f policyFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "rules [DIR...]", Short: "List the rules that are loaded",
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := f.engine(cmd, args)
			if err != nil {
				return err
			}
			rules := e.Status().Rules
			if asJSON {
				return printJSON(cmd.OutOrStdout(), rules)
			}
			for _, r := range rules {
				fmt.Fprintf(cmd.OutOrStdout(), "%-32s %-6s %s\n", r.ID, r.Effect, r.Title)
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func policyExportCmd() *cobra.Command {
	var f policyFlags
	c := &cobra.Command{
		Use: "export DIR", Short: "Write the library, the permission rules and the schemas as files for opa",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			opts, err := f.options(nil)
			if err != nil {
				return err
			}
			return policy.Export(args[0], opts)
		},
	}
	f.add(c)
	return c
}

func policyFmtCmd() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use: "fmt FILE|DIR...", Short: "Format Rego files in place", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := 0
			for _, arg := range args {
				files, err := policy.Files(arg)
				if err != nil {
					return err
				}
				for _, name := range files {
					differs, err := formatFile(name, !check)
					if err != nil {
						return err
					}
					if differs {
						changed++
						fmt.Fprintln(cmd.OutOrStdout(), name)
					}
				}
			}
			if check && changed > 0 {
				return errors.New("files are not formatted")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&check, "check", false, "change nothing; fail when a file is not formatted")
	return c
}

func formatFile(name string, write bool) (differs bool, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return false, err
	}
	old, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	text, err := policy.Format(name, old)
	if err != nil || string(text) == string(old) {
		return false, err
	}
	if !write {
		return true, nil
	}
	return true, os.WriteFile(name, text, info.Mode().Perm())
}

// policyCall selects the calls that a command judges, and says what is unknown about them without a daemon.
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

// offline opens the request path of the configuration with the flags.
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

// each passes every described call to judge.
func (p *policyCall) each(stdin io.Reader, judge func(policy.Example) error) error {
	err := whatif.Calls{Command: p.command, Recent: p.recent, Mode: p.mode}.Each(stdin, judge)
	if errors.Is(err, whatif.ErrNoCall) {
		return usageError{err}
	}
	return err
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

// explainAll judges every described call and passes the answers on.
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
				whatif.PrintExplanation(cmd.OutOrStdout(), x)
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
				judge, err := x.Judge(cmd.Context(), e)
				if err != nil {
					return err
				}
				took, err := whatif.Measure(n, judge)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d decisions: median %s, p99 %s, slowest %s\n",
					n, took.Median, took.P99, took.Slowest)
				return err
			})
		},
	}
	f.add(c)
	p.add(c)
	c.Flags().IntVar(&n, "count", 1000, "how many decisions")
	return c
}
