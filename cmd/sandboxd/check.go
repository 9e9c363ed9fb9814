package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/guard"
)

// checkCmd asks the guard alone: no daemon, no policy, nothing runs.
func checkCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Say what the guard sees in a command line or a path",
		Long: `Says which programs a command line can start, which files it reads and writes,
and whether the sandbox settings allow that. It runs nothing and asks no policy.

--settings names a file with sandbox settings, and nothing is added to them.
Without it check uses the settings of a daemon that has no configuration and
serves --cwd.`,
	}
	c.AddCommand(checkCommandCmd(), checkPathCmd())
	return c
}

type checkFlags struct {
	settings, cwd, home string
	jsonl, json         bool
}

func (f *checkFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.settings, "settings", "", "file with sandbox settings, JSON or YAML")
	c.Flags().StringVar(&f.cwd, "cwd", "", "working directory (default: this one)")
	c.Flags().StringVar(&f.home, "home", "", "home directory (default: $HOME)")
	c.Flags().BoolVar(&f.json, "json", false, "answer as JSON")
	c.Flags().BoolVar(
		&f.jsonl, "jsonl", false, "read questions from stdin and answer each: one JSON object on each line",
	)
}

// load fills what was left out.
func (f *checkFlags) load() (guard.Settings, error) {
	var err error
	if f.cwd == "" {
		f.cwd, err = os.Getwd()
	} else {
		f.cwd, err = filepath.Abs(f.cwd)
	}
	if err != nil {
		return guard.Settings{}, err
	}
	if f.home == "" {
		f.home = os.Getenv("HOME")
	}
	if f.settings == "" {
		return guard.DefaultSettings(f.cwd, f.home, nil), nil
	}
	doc, err := os.ReadFile(f.settings)
	if err != nil {
		return guard.Settings{}, err
	}
	s, err := guard.ParseSettings(doc)
	if err != nil {
		return guard.Settings{}, fmt.Errorf("%s: %w", f.settings, err)
	}
	return s, nil
}

func checkCommandCmd() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "command LINE",
		Short: "Judge a command line",
		Example: `  sandboxd check command 'cat ~/.ssh/id_rsa | base64'
  sandboxd check command --jsonl < lines`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.jsonl {
				return guard.CheckCommandLines(cmd.InOrStdin(), cmd.OutOrStdout())
			}
			if len(args) == 0 {
				return errors.New("no command line: give one in quotes, or --jsonl")
			}
			s, err := f.load()
			if err != nil {
				return err
			}
			j := guard.JudgeCommand(args[0], f.cwd, f.home, s)
			if f.json {
				return writeAnswer(cmd.OutOrStdout(), j.CommandAnswer(), j.Verdict)
			}
			showCommand(cmd.OutOrStdout(), args[0], j)
			return verdictError(j.Verdict)
		},
	}
	f.add(c)
	return c
}

func checkPathCmd() *cobra.Command {
	var f checkFlags
	var op string
	c := &cobra.Command{
		Use:     "path PATH",
		Short:   "Judge a path",
		Example: `  sandboxd check path --op write ../notes.md`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.jsonl {
				return guard.CheckPathLines(cmd.InOrStdin(), cmd.OutOrStdout())
			}
			if len(args) == 0 {
				return errors.New("no path: give one, or --jsonl")
			}
			if op != string(guard.Read) && op != string(guard.Write) {
				return fmt.Errorf("--op %q is not read or write", op)
			}
			s, err := f.load()
			if err != nil {
				return err
			}
			j := guard.JudgePath(args[0], guard.Op(op), f.cwd, f.home, s)
			if f.json {
				return writeAnswer(cmd.OutOrStdout(), j.PathAnswer(), j.Verdict)
			}
			showPath(cmd.OutOrStdout(), args[0], guard.Op(op), j)
			return verdictError(j.Verdict)
		},
	}
	f.add(c)
	c.Flags().StringVar(&op, "op", "read", "read or write")
	return c
}

func writeAnswer(out io.Writer, answer any, v guard.Verdict) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(answer); err != nil {
		return err
	}
	return verdictError(v)
}

func verdictError(v guard.Verdict) error {
	if v == guard.Allow {
		return nil
	}
	return exitStatus(exitDenied)
}
