package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// policyCmd is the workbench of a policy author. Only what asks a running daemon needs one:
// files are loaded with the code that the daemon loads them with.
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

// policyFlags are the options that say which policies to load.
type policyFlags struct {
	profile policy.Profile
	rules   permission.Rules
	disable []string
	cmd     *cobra.Command // is told of a daemon with another configuration; nil: was told
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

// site is the configuration with the flags and dirs on top, so that a bare check judges
// what the daemon would load.
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

// more are the absolute names of dirs that there does not have.
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
