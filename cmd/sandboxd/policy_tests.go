package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/policy"
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
					return fmt.Errorf(
						"%s: %.1f %% covered, want %.1f: lines %v are not run", c.File, c.Percent, least, c.Missing,
					)
				}
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().Float64Var(&least, "min-coverage", 0, "fail when less than this is covered of a file, in percent")
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
	examples := ""
	if r.Examples == "" {
		examples = ", and the examples of all rules hold"
	}
	fmt.Fprintf(w, "%d of %d tests passed%s\n", passed, len(r.Tests), examples)
}
