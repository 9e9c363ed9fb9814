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
	"github.com/sandboxd/sandboxd/tool"
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
		Long: `Results and arguments of calls are kept as variables of their session. Without
--session these commands speak of the session of this directory.

What is set counts as the model's words, since agents can run this command too.
With --operator it is a person's.`,
		Example: `  sandboxd vars set greeting 'hello there'
  sandboxd call Bash '{"command": "echo $VAR_REF{{greeting:0:5}}"}'
  sandboxd vars ls --search greet
  sandboxd vars get greeting
  sandboxd vars rm greeting`,
	}
	c.PersistentFlags().StringVar(&f.session, "session", "", "session id (default: the session of this directory)")
	c.PersistentFlags().BoolVar(&f.operator, "operator", false, "speak over the operator socket, as a person")
	c.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	c.AddCommand(varsListCmd(f), varsGetCmd(f), varsSetCmd(f), varsRemoveCmd(f), varsOriginsCmd(f))
	return c
}

// at is the session in question, and a client of the socket that was asked for.
func (f *varsFlags) at(ctx context.Context) (*client.Client, string, error) {
	id, err := sessionID(ctx, client.New(agentSocketPath()), f.session)
	if f.operator {
		return client.New(approvalsSocket()), id, err
	}
	return client.New(agentSocketPath()), id, err
}

func varsListCmd(f *varsFlags) *cobra.Command {
	var filter client.VarFilter
	c := &cobra.Command{
		Use: "ls", Short: "List variables, the last visited first; never their values", Args: cobra.NoArgs,
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
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", safeLine(v.Name), v.Type, v.Length, originNames(v.Origins), clip(safeLine(v.Desc), 60))
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&filter.Search, "search", "", "only names and descriptions that hold this text")
	c.Flags().StringVar(&filter.Type, "type", "", "only this type: RULE, ToolCallResult, ToolCallArgs, MessageCache, LLMAdd, USER_ADD")
	c.Flags().StringVar(&filter.Tag, "tag", "", "only those with this tag")
	return c
}

func originNames(origins []tool.Origin) string {
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
				_, err = io.WriteString(cmd.OutOrStdout(), *v.Value)
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
				return &tool.Error{Code: "validation_error", Msg: "the value is not valid UTF-8", Hint: "variables hold text; keep other data in a file"}
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
	c.Flags().BoolVar(&keep, "keep", false, "never evict it")
	return c
}

func varsRemoveCmd(f *varsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Short: "Remove variables; rules stay", Args: cobra.MinimumNArgs(1),
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
				err = fmt.Errorf("not removed, for they are missing or rules: %s", safeLine(strings.Join(failed, ", ")))
			}
			return err
		},
	}
}

func varsOriginsCmd(f *varsFlags) *cobra.Command {
	var reset bool
	c := &cobra.Command{
		Use: "origins", Short: "Show who wrote what the session has read, or reset it", Args: cobra.NoArgs,
		Long: `Prints the authors of everything that the model of the session was shown. With
--reset a person holds it to be harmless: what follows from it ends, on the
operator socket alone.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, session, err := f.at(cmd.Context())
			if err == nil && reset {
				err = client.New(approvalsSocket()).ResetOrigins(cmd.Context(), session)
			}
			if err != nil {
				return err
			}
			shown, err := api.Origins(cmd.Context(), session)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), map[string][]tool.Origin{"session": shown})
			}
			for _, o := range shown {
				fmt.Fprintln(cmd.OutOrStdout(), o)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&reset, "reset", false, "forget it, as an operator")
	return c
}
