package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// hooksCmd shows the hooks of the running daemon, and tries them.
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

// hookTrial is what POST /hooks/test answers.
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
