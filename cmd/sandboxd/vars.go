package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// varsFlags are what all subcommands of vars share.
type varsFlags struct {
	session  string
	operator bool
	json     bool
}

// varsCmd shows and changes the variables of a session.
func varsCmd() *cobra.Command {
	f := &varsFlags{}
	c := &cobra.Command{
		Use:   "vars",
		Short: "List, read and write the variables of a session",
		Long: `The daemon keeps the results and arguments of calls as variables of their session.
Without --session these commands use the session of this directory.

A value that is set counts as written by the model, because agents can run this
command too. With --operator it counts as written by a person.`,
		Example: `  sandboxd vars set greeting 'hello there'
  sandboxd call Bash '{"command": "echo $VAR_REF{{greeting:0:5}}"}'
  sandboxd vars ls --search greet
  sandboxd vars get greeting
  sandboxd vars rm greeting`,
	}
	c.PersistentFlags().StringVar(&f.session, "session", "", "session id (default: the session of this directory)")
	c.PersistentFlags().BoolVar(&f.operator, "operator", false, "use the operator socket, as a person")
	c.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	c.AddCommand(varsListCmd(f), varsGetCmd(f), varsSetCmd(f), varsRemoveCmd(f), varsOriginsCmd(f))
	return c
}

// at is the session in question, and a client of the socket that was asked for.
func (f *varsFlags) at(ctx context.Context) (*client.Client, string, error) {
	id, err := sessionID(ctx, client.New(agentSocket()), f.session)
	if f.operator {
		return client.New(operatorSocket()), id, err
	}
	return client.New(agentSocket()), id, err
}

func varsListCmd(f *varsFlags) *cobra.Command {
	var filter client.VarFilter
	c := &cobra.Command{
		Use: "ls", Short: "List variables without their values, the last visited first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, session, err := f.at(cmd.Context())
			if err != nil {
				return err
			}
			found, err := api.Vars(cmd.Context(), session, filter)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), found)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tTYPE\tLENGTH\tORIGINS\tDESCRIPTION")
			for _, v := range found {
				visible.Row(w, v.Name, v.Type, v.Length, originNames(v.Origins), review.Clip(v.Desc, 60))
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&filter.Search, "search", "", "only variables with this text in their name or description")
	c.Flags().StringVar(
		&filter.Type, "type", "", "only this type: RULE, ToolCallResult, ToolCallArgs, MessageCache, LLMAdd, USER_ADD",
	)
	c.Flags().StringVar(&filter.Tag, "tag", "", "only variables with this tag")
	return c
}

func originNames(origins []client.Origin) string {
	names := make([]string, len(origins))
	for i, o := range origins {
		names[i] = string(o)
	}
	return strings.Join(names, ",")
}

func varsGetCmd(f *varsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Print the value of a variable", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, session, err := f.at(cmd.Context())
			if err != nil {
				return err
			}
			v, err := api.Var(cmd.Context(), session, args[0])
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), v)
			}
			if v.Value != nil {
				_, err = io.WriteString(results(cmd), *v.Value)
			}
			return err
		},
	}
}

func varsSetCmd(f *varsFlags) *cobra.Command {
	var desc string
	var tags []string
	var keep bool
	c := &cobra.Command{
		Use: "set NAME VALUE", Short: "Write a variable; - reads the value from stdin", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			value := args[1]
			if value == "-" {
				b, err := io.ReadAll(cmd.InOrStdin())
				if err != nil {
					return err
				}
				value = string(b)
			}
			if !utf8.ValidString(value) {
				return &tool.Error{
					Code: "validation_error", Msg: "the value is not valid UTF-8",
					Hint: "variables hold text; keep other data in a file",
				}
			}
			in := client.VarChange{Value: value}
			if cmd.Flags().Changed("desc") {
				in.Desc = &desc
			}
			if cmd.Flags().Changed("tag") {
				in.Tags = &tags
			}
			if cmd.Flags().Changed("keep") {
				in.Keep = &keep
			}
			api, session, err := f.at(cmd.Context())
			if err != nil {
				return err
			}
			v, err := api.PutVar(cmd.Context(), session, args[0], in)
			if err == nil && f.json {
				v.Value = nil // it is what was given
				err = printJSON(cmd.OutOrStdout(), v)
			}
			return err
		},
	}
	c.Flags().StringVar(&desc, "desc", "", "description")
	c.Flags().StringSliceVar(&tags, "tag", nil, "tags")
	c.Flags().BoolVar(&keep, "keep", false, "keep it when the session has too many variables")
	return c
}

func varsRemoveCmd(f *varsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Short: "Remove variables; rules cannot be removed", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, session, err := f.at(cmd.Context())
			if err != nil {
				return err
			}
			removed, failed, err := api.RemoveVars(cmd.Context(), session, args...)
			if err != nil {
				return err
			}
			if f.json {
				err = printJSON(cmd.OutOrStdout(), map[string][]string{"removed": removed, "failed": failed})
			}
			if err == nil && len(failed) > 0 {
				err = fmt.Errorf(
					"not removed, because they do not exist or are rules: %s",
					visible.Text(strings.Join(failed, ", ")),
				)
			}
			return err
		},
	}
}

func varsOriginsCmd(f *varsFlags) *cobra.Command {
	var reset bool
	c := &cobra.Command{
		Use: "origins", Short: "Show who wrote what the session has read, or reset it", Args: cobra.NoArgs,
		Long: `Prints who wrote what the model of the session has read, and from which hosts
the text of the web came. With --reset a person
declares that it is harmless: the rules about these authors then no longer apply.
--reset needs the operator socket.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, session, err := f.at(cmd.Context())
			if err == nil && reset {
				err = client.New(operatorSocket()).ResetOrigins(cmd.Context(), session)
			}
			if err != nil {
				return err
			}
			shown, err := api.Origins(cmd.Context(), session)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), shown)
			}
			for _, o := range shown.Session {
				if o == "web" && len(shown.Hosts) > 0 {
					o += client.Origin(" from " + strings.Join(shown.Hosts, ", "))
				}
				visible.Row(cmd.OutOrStdout(), o)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&reset, "reset", false, "forget the authors (operator)")
	return c
}
