package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/config"
	"github.com/sandboxd/sandboxd/policy"
)

// policyCmd is the workbench of a policy author. Nothing in it needs a daemon: it
// loads files with the code that the daemon loads them with.
func policyCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Write, check, test and explain policies",
		Long: `Policies say which calls pass, which ask and which are denied. They are
permission rules, such as Bash(git push *), or Rego. docs/policies.md has a
tutorial that starts from a denied call.`,
	}
	c.AddCommand(policyInitCmd(), policyCheckCmd(), policyTestCmd(), policyEvalCmd(), policyExplainCmd(), policyBenchCmd(), policyFmtCmd(), policyRulesCmd(), policyExportCmd())
	return c
}

// policyFlags are the options that say which policies to load.
type policyFlags struct {
	profile string
	rules   policy.Rules
	disable []string
}

func (f *policyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.profile, "profile", "", "developer, observe or strict (default: the configuration's)")
	c.Flags().StringArrayVar(&f.rules.Allow, "allow", nil, "permission rule that allows, such as 'Bash(git log *)'")
	c.Flags().StringArrayVar(&f.rules.Ask, "ask", nil, "permission rule that asks")
	c.Flags().StringArrayVar(&f.rules.Deny, "deny", nil, "permission rule that denies")
	c.Flags().StringArrayVar(&f.disable, "disable", nil, "id of a profile rule to switch off")
}

// options are those of the configuration with the flags and dirs on top, so that
// a bare check judges what the daemon would load.
func (f *policyFlags) options(dirs []string) (policy.Options, error) {
	wd, err := os.Getwd()
	if err != nil {
		return policy.Options{}, err
	}
	cfg, err := config.Load(config.Source{File: os.Getenv("SANDBOXD_CONFIG"), Env: os.Getenv, Dir: wd})
	if err != nil {
		return policy.Options{}, err
	}
	opts := cfg.Policy.Options()
	opts.Profile = cmp.Or(f.profile, opts.Profile)
	opts.Rules.Allow = append(opts.Rules.Allow, f.rules.Allow...)
	opts.Rules.Ask = append(opts.Rules.Ask, f.rules.Ask...)
	opts.Rules.Deny = append(opts.Rules.Deny, f.rules.Deny...)
	opts.Disable = append(opts.Disable, f.disable...)
	for _, d := range dirs {
		abs, err := filepath.Abs(d)
		if err != nil {
			return opts, err
		}
		opts.Dirs = append(opts.Dirs, abs)
	}
	return opts, nil
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
	c.Flags().StringVar(&owner, "owner", "local", "who the policy belongs to; part of its package name")
	return c
}

func policyCheckCmd() *cobra.Command {
	var f policyFlags
	c := &cobra.Command{
		Use: "check [DIR...]", Short: "Load policies as the daemon would, examples included",
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := f.engine(cmd, args)
			if err != nil {
				return err
			}
			s := e.Status()
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "ok: revision %s, profile %s, %d rules\n", s.Revision, s.Profile, len(s.Rules))
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
		Use: "export DIR", Short: "Write library, permission rules and schemas as files for opa", Args: cobra.ExactArgs(1),
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
