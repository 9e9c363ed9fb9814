package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/skills"
	"github.com/sandboxd/sandboxd/internal/skills/check"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// skillsFlags are the flags that the subcommands of skills share.
type skillsFlags struct {
	session string
	json    bool
}

// skillsCmd returns the command for skills.
func skillsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "skills", Short: "List, show and check skills",
		Long: `A skill is a prompt with a list of the tools that may be called while it runs. Five are
built in; packages, directories with a SKILL.md, are found in

  ~/.config/agents/skills  ~/.agents/skills  ~/.claude/skills

of the user of the daemon, and, where skills.workspace allows it, in .agents/skills and
.claude/skills of the directory of a session. Of one name the last counts.`,
		Example: `  sandboxd skills list
  sandboxd skills show commit
  sandboxd call Skill '{"skill": "ci"}'
  sandboxd skills end
  sandboxd skills check --strict .claude/skills`,
	}
	c.AddCommand(skillsListCmd(), skillsShowCmd(), skillsEndCmd(), skillsCheckCmd())
	return c
}

// flags adds the flags to a subcommand that asks the daemon.
func (f *skillsFlags) flags(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&f.session, "session", "", "session id (default: the session of this directory)")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return c
}

// do sends a request about the skills of the session.
func (f *skillsFlags) do(cmd *cobra.Command, method, path string, in, out any) error {
	api := client.New(agentSocket())
	id, err := sessionID(cmd.Context(), api, f.session)
	if err != nil {
		return err
	}
	return api.Do(cmd.Context(), method, "/sessions/"+url.PathEscape(id)+"/skills"+path, in, out)
}

func skillsListCmd() *cobra.Command {
	f := &skillsFlags{}
	return f.flags(&cobra.Command{
		Use: "list", Short: "List the skills of a session, built-in ones first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []skills.Skill
			if err := f.do(cmd, "GET", "", nil, &all); err != nil {
				return err
			}
			var none []skills.Ignored
			if err := f.do(cmd, "GET", "?format=ignored", nil, &none); err != nil {
				return err
			}
			for _, i := range none {
				fmt.Fprintf(cmd.ErrOrStderr(), "sandboxd: note: %s does not count: %s\n", i.Path, i.Reason)
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tALIASES\tSOURCE\tTOOLS\tWHAT")
			for _, k := range all {
				visible.Row(w, k.Name, strings.Join(k.Aliases, ", "), source(k), restrictions(k),
					review.Clip(k.Description, 60))
			}
			return w.Flush()
		},
	})
}

// source returns who wrote a skill, and whose skill it replaces.
func source(k skills.Skill) string {
	if k.Replaces == "" {
		return string(k.Source)
	}
	return fmt.Sprintf("%s, over %s", k.Source, k.Replaces)
}

// restrictions returns the tools that a skill allows, for a cell of a table.
func restrictions(k skills.Skill) string {
	switch {
	case !k.Available:
		return "(not available here)"
	case k.ToolRestrictions == nil:
		return "all"
	case len(k.ToolRestrictions) == 0:
		return "none"
	}
	return strings.Join(k.ToolRestrictions, ", ")
}

func skillsShowCmd() *cobra.Command {
	f := &skillsFlags{}
	return f.flags(&cobra.Command{
		Use: "show NAME", Short: "Print a skill, by name or alias, with its prompt", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var k skills.Skill
			if err := f.do(cmd, "GET", "/"+url.PathEscape(args[0]), nil, &k); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if f.json {
				return printJSON(out, k)
			}
			for _, row := range append([][2]string{
				{"name", k.Name},
				{"description", k.Description},
				{"aliases", strings.Join(k.Aliases, ", ")},
				{"arguments", text(k.ArgumentHint)},
				{"when", text(k.WhenToUse)},
				{"tools", restrictions(k)},
				{"model", text(k.Model)},
				{"source", source(k)},
				{"directory", text(k.BaseDir)},
				{"files", strings.Join(k.SupportingFiles, ", ")},
			}, notes(k)...) {
				if row[1] != "" {
					fmt.Fprintf(out, "%-12s %s\n", row[0], row[1])
				}
			}
			if k.Prompt != nil {
				fmt.Fprintf(out, "\n%s\n", *k.Prompt)
			}
			return nil
		},
	})
}

func skillsEndCmd() *cobra.Command {
	f := &skillsFlags{}
	return f.flags(&cobra.Command{
		Use: "end", Short: "End the innermost skill that runs in a session", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var done struct {
				Ended   *string           `json:"ended"`
				Running []json.RawMessage `json:"running"`
			}
			if err := f.do(cmd, "POST", "/end", map[string]any{}, &done); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case f.json:
				return printJSON(out, done)
			case done.Ended == nil:
				fmt.Fprintln(out, "no skill runs")
			case len(done.Running) == 0:
				fmt.Fprintf(out, "%s has ended; nothing is restricted by a skill\n", visible.Text(*done.Ended))
			default:
				fmt.Fprintf(out, "%s has ended; skills that run: %d\n", visible.Text(*done.Ended), len(done.Running))
			}
			return nil
		},
	})
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func notes(k skills.Skill) (rows [][2]string) {
	for _, d := range k.Diagnostics {
		rows = append(rows, [2]string{"note", d})
	}
	return rows
}

// skillsCheckCmd returns the command that checks packages. It needs no daemon.
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

// summarise adds a table to the summary file of GitHub Actions.
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

// agentLine holds the fields of an agent that are shown.
type agentLine struct {
	Session string `json:"session_id"`
	Agent   string `json:"agent,omitempty"`
	Parent  string `json:"parent,omitempty"`
	Mode    string `json:"mode"`
	State   string `json:"state"`
	Dir     string `json:"cwd"`
	Used    struct {
		Calls  int   `json:"calls"`
		CPUMS  int64 `json:"cpu_ms"`
		WallMS int64 `json:"wall_ms"`
	} `json:"used"`
}

// agentsCmd returns the command that lists agents.
func agentsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "agents", Short: "Show which agents work, and under whom",
		Long: `An agent works in a session. A session whose agent another one started has that as its
parent: it may do at most what its parent may, and ends with it.`,
	}
	c.AddCommand(agentsTreeCmd())
	return c
}

func agentsTreeCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "tree", Short: "Show who runs under whom, in which mode, and what each has used", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []agentLine
			err := client.New(agentSocket()).Do(cmd.Context(), http.MethodGet, "/agents", nil, &all)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SESSION\tAGENT\tMODE\tSTATE\tCALLS\tCPU\tDIRECTORY")
			depth := map[string]int{}
			for _, a := range all {
				if a.Parent != "" {
					depth[a.Session] = depth[a.Parent] + 1
				}
				visible.Row(w, strings.Repeat("  ", depth[a.Session])+a.Session, a.Agent, a.Mode, a.State,
					fmt.Sprint(a.Used.Calls), (time.Duration(a.Used.CPUMS) * time.Millisecond).String(), a.Dir)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
