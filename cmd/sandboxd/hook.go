package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/adapter"
	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// hookCmd returns the command that answers the hooks of other agents.
func hookCmd() *cobra.Command {
	var agent, onError, ask string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "hook",
		Short: "Answer the hook of another agent: judge its call by the rules of this daemon",
		Long: `Reads one hook call as JSON from stdin and prints the answer in the format of the
agent. When the rules ask, it waits until a person answers the daemon; with
--ask agent, the agent asks its own user.

A failure never allows a call. When the daemon does not answer, the time is up or
the input cannot be read, hook denies the call; with --on-error ask, the agent
asks its user. An unknown event passes when it has no tool call, and is blocked
when it has one.

An allowed command is rewritten to "sandboxd exec --call ID", which runs it once,
in the sandbox.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			o := adapter.Options{Agent: agent, Exe: exe, AskOnError: onError == "ask", Wait: ask == "daemon"}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("nobody answered within %v; "+
				"an answer given until ten minutes from now serves the same call when it is sent again", timeout))
			defer cancel()
			err = checkHookFlags(onError, ask)
			if err == nil {
				err = adapter.Answer(ctx, client.New(agentSocket()), cmd.InOrStdin(), cmd.OutOrStdout(), o)
			}
			if err != nil {
				complain(cmd.ErrOrStderr(), err)
				return exitStatus(adapter.Blocks)
			}
			return nil
		},
	}
	c.Flags().StringVar(&agent, "agent", clients.ClaudeCode, "the agent: "+strings.Join(clients.Names(), ", "))
	c.Flags().StringVar(&onError, "on-error", "deny", "the answer when the daemon cannot judge: deny or ask")
	c.Flags().StringVar(
		&ask, "ask", "daemon",
		"who answers when the rules ask: daemon (approvals of this daemon) or agent (its own user)",
	)
	c.Flags().DurationVar(
		&timeout, "timeout", adapter.Timeout, "how long to wait; the agent must wait longer for its hook",
	)
	c.AddCommand(hookInstallCmd(), hookUninstallCmd(), hookStatusCmd())
	return c
}

func checkHookFlags(onError, ask string) error {
	if onError != "deny" && onError != "ask" {
		return fmt.Errorf("unknown --on-error %q, want deny or ask", onError)
	}
	if ask != "daemon" && ask != "agent" {
		return fmt.Errorf("unknown --ask %q, want daemon or agent", ask)
	}
	return nil
}

// hookChange adds to the commands install and uninstall what they have in common.
func hookChange(c *cobra.Command, change func(*cobra.Command, adapter.Installation) error) *cobra.Command {
	n := adapter.Installation{}
	var project bool
	c.Args = cobra.MinimumNArgs(1)
	c.ValidArgs = clients.Names()
	c.RunE = func(cmd *cobra.Command, args []string) error {
		n.Agents = args
		if n.File != "" && (len(args) > 1 || project) {
			return usageError{errors.New("--file is the file of one agent, and goes without --project")}
		}
		var err error
		if n.Exe, err = os.Executable(); err != nil {
			return err
		}
		if project {
			if n.Project, err = os.Getwd(); err != nil {
				return err
			}
		}
		return change(cmd, n)
	}
	c.Flags().BoolVar(&project, "project", false, "the settings for the current directory, not those of the user")
	c.Flags().StringVar(&n.File, "file", "", "settings file of the agent (default: where the agent looks)")
	c.Flags().BoolVar(&n.Write, "write", false, "make the change")
	return c
}

func hookInstallCmd() *cobra.Command {
	return hookChange(&cobra.Command{
		Use:   "install AGENT...",
		Short: "Add this hook to the configuration of agents",
		Long: `Shows the change to the configuration of each agent: ` + strings.Join(clients.Names(), ", ") + `.
With --write it saves the old files beside the new ones and makes the change. If one of
the files cannot be changed, none is. Order, comments and what others wrote stay.

With --project the hook is for the current directory alone, in a file that the agent
does not share with other people if it has one.

The hook waits longer than a question to a person can last (approvals.timeout of the
daemon that runs), and the agent waits longer than the hook. docs/clients.md says what happens to each tool.`,
		Example: "  sandboxd hook install claude-code gemini --write",
	}, func(cmd *cobra.Command, n adapter.Installation) (err error) {
		if n.Question, err = questionTime(cmd); err != nil {
			return err
		}
		return adapter.Install(cmd.OutOrStdout(), n)
	})
}

// questionTime returns how long a question to a person can last: as the running daemon says, or as the configuration
// says.
func questionTime(cmd *cobra.Command) (time.Duration, error) {
	if s, ok := daemonCounts(cmd); ok && s.Waits > 0 { // an older daemon does not report it
		return time.Duration(s.Waits) * time.Second, nil
	}
	site, err := daemon.Load(version, nil)
	if err != nil {
		return 0, err
	}
	return site.ApprovalTimeout(), nil
}

func hookUninstallCmd() *cobra.Command {
	return hookChange(&cobra.Command{
		Use:   "uninstall AGENT...",
		Short: "Take this hook out of the configuration of agents",
		Long: `Shows the change to the configuration of each agent. With --write it saves the old
files beside the new ones and makes the change. Only the entries of sandboxd go.`,
		Example: "  sandboxd hook uninstall claude-code --write",
	}, func(cmd *cobra.Command, n adapter.Installation) error { return adapter.Uninstall(cmd.OutOrStdout(), n) })
}

func hookStatusCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show which agents have this hook",
		Long: `Shows for each agent whether its settings have the hook: those of the user, and those
of the current directory. What needs attention begins with "!". Of an agent that is newer than
the table of its tools in this sandboxd, tools that the table does not have ask a person.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			states := adapter.States(exe, dir)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), states)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), showHooks(states, screenOf(cmd)))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// showHooks returns the state of the hooks for people.
func showHooks(states []adapter.State, screen review.Screen) string {
	if !screen.Terminal {
		screen.Width = math.MaxInt32 // one line for each
	}
	var b strings.Builder
	row := func(label, text string) { screen.Row(&b, label, 12, text) }
	last := ""
	for _, s := range states {
		label := s.Agent
		if label == last {
			label = ""
		}
		last = s.Agent
		text := map[adapter.Hook]string{
			adapter.Installed: "has the hook", adapter.Absent: "no hook", adapter.Broken: "! the hook does not work",
			adapter.Unknown: "! not known",
		}[s.Hook]
		row(label, fmt.Sprintf("%s (%s: %s)", text, s.Scope, s.File))
		if s.Why != "" {
			row("", s.Why)
		}
		c, _ := clients.Find(s.Agent)
		if label != "" && s.Version != "" && c.Newer(s.Version) {
			row("", fmt.Sprintf("! %s %s is newer than the table of this sandboxd (%s): tools that it does not have "+
				"ask a person", c.Title, s.Version, c.Version))
		}
	}
	return b.String()
}

// hooksCmd returns the command that lists and tries the hooks of the running daemon.
func hooksCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "hooks", Short: "List and try the configured hooks (operator)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []hooks.Info
			if err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodGet, "/hooks", nil, &all); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			return listHooks(cmd.OutOrStdout(), all)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(hooksTestCmd())
	return c
}

func listHooks(out io.Writer, all []hooks.Info) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "EVENT\tHOOK\tKIND\tMATCHER\tTIMEOUT\tON ERROR\tRUNS")
	for _, h := range all {
		kind := h.Kind
		if h.Sandbox {
			kind += ", sandboxed"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%v\t%s\t%s\n", h.Event, h.Name, kind, cmp.Or(h.Matcher, "*"),
			time.Duration(h.TimeoutMS)*time.Millisecond, h.OnError, visible.Text(h.Command+h.URL))
	}
	return w.Flush()
}

// hookTrial is the answer of POST /hooks/test.
type hookTrial struct {
	Runs    []hooks.Run `json:"runs"`
	Outcome struct {
		Block          bool            `json:"block"`
		Ask            bool            `json:"ask"`
		Allow          bool            `json:"allow"`
		Reason         string          `json:"reason"`
		UpdatedInput   json.RawMessage `json:"updated_input"`
		SystemMessages []string        `json:"system_messages"`
	} `json:"outcome"`
}

func hooksTestCmd() *cobra.Command {
	in := hooks.Input{}
	var input string
	var asJSON bool
	c := &cobra.Command{
		Use: "test EVENT", Short: "Run the hooks of an event and show their answers (operator)",
		Args: cobra.ExactArgs(1),
		Long: `Runs the configured hooks as if the event had happened. It shows what each of them
answered, how long it took, and the result of all. The programs of the hooks run;
no call runs, no permission changes, and nobody is notified.

The exit status is 0, or 3 when the hooks block.`,
		Example: `  sandboxd hooks test preToolUse --tool Bash --input '{"command": "git push"}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if input != "" {
				if !json.Valid([]byte(input)) {
					return usageError{fmt.Errorf("--input %q is not JSON", input)}
				}
				in.ToolInput = json.RawMessage(input)
			}
			var t hookTrial
			body := map[string]any{"event": args[0], "input": in}
			err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodPost, "/hooks/test", body, &t)
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), t); err != nil {
					return err
				}
			} else if err := t.print(cmd.OutOrStdout()); err != nil {
				return err
			}
			if t.Outcome.Block {
				return exitStatus(exitDenied)
			}
			return nil
		},
	}
	c.Flags().StringVar(&in.ToolName, "tool", "", "name of the tool")
	c.Flags().StringVar(&input, "input", "", "arguments of the call, as JSON")
	c.Flags().StringVar(&in.Cwd, "cwd", "", "directory of the call")
	c.Flags().StringVar(&in.SessionID, "session", "", "session of the call")
	c.Flags().StringVar(&in.Prompt, "prompt", "", "text of userPromptSubmit")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (t hookTrial) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range t.Runs {
		took := r.Duration.Round(100 * time.Microsecond).String()
		switch {
		case r.Skipped:
			fmt.Fprintf(w, "%s\t-\tskipped: its matcher does not match\n", r.Name)
		case r.Err != "":
			fmt.Fprintf(w, "%s\t%s\tfailed: %s; then: %s\n", r.Name, took, visible.Text(r.Err), r.OnError)
		case r.Output == nil:
			fmt.Fprintf(w, "%s\t%s\tsaid nothing\n", r.Name, took)
		default:
			text, err := json.Marshal(r.Output)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", r.Name, took, visible.Text(string(text)))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "outcome:", t.outcome())
	return err
}

func (t hookTrial) outcome() string {
	o := t.Outcome
	var all []string
	say := func(what, why string) {
		if why != "" {
			what += ": " + visible.Text(why)
		}
		all = append(all, what)
	}
	switch {
	case o.Block:
		say("block", o.Reason)
	case o.Ask:
		say("ask a person", o.Reason)
	case o.Allow:
		say("allow where only the mode asks", o.Reason)
	}
	if o.UpdatedInput != nil {
		say("with other arguments", string(o.UpdatedInput))
	}
	for _, m := range o.SystemMessages {
		say("tell the model", m)
	}
	if len(all) == 0 {
		return "the hooks change nothing"
	}
	return strings.Join(all, "; ")
}
