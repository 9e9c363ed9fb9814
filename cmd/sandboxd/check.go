package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/shellparse"
)

// checkCmd returns the command that asks the guard only: it needs no daemon, applies no policy and runs nothing.
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

// load returns the settings, with defaults for those that are missing.
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

// showCommand prints a judgement for people: the verdict, each reason below its place in the line, and what the line
// would do.
func showCommand(out io.Writer, line string, j guard.Judgement) {
	fmt.Fprintln(out, j.Verdict)
	for _, r := range j.Reasons {
		fmt.Fprintf(out, "\n  %s: %s\n", r.Code, r.Message)
		showPlace(out, line, r.At)
		if r.Rule != "" {
			fmt.Fprintf(out, "  rule: %s\n", r.Rule)
		}
		if r.Hint != "" {
			fmt.Fprintf(out, "  hint: %s\n", r.Hint)
		}
	}
	facts := j.CommandAnswer().Facts
	if len(facts.Commands) > 0 {
		fmt.Fprintln(out)
	}
	for _, c := range facts.Commands {
		name := c.Path
		if c.Name == "" {
			name += " (not known)"
		}
		fmt.Fprintf(out, "  runs    %s", strings.TrimSpace(name+" "+strings.Join(c.Args, " ")))
		if len(c.Via) > 0 {
			fmt.Fprintf(out, "   (via %s)", strings.Join(c.Via, ", "))
		}
		fmt.Fprintln(out)
	}
	for _, list := range []struct {
		verb  string
		items []string
	}{{"reads", facts.Reads}, {"writes", facts.Writes}, {"dials", facts.Hosts}} {
		for _, item := range list.items {
			fmt.Fprintf(out, "  %-7s %s\n", list.verb, item)
		}
	}
}

// showPlace prints the line at a position, with a caret below it.
func showPlace(out io.Writer, text string, at shellparse.Pos) {
	begin, end := int(at.Offset), int(at.End)
	if at.Line == 0 || begin > len(text) {
		return
	}
	start := strings.LastIndexByte(text[:begin], '\n') + 1
	line := text[start:]
	if i := strings.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	from := begin - start
	to := min(max(end-start, from+1), max(len(line), from+1))
	// Of a long line only the part around the position is shown.
	const width = 100
	if cut := from - width/2; cut > 0 && len(line) > width {
		for cut < len(line) && !utf8.RuneStart(line[cut]) {
			cut++
		}
		line, from, to = "…"+line[cut:], from-cut+len("…"), to-cut+len("…")
	}
	from, to = min(from, len(line)), min(to, max(len(line), from+1))
	marked := 1
	if to <= len(line) {
		marked = max(utf8.RuneCountInString(visible.Text(line[from:to])), 1)
	}
	before := strings.Repeat(" ", utf8.RuneCountInString(visible.Text(line[:from])))
	fmt.Fprintf(out, "    %s\n    %s%s\n", visible.Text(line), before, strings.Repeat("^", marked))
}

func showPath(out io.Writer, path string, op guard.Op, j guard.Judgement) {
	fmt.Fprintf(out, "%s: %s %s\n", j.Verdict, op, path)
	if j.Resolved != "" && j.Resolved != path {
		fmt.Fprintf(out, "  resolved: %s\n", j.Resolved)
	}
	for _, r := range j.Reasons {
		fmt.Fprintf(out, "  %s: %s\n", r.Code, r.Message)
		if r.Rule != "" {
			fmt.Fprintf(out, "  rule: %s\n", r.Rule)
		}
		if r.Hint != "" {
			fmt.Fprintf(out, "  hint: %s\n", r.Hint)
		}
	}
}
