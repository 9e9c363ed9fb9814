package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// scopesCmd returns the command for variables of the five scopes.
func scopesCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "scopes",
		Short: "Show variables of five scopes: global, chat, branch, floor and page",
		Long: `Programs that drive conversations keep variables in five scopes; docs/scopes.md says
how. A place is named as global, chat/SESSION, branch/SESSION/BRANCH, floor/ID or page/ID.`,
		Example: `  sandboxd scopes get chat/SESSION mood
  sandboxd scopes tree SESSION
  sandboxd scopes staged PAGE`,
	}
	c.AddCommand(scopesGetCmd(), scopesTreeCmd(), scopesStagedCmd(), scopesPromotionsCmd())
	return c
}

func scopesGetCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "get PLACE KEY", Short: "Print the value that one place has for a key, as JSON", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := placeQuery(args[0])
			if err != nil {
				return usageError{err}
			}
			q.Set("key", args[1])
			found, err := client.New(agentSocket()).ScopedVariables(cmd.Context(), q)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return &tool.Error{
					Code: "variable_not_found", Msg: fmt.Sprintf("%s has no variable %s", args[0], args[1]),
					Hint: "sandboxd scopes tree SESSION shows what holds where",
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), found[0])
			}
			_, err = fmt.Fprintln(results(cmd), string(found[0].Value))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the variable, not its value alone")
	return c
}

// placeQuery returns the query of a list for one place.
func placeQuery(place string) (url.Values, error) {
	scope, rest, named := strings.Cut(place, "/")
	switch {
	case scope == "global" && !named:
		return url.Values{"scope": {scope}}, nil
	case (scope == "chat" || scope == "floor" || scope == "page") && rest != "":
		return url.Values{"scope": {scope}, "scope_id": {rest}}, nil
	case scope == "branch":
		if session, branch, ok := strings.Cut(rest, "/"); ok && session != "" && branch != "" {
			return url.Values{"scope": {scope}, "session_id": {session}, "branch_id": {branch}}, nil
		}
	}
	return nil, &tool.Error{
		Msg:  fmt.Sprintf("%q is no place", place),
		Hint: "say global, chat/SESSION, branch/SESSION/BRANCH, floor/ID or page/ID",
	}
}

func scopesTreeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "tree SESSION", Short: "Print who sees which value, and from which scope it comes",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := tree{cmd.Context(), client.New(agentSocket()), args[0], visible.NewWriter(cmd.OutOrStdout())}
			return t.print()
		},
	}
}

// tree prints the effective variables at each place of a session.
type tree struct {
	ctx     context.Context
	api     *client.Client
	session string
	out     io.Writer
}

func (t tree) print() error {
	branches, err := t.api.Branches(t.ctx, t.session)
	if err != nil {
		return err
	}
	floors, err := t.api.Floors(t.ctx, t.session)
	if err != nil {
		return err
	}
	err = t.node(0, "session "+t.session, client.VariablePlace{})
	for _, b := range branches {
		err = errors.Join(err, t.node(1, "branch "+b.Branch, client.VariablePlace{Branch: b.Branch}))
		for _, f := range floors {
			if f.Branch == b.Branch && err == nil {
				err = t.floor(f)
			}
		}
		if err != nil {
			return err
		}
	}
	return err
}

func (t tree) floor(f client.Floor) error {
	err := t.node(2, fmt.Sprintf("floor %d, %s, %s", f.No, f.State, f.ID), client.VariablePlace{Floor: f.ID})
	if err != nil {
		return err
	}
	pages, err := t.api.Pages(t.ctx, f.ID)
	if err != nil {
		return err
	}
	for _, p := range pages {
		said := p.Kind
		if p.Active {
			said += ", active"
		}
		if p.Decision != nil {
			said += ", " + *p.Decision
		}
		title := fmt.Sprintf("page %d version %d, %s, %s", p.No, p.Version, said, p.ID)
		if err := t.node(3, title, client.VariablePlace{Page: p.ID}); err != nil {
			return err
		}
	}
	return nil
}

// node prints one place and its effective variables.
func (t tree) node(depth int, title string, at client.VariablePlace) error {
	at.Session = t.session
	seen, err := t.api.ResolveContext(t.ctx, at)
	if err != nil {
		return err
	}
	indent := strings.Repeat("  ", depth)
	fmt.Fprintln(t.out, indent+title)
	for _, row := range client.SortVariableInspectorRows(client.FlattenVariableSnapshot(seen)) {
		from := row.Scope
		for _, l := range row.Layers {
			if !l.Winning {
				from += ", over " + l.Scope
			}
		}
		fmt.Fprintf(t.out, "%s  %s = %s (%s)\n", indent, row.Key, review.Clip(row.Preview, 80), from)
	}
	return nil
}

func scopesStagedCmd() *cobra.Command {
	return &cobra.Command{
		Use: "staged PAGE", Short: "List what tools staged for a page, the newest first", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := client.New(agentSocket()).GetPageStagedWrites(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TIME\tKEY\tOP\tSTATUS\tWHY\tVALUE")
			for _, r := range client.FlattenPageStagedVariableWrites(found) {
				why := ""
				if r.Decision != nil {
					why = *r.Decision
				}
				visible.Row(w, clock(r.CreatedAt), r.Key, r.Op, r.Status, why, review.Clip(r.Preview, 60))
			}
			return w.Flush()
		},
	}
}

func scopesPromotionsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "promotions PAGE", Short: "List what was promoted from a page to its floor, by key",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := client.New(agentSocket()).GetPagePromotions(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TIME\tKEY\tTO\tVALUE")
			for _, g := range client.GroupVariablePromotionTrace(found) {
				for _, p := range g.Items {
					visible.Row(w, clock(p.CreatedAt), g.Key, p.To+"/"+p.ToID, review.Clip(string(p.Value), 60))
				}
			}
			return w.Flush()
		},
	}
}

// clock formats Unix milliseconds.
func clock(at int64) string { return time.UnixMilli(at).Local().Format(time.DateTime) }

// varsFlags are the flags that the subcommands of vars share.
type varsFlags struct {
	session  string
	operator bool
	json     bool
}

// varsCmd returns the command that shows and changes the variables of a session.
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

// at returns a client of the requested socket, and the session.
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
				v.Value = nil // the caller knows it
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
