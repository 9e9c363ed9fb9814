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

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// scopesCmd shows variables of five scopes.
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

// placeQuery is the filter of a list for one place.
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

// tree prints what holds at each place of a session.
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

// node prints one place, and what holds there.
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

// clock shows Unix milliseconds.
func clock(at int64) string { return time.UnixMilli(at).Local().Format(time.DateTime) }
