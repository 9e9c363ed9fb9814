package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/skills/check"
)

// skillsCheckCmd judges packages; it needs no daemon.
func skillsCheckCmd() *cobra.Command {
	var prefix string
	var strict, asJSON bool
	c := &cobra.Command{
		Use: "check [DIR...]", Short: "Judge skill packages by rules that need no model",
		Long: `Judges packages by 14 rules, by the Agent Skills specification (SPEC), and by what they
refer to (REF). A directory stands for itself, or for the packages below it; without
one, all packages below this directory are judged. No daemon is needed.

The status is 0, or 1 with --strict and a finding that is HIGH or CRITICAL, or 2 if there is
nothing to judge. Where GITHUB_ACTIONS is set, findings are annotations too; where
GITHUB_STEP_SUMMARY is set, a table is added to that file.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cwd, err := os.Getwd()
			if err != nil {
				return err
			}
			checker := check.New(prefix, cwd)
			packages, err := checker.Find(args...)
			if err == nil && len(packages) == 0 {
				err = errors.New("there is no skill package here: no directory has a SKILL.md")
			}
			if err != nil {
				return usageError{err}
			}
			all := append([]check.Finding{}, checker.Check(packages...)...)
			if err := summarise(all, len(packages)); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case asJSON:
				check.Sort(all)
				if err := printJSON(out, all); err != nil {
					return err
				}
			default:
				check.Print(out, all, len(packages))
				if os.Getenv("GITHUB_ACTIONS") != "" {
					check.Annotate(out, all)
				}
			}
			if strict && check.Fails(all) {
				return exitStatus(exitFailed)
			}
			return nil
		},
	}
	c.Flags().StringVar(&prefix, "prefix", "", "what names begin with, such as bmad-")
	c.Flags().BoolVar(&strict, "strict", false, "fail if a finding is HIGH or CRITICAL")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// summarise adds a table to the file that GitHub Actions names.
func summarise(all []check.Finding, packages int) error {
	name := os.Getenv("GITHUB_STEP_SUMMARY")
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(check.Summary(f, all, packages), f.Close())
}
